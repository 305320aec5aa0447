"""What is refused before any rank starts, and why."""

from __future__ import annotations

from typing import Any

from rltrain.config import RunConfig
from rltrain.options import get_dotted
from rltrain.specs import Refusal
from rltrain.types import TaskInfo
from rltrain_skrl.declare.iteration import memory_size
from rltrain_skrl.declare.options import (
    ACTS_IN,
    ALGORITHMS,
    DETERMINISTIC,
    OFF_POLICY,
    ON_POLICY,
)

_POLICIES = {
    "continuous": ("gaussianmixin", "multivariategaussianmixin"),
    "discrete": ("categoricalmixin",),
    "multi_discrete": ("multicategoricalmixin",),
}
"""The policies for each kind of action space."""

_RECURRENT = ("a2c_rnn", "ddpg_rnn", "ppo_rnn", "rpo_rnn", "sac_rnn", "td3_rnn", "trpo_rnn")
"""skrl's recurrent agents, by the names of their modules."""

_INSTEAD = "Set agent.agent.class to PPO, or to another of --algorithm's, with options for it."


def _agent(config: RunConfig, key: str) -> Any:
    return get_dotted(config.agent, f"agent.{key}", None)


def _class(config: RunConfig) -> str:
    return str(_agent(config, "class")).lower()


def _policy(config: RunConfig) -> str:
    return str(get_dotted(config.agent, "models.policy.class", "")).lower()


def _other_memory(config: RunConfig, task: TaskInfo) -> bool:
    size, rollouts = memory_size(config.agent), _agent(config, "rollouts")
    return _class(config) in ON_POLICY and size >= 0 and size != (rollouts or size)


def _ignores_images(config: RunConfig, task: TaskInfo) -> bool:
    has_convolutions = "conv2d" in str(config.agent.get("models"))
    return _class(config) in OFF_POLICY and task.has_images and not has_convolutions


def _agent_refusal(name: str, reason: str, instead: str = _INSTEAD) -> Refusal:
    return Refusal(
        name=f"agent.class={name}",
        applies=lambda config, task: _class(config) == name.lower(),
        reason=reason,
        instead=instead,
    )


_SEVERAL = (
    "it trains several agents, and suites have tasks with one: of several agents they make one.",
    "Use --library rsl_rl or rl_games, or give skrl options for PPO: --agent-config.",
)

_AGENTS = (
    _agent_refusal(
        "TRPO",
        "skrl computes its step from one rank's data (conjugate gradients and a line search in one "
        "function) and averages only gradients that the policy does not have: every rank would "
        "take a different step.",
    ),
    _agent_refusal(
        "AMP",
        "it learns from reference motions, which skrl asks the task for "
        "(collect_reference_motions), and no suite provides them.",
    ),
    _agent_refusal("IPPO", *_SEVERAL),
    _agent_refusal("MAPPO", *_SEVERAL),
    _agent_refusal(
        "CEM",
        "it chooses among the episodes of one rank's rollout; one rank with all environments would "
        "choose among all episodes.",
    ),
)

REFUSES = (
    *_AGENTS,
    Refusal(
        name="a recurrent agent",
        applies=lambda config, task: _class(config) in _RECURRENT,
        reason="skrl's Runner, whose options this plugin uses, supports neither recurrent models "
        "nor the agents that train them.",
        instead="Use --library rsl_rl or rl_games for recurrent policies, or stack observations "
        "of several steps for skrl's PPO.",
    ),
    Refusal(
        name="an agent.class that is not adapted",
        applies=lambda config, task: (
            _class(config) not in (*ALGORITHMS, *_RECURRENT)
            and f"agent.class={_class(config).upper()}" not in {agent.name for agent in _AGENTS}
        ),
        reason=f"rltrain runs subclasses of skrl's {', '.join(ALGORITHMS).upper()}, and has none "
        "of another agent.",
        instead="Set agent.agent.class to one of these, with options for it.",
        option="agent.class",
    ),
    Refusal(
        name="an agent for another kind of action",
        applies=lambda config, task: ACTS_IN.get(_class(config), task.action) != task.action,
        reason="RPO, SAC, TD3 and DDPG act in continuous action spaces, DQN and DDQN in discrete "
        "ones.",
        instead="Use --algorithm ppo, or an algorithm for the task's actions.",
        option="agent.class",
    ),
    Refusal(
        name="DQN or DDQN without an exploration_scheduler",
        applies=lambda config, task: (
            _class(config) in ("dqn", "ddqn") and not _agent(config, "exploration_scheduler")
        ),
        reason="skrl compares with what it gives in every step, and fails without it.",
        instead='Set agent.agent.exploration_scheduler, such as "0.05".',
    ),
    Refusal(
        name="images without convolutions",
        applies=_ignores_images,
        reason="The networks in the default options of agents with a replay buffer would read an "
        "image as a vector.",
        instead="Use --algorithm ppo, whose default options support images, or give options whose "
        "networks have conv2d layers.",
    ),
    Refusal(
        name="a memory of another size than the rollout",
        applies=_other_memory,
        reason="skrl would learn from rows of older rollouts, or from rows that were never filled.",
        instead="Set agent.memory.memory_size=-1, which is the rollout.",
    ),
    Refusal(
        name="a replay buffer without a size",
        applies=lambda config, task: _class(config) in OFF_POLICY and memory_size(config.agent) < 1,
        reason="memory_size=-1 stands for a rollout, which this agent does not have.",
        instead="Set agent.memory.memory_size: steps of every environment that are kept.",
    ),
    Refusal(
        name="Weights & Biases by skrl",
        applies=lambda config, task: bool(_agent(config, "experiment.wandb")),
        reason="skrl would start it on every rank.",
        instead="Set agent.agent.experiment.wandb=false and name a writer (--writer): it records "
        "on rank 0.",
    ),
    Refusal(
        name="MultivariateGaussianMixin with jax",
        applies=lambda config, task: (
            config.framework == "jax" and _policy(config) == "multivariategaussianmixin"
        ),
        reason="skrl has this policy for torch only.",
        instead="Use GaussianMixin, or --framework torch.",
    ),
    Refusal(
        name="a policy for another kind of action",
        applies=lambda config, task: (
            _class(config) not in DETERMINISTIC and _policy(config) not in _POLICIES[task.action]
        ),
        reason="The policy's class (agent.models.policy.class) does not fit the task's actions.",
        instead="Use GaussianMixin for continuous actions, CategoricalMixin for discrete ones, "
        "MultiCategoricalMixin for several discrete ones.",
        option="models.policy.class",
    ),
)
"""In the order in which they are checked: the first that applies is reported."""
