"""What this distribution provides: the library rsl_rl. Importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rltrain import hookimpl
from rltrain.agent_options import get_dotted
from rltrain.config import RunConfig
from rltrain.specs import LibrarySpec, Refusal, Spec
from rltrain.types import TaskInfo
from rltrain_rsl_rl.options import OPTION_KEYS, PPO_NAMES, default_agent

__all__ = ["REFUSALS", "rltrain_provides"]


def _algorithm(agent: Mapping[str, Any]) -> Any:
    return get_dotted(agent, "algorithm.class_name", None)


def _no_continuous_actions(config: RunConfig, task: TaskInfo) -> bool:
    return task.action != "continuous"


def _not_ppo(config: RunConfig, task: TaskInfo) -> bool:
    return _algorithm(config.agent) not in (*PPO_NAMES, "Distillation")


def _distillation(config: RunConfig, task: TaskInfo) -> bool:
    return bool(_algorithm(config.agent) == "Distillation")


def _no_models(config: RunConfig, task: TaskInfo) -> bool:
    ppo = _algorithm(config.agent) in PPO_NAMES
    return ppo and not ("actor" in config.agent and "critic" in config.agent)


def _rnd_on_several_ranks(config: RunConfig, task: TaskInfo) -> bool:
    return config.on_several_ranks and bool(get_dotted(config.agent, "algorithm.rnd_cfg", None))


REFUSALS = (
    Refusal(
        "discrete actions",
        _no_continuous_actions,
        "rsl_rl has no categorical distribution: its policies give continuous actions only.",
        "take the task's twin with continuous actions, such as rltrain/CartPoleContinuous-v1 for "
        "CartPole-v1, or --library rl_games or skrl.",
    ),
    Refusal(
        "distillation",
        _distillation,
        "Distillation learns from a trained teacher, which a run of rltrain cannot be given.",
        "give agent.algorithm.class_name=PPO.",
    ),
    Refusal(
        "algorithms other than PPO",
        _not_ppo,
        "The class that algorithm.class_name names averages its gradients in its own way; only "
        "rsl_rl's PPO is adapted.",
        "give agent.algorithm.class_name=PPO.",
    ),
    Refusal(
        "options without actor and critic",
        _no_models,
        "rsl_rl 5 reads its models from `actor` and `critic`; older files have `policy`.",
        "give an agent config that has them, as rsl_rl 5 writes it.",
    ),
    Refusal(
        "random network distillation on several ranks",
        _rnd_on_several_ranks,
        "The predictor of algorithm.rnd_cfg has an optimiser of its own, whose gradients this "
        "adapter does not average yet: the ranks' intrinsic rewards would drift apart.",
        "give agent.algorithm.rnd_cfg=null, or train on one rank.",
    ),
)
"""The combinations that would train nonsense or hang."""


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library."""
    return [
        LibrarySpec(
            name="rsl_rl",
            factory="rltrain_rsl_rl.adapter:RslRlLibrary",
            summary="rsl_rl of ETH Zurich and NVIDIA",
            frameworks=("torch",),
            algorithms=("ppo",),
            default_agent=default_agent,
            required_keys=("algorithm.class_name", "num_steps_per_env"),
            option_keys=OPTION_KEYS,
            run_keys={"seed": "seed", "max_iterations": "max_iterations"},
            refuses=REFUSALS,
            read_checkpoint="rltrain_torch.checkpoints:top_level_keys",
            checkpoint_keys=frozenset(
                {"actor_state_dict", "critic_state_dict", "optimizer_state_dict"}
            ),
        )
    ]
