"""The defaults, and what is refused."""

from __future__ import annotations

import pytest
from skrl_fakes import small_agent

from rltrain.agent_options import set_dotted
from rltrain.config import RunConfig
from rltrain.types import TaskInfo
from rltrain_skrl.plugin import default_agent, rltrain_provides

TASK = TaskInfo("none", "continuous")


def refusals(changes=(), *, task=TASK, **options):
    agent = small_agent("continuous")
    for key, value in dict(changes).items():
        set_dotted(agent, key, value)
    config = RunConfig(library="skrl", agent=agent, **options)
    (spec,) = rltrain_provides()
    return [refusal.name for refusal in spec.refuses if refusal.applies(config, task)]


def test_defaults_are_refused_nowhere():
    assert refusals() == []
    assert refusals(distributed=True) == []


@pytest.mark.parametrize(
    ("changes", "options", "name"),
    [
        ({"agent.class": "SAC"}, {}, "agent.class other than PPO"),
        ({"agent.kl_threshold": 0.01}, {"distributed": True}, "kl_threshold on several ranks"),
        ({"agent.experiment.wandb": True}, {}, "Weights & Biases by skrl"),
        ({"models.policy.class": "CategoricalMixin"}, {}, "a policy for another kind of action"),
    ],
)
def test_what_is_refused(changes, options, name):
    assert refusals(changes, **options) == [name]


def test_kl_threshold_on_one_rank_is_fine():
    assert refusals({"agent.kl_threshold": 0.01}) == []
    assert refusals({"agent.kl_threshold": 0.01}, distributed=True, nproc_per_node=1) == []


@pytest.mark.parametrize("num_envs", [8, 512])
@pytest.mark.parametrize("action", ["continuous", "discrete", "multi_discrete"])
def test_every_kind_of_task_has_defaults_that_suit_it(action, num_envs):
    task = TaskInfo("Any/Task-v0", action, num_envs=num_envs)
    agent = default_agent(task, "ppo")
    (spec,) = rltrain_provides()
    config = RunConfig(library="skrl", agent=agent, distributed=True)
    assert not [refusal.name for refusal in spec.refuses if refusal.applies(config, task)]
    assert agent["agent"]["time_limit_bootstrap"]


def test_a_task_may_have_its_own_defaults():
    own = default_agent(TaskInfo("Pendulum-v1", "continuous"), "ppo")
    assert own["agent"]["discount_factor"] == 0.9
