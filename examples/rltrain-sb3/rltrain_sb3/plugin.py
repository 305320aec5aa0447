"""What this plugin provides. Light: it imports neither torch nor Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rltrain import hookimpl
from rltrain.specs import CheckpointFormat, LibrarySpec, OptionSchema, Refusal, Spec
from rltrain.types import TaskInfo
from rltrain_sb3.options import OPTION_KEYS

__all__ = ["rltrain_provides"]

_MANY_ENVS = 64
"""From this number of environments per rank, short rollouts and large batches learn faster."""


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library."""
    return [
        LibrarySpec(
            name="sb3",
            factory="rltrain_sb3.adapter:Sb3Library",
            summary="Stable-Baselines3's PPO and A2C, with the keywords of their constructors",
            frameworks=("torch",),
            algorithms=("ppo", "a2c"),
            default_agent=_default_agent,
            schema=OptionSchema(
                required=("policy", "n_steps"), also=OPTION_KEYS, run_keys={"seed": "seed"}
            ),
            refuses=_REFUSES,
            checkpoint=CheckpointFormat(
                "rltrain_sb3.checkpoints:names_in",
                frozenset({"data", "policy.pth", "policy.optimizer.pth"}),
            ),
        )
    ]


def _default_agent(task: TaskInfo, algorithm: str) -> Mapping[str, Any]:
    """Return keywords of the algorithm and of `learn`, for the number of environments per rank."""
    many = task.num_envs >= _MANY_ENVS
    both = {
        "policy": "MlpPolicy",
        "total_timesteps": 2_000_000,
        "gamma": 0.99,
        "ent_coef": 0.0,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
    }
    if algorithm == "a2c":
        steps, rate = (16, 5e-3) if many else (5, 7e-4)
        own = {"total_timesteps": 4_000_000, "n_steps": steps, "learning_rate": rate}
        return {**both, **own, "gae_lambda": 1.0}
    return {
        **both,
        "n_steps": 32 if many else 256,
        "batch_size": 1024 if many else 64,
        "n_epochs": 5 if many else 10,
        "learning_rate": 1e-3 if many else 3e-4,
        "gae_lambda": 0.95,
        "clip_range": 0.2,
        "normalize_advantage": True,
    }


_REFUSES = (
    Refusal(
        name="target_kl on several ranks",
        applies=lambda config, task: (
            config.on_several_ranks and config.agent.get("target_kl") is not None
        ),
        reason="Each rank would stop the update by its own KL divergence, while others wait for "
        "its gradients.",
        instead="Leave agent.target_kl out, and set fewer epochs (agent.n_epochs) or a smaller "
        "agent.clip_range.",
    ),
    Refusal(
        name="a policy other than MlpPolicy",
        applies=lambda config, task: config.agent.get("policy") != "MlpPolicy",
        reason="The plugin passes observations as one vector, and supports only networks whose "
        "whole state is equal on all ranks.",
        instead="Set agent.policy=MlpPolicy.",
    ),
)
