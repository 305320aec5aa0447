"""The plan of a run: every choice resolved and checked before any rank starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rltrain.plan import steps
from rltrain.plan.draft import Draft, Plan
from rltrain.terminal import note
from rltrain.types import World

Step = Callable[[Draft], Draft]

RESOLVED: tuple[Step, ...] = (
    steps.read_options,
    steps.place_ranks,
    steps.find_task,
    steps.choose_library,
    steps.load_agent,
    steps.override_agent,
    steps.merge_file,
    steps.resolve,
    steps.check_plugins,
)
"""What is run, where, and by which plugins."""

TRAINED: tuple[Step, ...] = (
    steps.check_refusals,
    steps.measure,
    steps.check_files,
)
"""What training needs besides."""


def make_plan(
    options: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    *,
    gpus: int | None = None,
    trains: bool = True,
) -> Plan:
    """Resolve a run.

    Args:
        options: fields of `RunOptions`.
        environ: the environment variables.
        gpus: for a run on another machine, how many GPUs that machine shows. Files that it has are
            then not checked. None for a run here.
        trains: whether anything is trained. If not, sizes are not checked, and nothing is written.

    Raises:
        UsageError: an option is wrong, or a combination cannot work.
    """
    draft = Draft(options=options, environ=environ, gpus=gpus, trains=trains)
    try:
        for step in (*RESOLVED, *(TRAINED if trains else ())):
            draft = step(draft)
    finally:  # What is refused may follow from these.
        tell(draft.notes, draft.world)
    return draft.finished()


def tell(texts: Iterable[str], world: World | None = None) -> None:
    """Print texts on stderr, unless this process is a rank other than the first."""
    if world is None or world.is_root:
        for text in texts:
            note(text)
