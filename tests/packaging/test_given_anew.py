"""What is given beside a checkpoint counts over what the checkpoint holds, in every library."""

from __future__ import annotations

import json
import shutil
from functools import partial, reduce
from operator import getitem

import numpy as np
import pytest
import torch

from rltrain.hookspecs import hookimpl
from rltrain.options import get_dotted, load_yaml
from rltrain.records import RunStarted
from rltrain.testing import FakeWorld, differing

pytestmark = pytest.mark.slow

CONTINUOUS, DISCRETE = "rltrain/CartPoleContinuous-v1", "rltrain/CartPole-v1"

RL_GAMES = {"params.config.save_frequency": 1}
MLP = {"units": [8], "activation": "elu", "initializer": {"name": "default"}}
CENTRAL = {
    "+params.config.central_value_config": {
        "minibatch_size": 64,
        "mini_epochs": 1,
        "clip_value": False,
        "normalize_input": False,
        "network": {"name": "actor_critic", "central_value": True, "mlp": MLP},
    }
}
SAC = {
    "params.network.mlp.units": [8],
    "params.config.num_steps_per_episode": 4,
    "params.config.num_updates_per_step": 1,
    "params.config.num_warmup_frames": 64,
    "params.config.batch_size": 16,
    "params.config.replay_buffer_size": 512,
}
RSL_RL = {
    "num_steps_per_env": 8,
    "algorithm.num_learning_epochs": 1,
    "algorithm.num_mini_batches": 2,
    "algorithm.schedule": "fixed",
}
CURIOUS = {
    "+algorithm.rnd_cfg": {
        "num_outputs": 4,
        "weight": 1.0,
        "predictor_hidden_dims": [8],
        "target_hidden_dims": [8],
    }
}
SKRL = {"agent.rollouts": 4, "agent.mini_batches": 2}
NONE = {"agent.learning_rate_scheduler": None}
REPLAY = {
    "agent.random_timesteps": 1,
    "agent.learning_starts": 2,
    "agent.batch_size": 8,
    "memory.memory_size": 16,
    "trainer.timesteps": 100,
}
LINEAR = "__import__('torch').optim.lr_scheduler.LinearLR"
KWARGS = "agent.learning_rate_scheduler_kwargs"


def group(optimizer, name="lr"):
    """Return how to read what an optimizer in a checkpoint steps by."""
    return lambda saved: get_dotted(saved, f"{optimizer}.param_groups.0.{name}")


def at(key):
    return lambda saved: get_dotted(saved, key)


def exp(key, *name):
    """Return how to read the value whose logarithm is in a checkpoint."""
    return lambda saved: reduce(getitem, name, get_dotted(saved, key)).exp().mean().item()


def mean(model, name):
    return lambda saved: saved[model][name].mean().item()


GROUP = "optimizer_state_dict"
SCHEDULE = "rltrain.parts.scheduler"
TEMPERATURE = "rltrain.parts.entropy_coefficient.log"
RATES = (1e-3, 4e-3)
OFF = {"library": "skrl", "task": CONTINUOUS}


def skrl(algorithm, task=CONTINUOUS):
    return OFF | {"algorithm": algorithm, "task": task}


