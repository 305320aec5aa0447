"""Faults of skrl itself on several ranks, each with its counterpart under the adapter.

Only skrl's startup is replaced, because it needs NCCL and a GPU: its rank is set directly, and its
own collectives run over the fake group. If a test of a native fault fails, skrl has fixed the
fault: check whether the adapter can do less.
"""

from __future__ import annotations

import dataclasses
import re

import pytest
from skrl_fakes import PLACE, Corridor, small_agent

from rltrain.metrics.environment import CountedEnv
from rltrain.testing import CollectiveMismatch, Deadlock, FakeWorld, RankRun, differing
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.torch.env import SkrlEnv

bootstrap.import_skrl()

from skrl.agents.torch.trpo import TRPO_CFG  # noqa: E402
from skrl.utils.runner.torch import Runner  # noqa: E402

MODELS = ("policy", "value", "observation_preprocessor", "value_preprocessor")
EARLY = {"kl_threshold": 0.002, "learning_epochs": 8, "mini_batches": 4}
"""Ranks see different data, and leave epochs by this threshold at different mini-batches."""


def native(**agent):
    """Train two ranks with skrl's own runner, agent and models."""

    def on_rank(group):
        with bootstrap.configured(group.world):
            env = SkrlEnv(CountedEnv(Corridor(16), seed=group.rank), "cpu", "episode")
            runner = Runner(env, native_options(agent))
            runner.run("train")
        modules = runner.agent.checkpoint_modules
        return RankRun(None, {name: modules[name] for name in MODELS}, ())

    return FakeWorld(2, torch=True, rank_local=PLACE).run(on_rank)


def native_options(agent):
    options = small_agent(**agent)
    known = {field.name for field in dataclasses.fields(TRPO_CFG)}
    if options["agent"]["class"] == "TRPO":
        options["agent"] = {k: v for k, v in options["agent"].items() if k in {"class", *known}}
    options["seed"] = 1
    options["agent"]["experiment"] = {"write_interval": 0, "checkpoint_interval": 0}
    options["trainer"] |= {"headless": True, "disable_progressbar": True}
    options["trainer"]["close_environment_at_exit"] = False
    return options


def test_native_early_stopping_mismatches_collectives():
    with pytest.raises(CollectiveMismatch) as caught:
        native(**EARLY, learning_rate_scheduler="KLAdaptiveLR")
    # A rank that has left the epoch reduces its KL divergence, the other its gradients.
    assert re.search(r"float32\[\], called at .*ppo\.py:\d+ in update", str(caught.value))
    assert re.search(r"float32\[\d+\], called at .* in reduce_parameters", str(caught.value))


def test_native_early_stopping_without_a_schedule_deadlocks():
    with pytest.raises(Deadlock) as caught:
        native(**EARLY, learning_rate_scheduler=None)
    assert re.search(r"waits for . in all_reduce.* in reduce_parameters", str(caught.value))
    assert "has returned" in str(caught.value)


def test_adapted_early_stopping_is_by_all_ranks_or_none(train_ranks, local_gradients):
    iterations = 3
    runs = train_ranks(
        FakeWorld(2, rank_local=PLACE),
        max_iterations=iterations,
        agent={f"agent.{name}": value for name, value in EARLY.items()},
        observers=[local_gradients],
    )
    steps, other = (len(run.observers[0].given) for run in runs)
    assert steps == other
    assert iterations < steps < iterations * EARLY["learning_epochs"] * EARLY["mini_batches"]
    assert not differing(runs)


def test_native_trpo_averages_missing_gradients():
    with pytest.raises((RuntimeError, ValueError), match="non-empty") as caught:
        native(**{"class": "TRPO", "learning_rate_scheduler": None})
    assert "reduce_parameters" in [frame.name for frame in caught.traceback]


def test_native_preprocessors_differ_although_weights_do_not():
    names = set(differing(native()))
    assert {"observation_preprocessor.running_mean", "value_preprocessor.running_mean"} <= names
    assert not any(name.startswith(("policy", "value.")) for name in names)


def test_adapted_preprocessors_are_equal(train_ranks):
    assert not differing(train_ranks(FakeWorld(2, rank_local=PLACE), max_iterations=3))
