"""What this plugin provides. Importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain import hookimpl
from rltrain.specs import LibrarySpec, Spec
from rltrain_rsl_rl.declare.iteration import iteration
from rltrain_rsl_rl.declare.keys import RESTORED, keys
from rltrain_rsl_rl.declare.older import without_sections
from rltrain_rsl_rl.declare.options import default_agent, is_harmless, unread
from rltrain_rsl_rl.declare.refusals import CLASS_NAMES, REFUSALS
from rltrain_rsl_rl.declare.words import words


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
            required_keys=("algorithm.class_name", "num_steps_per_env"),
            read_file=without_sections,
            same_kinds=True,
            keys=keys,
            words=words,
            unread=unread,
            harmless=is_harmless,
            run_keys={"seed": "seed", "max_iterations": "max_iterations"},
            restored=RESTORED,
            refuses=REFUSALS,
            iteration=iteration,
            read_checkpoint="rltrain_torch.checkpoints:top_level_keys",
            # The keys that checkpoints of PPO and of distillation have in common.
            checkpoint_keys=frozenset({"optimizer_state_dict", "iter", "infos"}),
            preload=dict.fromkeys(("cpu", "cuda"), "rltrain_rsl_rl.run.library"),
        )
    ]