ADDED = "central_value_config.learning_rate"
SIGMA = "space.continuous.sigma_init.val"
KINDS = [
    (
        {"library": "rl_games", "task": CONTINUOUS},
        RL_GAMES | {"params.config.lr_schedule": None},
        [
            ("params.config.learning_rate", RATES, group("optimizer")),
            ("params.config.weight_decay", (0.0, 0.1), group("optimizer", "weight_decay")),
            (f"params.network.{SIGMA}", (0, -2.0), mean("model", "a2c_network.sigma")),
            ("params.config.entropy_coef", (0.0, 0.02), at("rltrain.entropy_coef")),
        ],
    ),
    (
        {"library": "rl_games", "task": CONTINUOUS},
        RL_GAMES | {"params.config.lr_schedule": None} | CENTRAL,
        [(f"params.config.{ADDED}", RATES, group("assymetric_vf_optimizer"))],
    ),
    (
        {"library": "rl_games", "task": CONTINUOUS, "algorithm": "sac"},
        RL_GAMES | SAC,
        [
            ("params.config.actor_lr", RATES, group("actor_optimizer")),
            ("params.config.critic_lr", RATES, group("critic_optimizer")),
            (
                "params.config.critic_betas",
                ([0.9, 0.999], [0.5, 0.9]),
                group("critic_optimizer", "betas"),
            ),
            ("params.config.alpha_lr", RATES, group("log_alpha_optimizer")),
            ("params.config.init_alpha", (1.0, 0.1), exp("rltrain.log_alpha")),
        ],
    ),
    (
        {"library": "rsl_rl"},
        RSL_RL,
        [
            ("algorithm.learning_rate", RATES, group(GROUP)),
            (
                "actor.distribution_cfg.init_std",
                (1.0, 0.1),
                exp("actor_state_dict", "distribution.log_std_param"),
            ),
        ],
    ),
    (
        {"library": "rsl_rl"},
        RSL_RL | CURIOUS,
        [("algorithm.rnd_cfg.learning_rate", RATES, group("rnd_optimizer_state_dict"))],
    ),
    (
        OFF,
        SKRL | NONE,
        [
            ("models.policy.initial_log_std", (0.0, -2.0), mean("policy", "log_std_parameter")),
            ("agent.learning_rate", RATES, group("optimizer")),
        ],
    ),
    (skrl("a2c"), SKRL | NONE, [("agent.learning_rate", RATES, group("optimizer"))]),
    (
        OFF | {"task": "rltrain/Pendulum-v1"},
        SKRL | {"agent.learning_rate_scheduler": LINEAR},
        [
            ("agent.learning_rate", RATES, at(f"{SCHEDULE}.base_lrs.0")),
            (f"{KWARGS}.total_iters", (5, 9), at(f"{SCHEDULE}.total_iters")),
        ],
    ),
    (
        OFF,
        SKRL | {"agent.learning_rate_scheduler": "KLAdaptiveLR"},
        [(f"{KWARGS}.kl_threshold", (0.01, 0.5), at(f"{SCHEDULE}.kl_threshold"))],
    ),
    (
        skrl("sac"),
        REPLAY,
        [
            ("agent.learning_rate", RATES, group("policy_optimizer")),
            ("agent.learning_rate", ([1e-3] * 3, [1e-3, 4e-3, 1e-3]), group("critic_optimizer")),
            ("agent.learning_rate", RATES, group("entropy_optimizer")),
            ("agent.initial_entropy_value", (1.0, 0.2), exp(TEMPERATURE)),
        ],
    ),
    (skrl("td3"), REPLAY, [("agent.learning_rate", RATES, group("critic_optimizer"))]),
    (skrl("ddpg"), REPLAY, [("agent.learning_rate", RATES, group("policy_optimizer"))]),
    (skrl("dqn", DISCRETE), REPLAY, [("agent.learning_rate", RATES, group("optimizer"))]),
    (skrl("ddqn", DISCRETE), REPLAY, [("agent.learning_rate", RATES, group("optimizer"))]),
]
OPTIONS = [(run, agent, *row) for run, agent, rows in KINDS for row in rows]


class Resumed:
    """Keeps what a run says of its checkpoint."""

    @hookimpl
    def rltrain_write(self, record):
        if isinstance(record, RunStarted):
            self.text = record.resumed


@pytest.fixture
def train(tmp_path):

    def start(iterations, agent, checkpoint=None, **options):
        places = ["skrl:config.torch", "skrl:config.jax"] if options["library"] == "skrl" else []
        runs = FakeWorld(2, rank_local=places).train(
            **{"num_envs": 8, "log_root": str(tmp_path), "observers": [Resumed], **options},
            agent=agent,
            max_iterations=iterations,
            checkpoint=checkpoint,
        )
        assert not differing(runs)
        return runs[0]

    return start


def named(option):
    run, _, key, values, _ = option
    return f"{run['library']} {run.get('algorithm', 'ppo')} {key} {values[1]}"


def plain(value):
    return list(value) if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize(
    ("run", "agent", "key", "values", "read"), OPTIONS, ids=map(named, OPTIONS)
)
def test_what_is_given_anew_counts_until_something_else_is_given(
    train, run, agent, key, values, read
):
    load = partial(torch.load, weights_only=False)

    def value(of):
        found = plain(read(load(of.result.checkpoint)))
        number = found[1] if isinstance(found, list) else found
        wanted = values[1][1] if isinstance(values[1], list) else values[1]
        return number, pytest.approx(wanted, rel=0.5)

    first = train(1, agent | {f"+{key}": values[0]}, **run)
    second = train(2, agent | {f"+{key}": values[1]}, first.result.checkpoint, **run)
    third = train(3, agent, second.result.checkpoint, **run)
    again = train(3, agent | {f"+{key}": values[1]}, second.result.checkpoint, **run)
    assert f"As given: agent.{key} {values[0]} -> {values[1]}." in second.observers[0].text
    for one in (second, third, again):
        found, wanted = value(one)
        assert found == wanted, one.observers[0].text
    assert "As given" not in third.observers[0].text + again.observers[0].text


