"""What this plugin provides. Importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain import hookimpl
from rltrain.specs import CheckpointFormat, LibrarySpec, OptionSchema, Spec
from rltrain_rsl_rl.declare.choices import choices
from rltrain_rsl_rl.declare.iteration import iteration
from rltrain_rsl_rl.declare.keys import RESTORED, keys
from rltrain_rsl_rl.declare.older import without_sections
from rltrain_rsl_rl.declare.options import default_agent, ignored, is_safe_value
from rltrain_rsl_rl.declare.refusals import CLASS_NAMES, REFUSALS


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the library."""
    return [
        LibrarySpec(
            name="rsl_rl",
            factory="rltrain_rsl_rl.run.library:RslRlLibrary",
            summary="rsl_rl of ETH Zurich and NVIDIA",
            frameworks=("torch",),
            algorithms=tuple(CLASS_NAMES),
            default_agent=default_agent,
            schema=OptionSchema(
                required=("algorithm.class_name", "num_steps_per_env"),
                check_types=True,
                keys=keys,
                choices=choices,
                ignored=ignored,
                is_safe_value=is_safe_value,
                run_keys={"seed": "seed", "max_iterations": "max_iterations"},
                restored=RESTORED,
            ),
            read_file=without_sections,
            refuses=REFUSALS,
            iteration=iteration,
            checkpoint=CheckpointFormat(
                "rltrain_torch.checkpoints:top_level_keys",
                # Those that checkpoints of PPO and of distillation have in common.
                frozenset({"optimizer_state_dict", "iter", "infos"}),
            ),
            preload=dict.fromkeys(("cpu", "cuda"), "rltrain_rsl_rl.run.library"),
        )
    ]
