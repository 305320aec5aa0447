"""The defaults, and what is refused."""

from __future__ import annotations

import dataclasses

import pytest
from skrl_fakes import small_agent

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.testing import make_config
from rltrain.types import Iteration, TaskInfo
from rltrain_skrl.declare.iteration import iteration
from rltrain_skrl.declare.options import ACTS_IN, ALGORITHMS, default_agent
from rltrain_skrl.plugin import rltrain_provides

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
    ("changes", "name"),
    [
        ({"agent.class": "IPPO"}, "agent.class=IPPO"),
        ({"agent.class": "PPO_RNN"}, "a recurrent agent"),
        ({"agent.class": "Nonsense"}, "an agent.class that is not adapted"),
        ({"agent.class": "DQN", "memory.memory_size": 9}, "an agent for another kind of action"),
        ({"agent.class": "SAC", "memory.memory_size": -1}, "a replay buffer without a size"),
        ({"memory.memory_size": 9}, "a memory of another size than the rollout"),
        ({"agent.experiment.wandb": True}, "Weights & Biases by skrl"),
        ({"models.policy.class": "CategoricalMixin"}, "a policy for another kind of action"),
    ],
)
def test_what_is_refused(changes, name):
    assert refusals(changes)[0] == name, "the first is reported"


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
    with pytest.raises(UsageError, match=r"4 steps x 8 environments = 32 rows"):
        iteration(config)


@pytest.mark.parametrize("value", [0, -1, "many", 2.5, None])
@pytest.mark.parametrize("key", ["rollouts", "mini_batches"])
def test_a_value_that_is_not_a_count_is_reported(key, value):
    agent = small_agent()
    agent["agent"][key] = value
    with pytest.raises(UsageError, match=f"agent.agent.{key}="):
        iteration(make_config(library="skrl", agent=agent, num_envs=8))


@pytest.mark.parametrize("key", ["memory.memory_size", "trainer.timesteps"])
@pytest.mark.parametrize("value", ["a=b", True, None])
def test_a_value_that_is_not_a_number_is_reported(key, value):
    agent = default_agent(TASK, "sac")
    set_dotted(agent, key, value)
    with pytest.raises(UsageError, match=rf"agent\.{key}={value!r}: give a"):
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