RATE = "algorithm.learning_rate"
ADAPTIVE = {**RSL_RL, "algorithm.schedule": "adaptive", "algorithm.desired_kl": 1e-6}


def rate(of):
    return group(GROUP)(torch.load(of.result.checkpoint, weights_only=False))


def test_the_same_words_do_not_reset_what_has_been_adapted(train):
    words = {"agent": {**ADAPTIVE, RATE: 2e-3}, "library": "rsl_rl"}
    whole, first = train(4, **words), train(2, **words)
    assert rate(first) != 2e-3
    resumed = train(4, checkpoint=first.result.checkpoint, **words)
    assert not differing([whole, resumed])
    assert rate(whole) == rate(resumed)
    assert "As given" not in resumed.observers[0].text


def test_what_is_given_beside_resume_counts_and_nothing_else(train):
    first = train(2, {**RSL_RL, RATE: 2e-3}, library="rsl_rl")
    run = first.result.run_dir
    resumed = train(3, {RATE: 4e-3}, resume=run, library="rsl_rl")
    assert rate(resumed) == 4e-3
    assert resumed.observers[0].text.endswith(f" As given: agent.{RATE} 0.002 -> 0.004.")
    again = train(4, {}, resume=resumed.result.run_dir, library="rsl_rl")
    assert rate(again) == 4e-3
    assert again.observers[0].text.endswith(" after iteration 3.")


def test_a_file_counts_where_it_differs_from_the_options_of_the_run(train, tmp_path):
    first = train(2, {**RSL_RL, RATE: 2e-3}, library="rsl_rl")
    options = load_yaml(f"{first.result.run_dir}/agent.yaml", "--agent-config")
    file = tmp_path / "mine.yaml"
    options["algorithm"]["learning_rate"] = 4e-3
    file.write_text(json.dumps(options))
    given = {"agent_config": str(file), "library": "rsl_rl"}
    second = train(3, {}, first.result.checkpoint, **given)
    assert rate(second) == 4e-3
    assert second.observers[0].text.endswith(f" As given: agent.{RATE} 0.002 -> 0.004.")
    # Of a checkpoint alone, the options are not known, and the file may be its own.
    alone = shutil.copy(first.result.checkpoint, tmp_path / "alone.pt")
    third = train(3, {}, str(alone), **given)
    assert rate(third) == 2e-3
    fourth = train(3, {RATE: 1e-2}, str(alone), **given)
    assert rate(fourth) == 1e-2
    assert fourth.observers[0].text.endswith(f" As given: agent.{RATE} 0.01.")


def test_the_options_of_a_run_say_what_it_goes_on_with(train):
    first = train(1, {**RSL_RL, RATE: 2e-3}, library="rsl_rl")
    second = train(2, RSL_RL, first.result.checkpoint, library="rsl_rl")
    options = load_yaml(f"{second.result.run_dir}/agent.yaml", "--agent-config")
    assert options["algorithm"]["learning_rate"] == rate(second) == 2e-3
    third = train(3, {**RSL_RL, RATE: 1e-3}, second.result.checkpoint, library="rsl_rl")
    assert rate(third) == 1e-3


def test_another_optimizer_begins_anew(train):
    first = train(1, RSL_RL, library="rsl_rl")
    second = train(
        2, {**RSL_RL, "algorithm.optimizer": "sgd"}, first.result.checkpoint, library="rsl_rl"
    )
    saved = torch.load(second.result.checkpoint, weights_only=False)[GROUP]
    assert "momentum" in saved["param_groups"][0]
    assert not any("exp_avg" in state for state in saved["state"].values())


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
def test_jax_steps_by_the_rate_that_is_given(train, algorithm):
    pytest.importorskip("jax")
    agent = (SKRL if algorithm == "ppo" else REPLAY) | NONE
    run = {"library": "skrl", "framework": "jax", "task": CONTINUOUS, "algorithm": algorithm}
    first = train(1, agent, **run)
    still = train(2, agent | {"agent.learning_rate": 0.0}, first.result.checkpoint, **run)
    kept = train(3, agent, still.result.checkpoint, **run)
    moved = train(4, agent | {"agent.learning_rate": 1e-2}, kept.result.checkpoint, **run)

    def policy(of):
        return {k: np.asarray(v) for k, v in of.state().items() if k.startswith("policy.")}

    assert all((value == policy(still)[name]).all() for name, value in policy(kept).items())
    assert any((value != policy(still)[name]).any() for name, value in policy(moved).items())
