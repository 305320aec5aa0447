"""Combinations refused before ranks start, because N ranks would not learn as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Refused:
    """One combination that a run refuses to start with."""

    library: str
    algorithm: str
    features: str
    """What is asked for, for the table."""
    reason: str
    """Words of the message that say why, for the table."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the library's options, by dotted key."""
    base: str | None = None
    """The algorithm whose options these override; None: that of this line."""
    task: str = "rltrain/CartPoleContinuous-v1"
    framework: str = "torch"

    def __str__(self) -> str:
        return f"{self.library} {self.algorithm}: {self.features}"


REFUSED = (
    Refused(
        library="rsl_rl",
        algorithm="ppo",
        features="discrete actions",
        task="rltrain/CartPole-v1",
        reason="rsl_rl has no categorical distribution",
    ),
    Refused(
        library="rsl_rl",
        algorithm="ppo",
        features="batch normalization of images",
        agent={"+actor.cnn_cfg": {"norm": "batch"}},
        reason="cnn_cfg.norm=batch normalizes by one rank's mini-batch",
    ),
    Refused(
        library="rsl_rl",
        algorithm="ppo",
        features="a custom algorithm",
        agent={"algorithm.class_name": "my_package.MyPPO"},
        reason="it has none of the class that algorithm.class_name names",
    ),
    Refused(
        library="rsl_rl",
        algorithm="distillation",
        features="no teacher",
        reason="A student learns from a trained teacher",
    ),
    Refused(
        library="rl_games",
        algorithm="ppo",
        features="normalize_rms_advantage",
        agent={"+params.config.normalize_rms_advantage": True},
        reason="rl_games fails on it with a TypeError",
    ),
    Refused(
        library="rl_games",
        algorithm="ppo",
        features="self-play",
        agent={"+params.config.self_play_config": {"update_score": 1}},
        reason="self-play swaps opponents by rank 0's results alone",
    ),
    Refused(
        library="rl_games",
        algorithm="ppo",
        features="population-based training",
        agent={"+params.config.population_based_training": True},
        reason="rl_games trains a population as separate jobs",
    ),
    Refused(
        library="rl_games",
        algorithm="ppo",
        features="adaptive learning rate, schedule_type other than legacy and standard",
        agent={"params.config.schedule_type": "standard_epoch"},
        reason="with any other word, its learning rate never changes",
    ),
    Refused(
        library="rl_games",
        algorithm="ppo",
        features="recurrent asymmetric critic, feedforward actor",
        agent={"+params.config.central_value_config": {"network": {"rnn": {"name": "gru"}}}},
        reason="rl_games keeps the critic's recurrent states only where the actor has some",
    ),
    Refused(
        library="rl_games",
        algorithm="ppo",
        features="action masks",
        agent={"+params.config.use_action_masks": True},
        reason="rltrain's environments give no masks",
    ),
    Refused(
        library="rl_games",
        algorithm="sac",
        features="d2rl layers",
        agent={"+params.network.mlp.d2rl": True},
        reason="rl_games' SAC cannot build such a network",
    ),
    Refused(
        library="rl_games",
        algorithm="sac",
        features="one network for actor and critic",
        agent={"params.network.separate": False},
        reason="rl_games' SAC then has no critic",
    ),
    Refused(
        library="rl_games",
        algorithm="sac",
        features="discrete actions",
        task="rltrain/CartPole-v1",
        reason="the agent options and the task speak of different kinds of actions",
    ),
    Refused(
        library="skrl",
        algorithm="ppo",
        features="recurrent",
        agent={"agent.class": "PPO_RNN"},
        reason="supports neither recurrent models nor the agents that train them",
    ),
    Refused(
        library="skrl",
        algorithm="ppo",
        features="memory of a different size than the rollout",
        agent={"memory.memory_size": 7},
        reason="skrl would learn from rows of older rollouts",
    ),
    *(
        Refused(
            library="skrl",
            algorithm=name.lower(),
            base="ppo",
            features="any",
            agent={"agent.class": name},
            reason=reason,
        )
        for name, reason in {
            "TRPO": "every rank would take a different step",
            "AMP": "it learns from reference motions, which skrl asks the task for",
            "IPPO": "it trains several agents, and suites have tasks with one",
            "MAPPO": "it trains several agents, and suites have tasks with one",
            "CEM": "it chooses among the episodes of one rank's rollout",
        }.items()
    ),
    *(
        Refused(
            library="skrl",
            algorithm=algorithm,
            features="discrete actions",
            task="rltrain/CartPole-v1",
            reason="RPO, SAC, TD3 and DDPG act in continuous action spaces",
        )
        for algorithm in ("rpo", "sac", "td3", "ddpg")
    ),
    Refused(
        library="skrl",
        algorithm="ppo",
        features="multivariate Gaussian policy with jax",
        framework="jax",
        agent={"models.policy.class": "MultivariateGaussianMixin"},
        reason="skrl has this policy for torch only",
    ),
    *(
        Refused(
            library="skrl",
            algorithm=algorithm,
            features="continuous actions",
            reason="DQN and DDQN in discrete ones",
        )
        for algorithm in ("dqn", "ddqn")
    ),
)
