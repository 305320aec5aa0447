"""The defaults, what is refused, and the words and keys of options."""

from __future__ import annotations

import dataclasses
import importlib

import pytest
import yaml
from messages import check_said, says
from skrl_fakes import small_agent

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.plan.resolve import make_plan
from rltrain.testing import make_config
from rltrain.types import Iteration, TaskInfo
from rltrain_skrl.declare.choices import choices
from rltrain_skrl.declare.iteration import iteration
from rltrain_skrl.declare.keys import ignored, keys
from rltrain_skrl.declare.options import ACTS_IN, ALGORITHMS, default_agent, rename_states
from rltrain_skrl.plugin import rltrain_provides
from rltrain_skrl.run import bootstrap

TASK = TaskInfo("none", "continuous")


def refusals(changes=(), *, task=TASK, **options):
    agent = small_agent("continuous")
    for key, value in dict(changes).items():
        set_dotted(agent, key, value)
    config = make_config(library="skrl", agent=agent, **options)
    (spec,) = rltrain_provides()
    return [refusal.name for refusal in spec.refuses if refusal.applies(config, task)]


def test_defaults_are_never_refused():
    assert refusals() == []
    assert refusals(distributed=True) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"agent.class": "IPPO"},
        {"agent.class": "PPO_RNN"},
        {"agent.class": "Nonsense"},
        {"agent.class": "DQN", "memory.memory_size": 9},
        {"agent.class": "SAC", "memory.memory_size": -1},
        {"memory.memory_size": 9},
        {"agent.experiment.wandb": True},
        {"models.policy.class": "CategoricalMixin"},
    ],
)
def test_what_is_refused(changes):
    check_said(refusals(changes)[0])


@pytest.mark.parametrize("algorithm", ["dqn", "ddqn"])
def test_a_greedy_agent_needs_an_exploration_scheduler(algorithm):
    agent, (spec,) = default_agent(TASK, algorithm), rltrain_provides()
    agent["agent"]["exploration_scheduler"] = None
    config, task = make_config(library="skrl", agent=agent), TaskInfo("none", "discrete")
    names = [refusal.name for refusal in spec.refuses if refusal.applies(config, task)]
    assert names == ["DQN or DDQN without an exploration_scheduler"]


def test_a_memory_of_the_rollouts_size_is_fine():
    assert refusals({"memory.memory_size": 4}) == []


@pytest.mark.parametrize("num_envs", [8, 512])
@pytest.mark.parametrize(
    ("algorithm", "action"),
    [
        (algorithm, action)
        for algorithm in ALGORITHMS
        for action in ("continuous", "discrete", "multi_discrete")
        if ACTS_IN.get(algorithm, action) == action
    ],
)
def test_every_kind_of_task_has_defaults_that_suit_it(action, algorithm, num_envs):
    task = TaskInfo("Any/Task-v0", action, num_envs=num_envs)
    agent = default_agent(task, algorithm)
    (spec,) = rltrain_provides()
    config = make_config(library="skrl", agent=agent, distributed=True, num_envs=num_envs)
    assert not [refusal.name for refusal in spec.refuses if refusal.applies(config, task)]
    assert agent["agent"]["class"].lower() == algorithm
    assert agent["agent"].get("time_limit_bootstrap", True)
    assert spec.iteration(config).iterations > 0


def test_the_plan_knows_what_an_iteration_is():
    agent = small_agent()
    config = make_config(library="skrl", agent=agent, num_envs=8)
    assert iteration(config) == Iteration(steps=4, iterations=3, mini_batches=2)
    assert iteration(dataclasses.replace(config, max_iterations=7)).iterations == 7
    agent["agent"]["mini_batches"] = 33
    with says(UsageError):
        iteration(config)


@pytest.mark.parametrize("value", [0, -1, "many", 2.5, None])
@pytest.mark.parametrize("key", ["rollouts", "mini_batches"])
def test_a_value_that_is_not_a_count_is_reported(key, value):
    agent = small_agent()
    agent["agent"][key] = value
    with says(UsageError):
        iteration(make_config(library="skrl", agent=agent, num_envs=8))


@pytest.mark.parametrize("key", ["memory.memory_size", "trainer.timesteps"])
@pytest.mark.parametrize("value", ["a=b", True, None])
def test_a_value_that_is_not_a_number_is_reported(key, value):
    agent = default_agent(TASK, "sac")
    set_dotted(agent, key, value)
    with says(UsageError):
        iteration(make_config(library="skrl", agent=agent, num_envs=8))


@pytest.mark.parametrize(("every", "steps"), [("auto", 100), (0, 100), (7, 7)])
def test_an_iteration_without_rollouts_is_a_number_of_steps(every, steps):
    agent = default_agent(TASK, "sac")
    agent["agent"]["experiment"] = {"write_interval": every}
    assert iteration(make_config(library="skrl", agent=agent, num_envs=8)).steps == steps


def test_the_plan_knows_what_is_stored():
    agent = default_agent(TASK, "sac")
    assert iteration(make_config(library="skrl", agent=agent, num_envs=8)).replay_rows == (
        agent["memory"]["memory_size"] * 8
    )


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
    "key",
    [
        "agent.ratio_clp",
        "agent.experiment.checkpoint_intervall",
        "trainer.timestep",
        "memory.memory_sizes",
        "models.policy.initial_log_stdd",
    ],
)
def test_a_key_that_skrl_lacks_is_refused_by_the_plan(key, door, tmp_path):
    options = default_agent(TaskInfo("any", "continuous"), "ppo")
    set_dotted(options, key, 1)
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump(options))
    given = {"agent": {key: 1}} if door == "typed" else {"agent_config": str(path)}
    with says(UsageError):
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
    check_said(first)
    check_said(second)


def test_options_of_any_shape_are_read():
    for odd in ({}, {"models": []}, {"models": {"policy": {"network": ["x"], "class": 1}}}):
        choices(odd)
        keys({"agent": {"class": "PPO"}, **odd})
        keys(odd)
        ignored(odd)


def inputs(policy, value, has_states, **agent):
    options = small_agent(**agent)
    for name, text in (("policy", policy), ("value", value)):
        options["models"][name]["network"][0]["input"] = text
    rename_states(options, has_states)
    return [options["models"][name]["network"][0]["input"] for name in ("policy", "value")]


OLD = {"lambda": 0.95}
CHANNELS = "permute({}, (0, 3, 1, 2))"


@pytest.mark.parametrize("has_states", [True, False])
def test_states_of_skrl_1_are_observations(has_states):
    assert inputs("STATES", "STATES", has_states, **OLD) == ["OBSERVATIONS", "OBSERVATIONS"]
    images = CHANNELS.format("STATES")
    assert inputs(images, images, has_states, **OLD)[0] == CHANNELS.format("OBSERVATIONS")


def test_without_states_all_inputs_are_observations():
    assert inputs("STATES", "STATES", has_states=False) == ["OBSERVATIONS", "OBSERVATIONS"]


@pytest.mark.parametrize(
    ("policy", "value", "agent"),
    [
        ("OBSERVATIONS", "STATES", OLD),
        ("STATES", "STATES", {}),  # A teacher, which has privileged observations.
        ("NUM_STATES", "OBSERVATIONS", OLD),
    ],
)
def test_files_of_skrl_2_are_unchanged(policy, value, agent):
    assert inputs(policy, value, has_states=True, **agent) == [policy, value]
