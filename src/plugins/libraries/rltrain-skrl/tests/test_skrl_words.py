"""Words and keys of skrl are those that its sources have; others are refused by the plan."""

from __future__ import annotations

import dataclasses
import importlib

import pytest
import yaml
from skrl_fakes import small_agent

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.plan.resolve import make_plan
from rltrain.types import TaskInfo
from rltrain_skrl.declare.choices import choices
from rltrain_skrl.declare.keys import ignored, keys
from rltrain_skrl.declare.options import ACTS_IN, ALGORITHMS, default_agent
from rltrain_skrl.run import bootstrap

POLICY = "models.policy.network.0"


def plan(**agent):
    return make_plan({"library": "skrl", "task": "rltrain/CartPoleContinuous-v1", "agent": agent})


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_the_words_are_those_of_the_installed_version(framework):
    pytest.importorskip({"torch": "torch", "jax": "flax"}[framework])
    bootstrap.import_skrl()
    common = importlib.import_module(f"skrl.utils.model_instantiators.{framework}.common")
    runner = importlib.import_module(f"skrl.utils.runner.{framework}").Runner
    found = choices(small_agent("continuous"))
    for word in found[f"{POLICY}.activations"].allowed:
        assert common._get_activation_function(word), word
    listed = common._get_activation_function.__doc__.count('- "')
    assert len(found[f"{POLICY}.activations"].allowed) == listed
    for word in found["models.policy.class"].allowed - {"multivariategaussianmixin"}:
        assert runner._component(None, word)  # That one, jax does not have.


@pytest.mark.parametrize(
    ("key", "word", "meant", "place"),
    [
        (f"{POLICY}.activations", "eluu", "elu", ""),
        (f"{POLICY}.activations", ["eluu"], "elu", ".0"),
        ("models.value.class", "DeterministcMixin", "deterministicmixin", ""),
        ("agent.learning_rate_scheduler", "KLAdaptiveRL", "KLAdaptiveLR", ""),
        ("agent.value_preprocessor", "RunningScaler", "RunningStandardScaler", ""),
    ],
)
def test_a_word_that_skrl_lacks_is_refused_by_the_plan(key, word, meant, place):
    with pytest.raises(UsageError) as refused:
        plan(**{key: word})
    word = word[0] if isinstance(word, list) else word
    assert str(refused.value).startswith(f"agent.{key}{place}={word}: skrl 2.")
    assert f"Did you mean {meant!r}?" in str(refused.value)


@pytest.mark.parametrize("given", ["ELU", ["Tanh"], "", "None", ["elu", "None"], [], None])
def test_what_skrl_takes_is_not_refused(given):
    plan(**{f"{POLICY}.activations": given})


@pytest.mark.parametrize("given", [None, "None", "KLAdaptiveLR", "torch.optim.Mine()"])
def test_a_class_may_be_none_or_an_expression(given):
    plan(**{"agent.learning_rate_scheduler": given})


@pytest.mark.parametrize("door", ["file", "typed"])
@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("agent.ratio_clp", "ratio_clip"),
        ("agent.experiment.checkpoint_intervall", "checkpoint_interval"),
        ("trainer.timestep", "timesteps"),
        ("memory.memory_sizes", "memory_size"),
        ("models.policy.initial_log_stdd", "initial_log_std"),
    ],
)
def test_a_key_that_skrl_lacks_is_refused_by_the_plan(key, meant, door, tmp_path):
    options = default_agent(TaskInfo("any", "continuous"), "ppo")
    set_dotted(options, key, 1)
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump(options))
    given = {"agent": {key: 1}} if door == "typed" else {"agent_config": str(path)}
    with pytest.raises(UsageError, match=rf"^agent\.{key}: .*no such option.* mean '.*{meant}'"):
        make_plan({"library": "skrl", "task": "rltrain/CartPoleContinuous-v1", **given})


def test_the_keys_are_those_of_the_installed_version():
    bootstrap.import_skrl()
    from skrl.agents.torch.base import ExperimentCfg
    from skrl.trainers.torch import SequentialTrainerCfg

    for algorithm in ALGORITHMS:
        options = default_agent(TaskInfo("any", ACTS_IN.get(algorithm, "continuous")), algorithm)
        found = keys(options)
        made = importlib.import_module(f"skrl.agents.torch.{algorithm}")
        made = getattr(made, f"{algorithm.upper()}_CFG")
        assert found["agent"].known >= {each.name for each in dataclasses.fields(made)}
        for name, kind in ("agent.experiment", ExperimentCfg), ("trainer", SequentialTrainerCfg):
            assert found[name].known >= {each.name for each in dataclasses.fields(kind)}
        for key in ignored(options):
            section, _, name = key.rpartition(".")
            assert name in found[section].known
    assert keys({"agent": {"class": "mine"}}) == {}


def test_what_is_without_effect_is_answered(capsys):
    plan(**{"agent.experiment.directory": "x", "agent.experiment.write_interval": 5})
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("rltrain: agent.agent.experiment.directory: not read here. The folder")
    assert "Metrics are recorded in every iteration." in second


def test_options_of_any_shape_are_read():
    for odd in ({}, {"models": []}, {"models": {"policy": {"network": ["x"], "class": 1}}}):
        choices(odd)
        keys({"agent": {"class": "PPO"}, **odd})
        keys(odd)
        ignored(odd)
