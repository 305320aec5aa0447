"""What this distribution provides: the library rsl_rl. Importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rltrain import hookimpl
from rltrain.agent_options import flatten, get_dotted
from rltrain.config import RunConfig
from rltrain.specs import LibrarySpec, Refusal, Spec
from rltrain.types import TaskInfo
from rltrain_rsl_rl.iteration import iteration
from rltrain_rsl_rl.older import in_words_of_today
from rltrain_rsl_rl.options import (
    DISTILLATION_NAMES,
    MODELS,
    OPTION_KEYS,
    PPO_NAMES,
    default_agent,
)

__all__ = ["REFUSALS", "rltrain_provides"]

CLASS_NAMES = {"ppo": PPO_NAMES, "distillation": DISTILLATION_NAMES}
"""By `--algorithm`, the values of algorithm.class_name."""


def _class_name(config: RunConfig) -> Any:
    return get_dotted(config.agent, "algorithm.class_name", None)


def _no_continuous_actions(config: RunConfig, task: TaskInfo) -> bool:
    return task.action != "continuous"


def _unknown_algorithm(config: RunConfig, task: TaskInfo) -> bool:
    return _class_name(config) not in (*PPO_NAMES, *DISTILLATION_NAMES)


def _another_algorithm(config: RunConfig, task: TaskInfo) -> bool:
    own = CLASS_NAMES[config.algorithm or "ppo"]
    return not _unknown_algorithm(config, task) and _class_name(config) not in own


def _lacks(agent: Mapping[str, Any], *models: str) -> bool:
    return not all(isinstance(agent.get(model), Mapping) for model in models)


def _no_models(config: RunConfig, task: TaskInfo) -> bool:
    agent = in_words_of_today(config.agent)
    return _class_name(config) in PPO_NAMES and _lacks(agent, "actor", "critic")


def _no_student(config: RunConfig, task: TaskInfo) -> bool:
    agent = in_words_of_today(config.agent)
    return _class_name(config) in DISTILLATION_NAMES and (
        _lacks(agent, "student", "teacher")
        or not get_dotted(agent, "student.distribution_cfg", None)
    )


def _no_teacher(config: RunConfig, task: TaskInfo) -> bool:
    return _class_name(config) in DISTILLATION_NAMES and config.checkpoint is None


def _batch_normalisation(config: RunConfig, task: TaskInfo) -> bool:
    """Whether a CNN, of which there may be one for each group of images, has batch norm."""
    kinds = [
        value
        for model in MODELS
        for key, value in flatten(get_dotted(config.agent, f"{model}.cnn_cfg", None) or {})
        if key.rpartition(".")[2] == "norm"
    ]
    return config.on_several_ranks and any("batch" in kind for kind in kinds)


REFUSALS = (
    Refusal(
        "discrete actions",
        _no_continuous_actions,
        "rsl_rl has no categorical distribution: its policies give continuous actions only.",
        "take the task's twin with continuous actions, such as rltrain/CartPoleContinuous-v1 for "
        "CartPole-v1, or --library rl_games or skrl.",
    ),
    Refusal(
        "an algorithm of one's own",
        _unknown_algorithm,
        "The class that algorithm.class_name names averages its gradients in its own way; only "
        "rsl_rl's PPO and Distillation are adapted.",
        "give agent.algorithm.class_name=PPO.",
    ),
    Refusal(
        "the options of another algorithm",
        _another_algorithm,
        "algorithm.class_name in the agent options is not the class of this --algorithm.",
        "give --algorithm distillation for the options of a Distillation, and --algorithm ppo for "
        "those of a PPO.",
    ),
    Refusal(
        "options without actor and critic",
        _no_models,
        "rsl_rl 5 reads its models from `actor` and `critic`; of the older `policy`, the classes "
        "ActorCritic and ActorCriticRecurrent are understood.",
        "give an agent config that has them, as rsl_rl 5 writes it.",
    ),
    Refusal(
        "distillation without a student",
        _no_student,
        "rsl_rl 5 reads its models from `student` and `teacher`, and logs the deviation of the "
        "student's actions, which student.distribution_cfg describes; of the older `policy`, the "
        "classes StudentTeacher and StudentTeacherRecurrent are understood.",
        "give an agent config that has all of them.",
    ),
    Refusal(
        "distillation without a teacher",
        _no_teacher,
        "A student learns from a trained teacher.",
        "give --checkpoint with a checkpoint of PPO on this task, whose actor becomes the teacher.",
    ),
    Refusal(
        "batch normalisation on several ranks",
        _batch_normalisation,
        "cnn_cfg.norm=batch normalises by one rank's mini-batch, and keeps statistics that differ "
        "from rank to rank.",
        "give cnn_cfg.norm=layer, or train on one rank.",
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
            algorithms=tuple(CLASS_NAMES),
            default_agent=default_agent,
            required_keys=("algorithm.class_name", "num_steps_per_env"),
            option_keys=OPTION_KEYS,
            run_keys={"seed": "seed", "max_iterations": "max_iterations"},
            refuses=REFUSALS,
            iteration=iteration,
            read_checkpoint="rltrain_torch.checkpoints:top_level_keys",
            # Those that files of PPO and of distillation have in common.
            checkpoint_keys=frozenset({"optimizer_state_dict", "iter", "infos"}),
        )
    ]
