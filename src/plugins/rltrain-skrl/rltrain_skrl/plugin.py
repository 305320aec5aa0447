"""What this plugin provides. It must not import skrl: doing so can start a process group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rltrain.agent_options import get_dotted
from rltrain.config import RunConfig, load_yaml
from rltrain.hookspecs import hookimpl
from rltrain.specs import LibrarySpec, Refusal, Spec
from rltrain.types import TaskInfo

__all__ = ["default_agent", "rltrain_provides"]

_DEFAULTS = Path(__file__).parent / "defaults"

_MANY_ENVS = 64
"""From so many environments a rank on, short rollouts fill a batch."""

_POLICIES = {
    "continuous": ("gaussianmixin", "multivariategaussianmixin"),
    "discrete": ("categoricalmixin",),
    "multi_discrete": ("multicategoricalmixin",),
}
"""The policies that can act in a kind of action space."""

_AGENT_OPTIONS = (
    "rollouts",
    "learning_epochs",
    "mini_batches",
    "discount_factor",
    "gae_lambda",
    "learning_rate",
    "learning_rate_scheduler",
    "learning_rate_scheduler_kwargs",
    "observation_preprocessor",
    "observation_preprocessor_kwargs",
    "state_preprocessor",
    "state_preprocessor_kwargs",
    "value_preprocessor",
    "value_preprocessor_kwargs",
    "grad_norm_clip",
    "ratio_clip",
    "value_clip",
    "entropy_loss_scale",
    "value_loss_scale",
    "kl_threshold",
    "time_limit_bootstrap",
    "mixed_precision",
    "experiment.checkpoint_interval",
    "experiment.wandb",
)
_TRAINER_OPTIONS = ("timesteps", "render_interval", "environment_info")
_MEMORY_OPTIONS = ("memory_size", "replacement")

OPTION_KEYS = frozenset(
    [
        *(f"agent.{key}" for key in (*_AGENT_OPTIONS, "rewards_shaper_scale")),
        *(f"trainer.{key}" for key in _TRAINER_OPTIONS),
        *(f"memory.{key}" for key in _MEMORY_OPTIONS),
    ]
)
"""Options of skrl that have an effect here. The names of its folders, its writer's interval, its
progress bar and the like do not: the session owns what they stand for."""


def default_agent(task: TaskInfo, algorithm: str) -> Mapping[str, Any]:
    """Return options in the format of skrl's Runner: the task's own, or those for its kind.

    Args:
        task: what is known of the task.
        algorithm: "ppo".
    """
    scale = "" if task.num_envs >= _MANY_ENVS else "_few_envs"
    names = (task.name.replace("/", "-"), f"{algorithm}_{task.action}{scale}")
    files = [_DEFAULTS / f"{name}.yaml" for name in (*names, f"{algorithm}_{task.action}")]
    return load_yaml(str(next(file for file in files if file.is_file())), "the default options")


def _agent(config: RunConfig, key: str) -> Any:
    return get_dotted(config.agent, f"agent.{key}", None)


def _other_policy(config: RunConfig, task: TaskInfo) -> bool:
    policy = str(get_dotted(config.agent, "models.policy.class", ""))
    return policy.lower() not in _POLICIES[task.action]


_REFUSES = (
    Refusal(
        name="agent.class other than PPO",
        applies=lambda config, task: str(_agent(config, "class")).lower() != "ppo",
        reason="Of skrl's agents this plugin adapts PPO: others average gradients, save or log "
        "elsewhere.",
        instead="Set agent.agent.class=PPO, with options for it.",
    ),
    Refusal(
        name="kl_threshold on several ranks",
        applies=lambda config, task: (
            config.on_several_ranks and float(_agent(config, "kl_threshold") or 0) > 0
        ),
        reason="Each rank would leave the epoch by its own KL divergence, while others wait for "
        "its gradients.",
        instead="Set agent.agent.kl_threshold=0 and agent.agent.learning_rate_scheduler="
        "KLAdaptiveLR, which goes by the KL divergence of all ranks.",
    ),
    Refusal(
        name="Weights & Biases by skrl",
        applies=lambda config, task: bool(_agent(config, "experiment.wandb")),
        reason="skrl would start it on every rank.",
        instead="Set agent.agent.experiment.wandb=false and name a writer (--writer): it records "
        "on rank 0.",
    ),
    Refusal(
        name="a policy for another kind of action",
        applies=_other_policy,
        reason="The policy's class (models.policy.class) cannot act in this task's action space.",
        instead="Use GaussianMixin for continuous actions, CategoricalMixin for discrete ones, "
        "MultiCategoricalMixin for several discrete ones.",
    ),
)


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library skrl."""
    return [
        LibrarySpec(
            name="skrl",
            factory="rltrain_skrl.adapter:SkrlLibrary",
            summary="skrl's PPO, with the options of its Runner",
            frameworks=("torch",),
            algorithms=("ppo",),
            default_agent=default_agent,
            required_keys=("models", "agent.class", "trainer"),
            option_keys=OPTION_KEYS,
            run_keys={"seed": "seed"},
            refuses=_REFUSES,
            read_checkpoint="rltrain_torch.checkpoints:top_level_keys",
            checkpoint_keys=frozenset({"policy", "value", "optimizer"}),
        )
    ]
