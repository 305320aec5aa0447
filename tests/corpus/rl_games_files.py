"""Prints what becomes of files of options for rl_games that others wrote.

python tests/corpus/rl_games_files.py FOLDER ...

The folders are those of IsaacGymEnvs (`isaacgymenvs/cfg/train`), of OmniIsaacGymEnvs
(`omniisaacgymenvs/cfg/train`), or others with such files. Each trains as those of Isaac Lab do, see
`outcomes.py`: two iterations on two fake ranks, for spaces that suit the file.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import outcomes
import spaces
import torch
from outcomes import File, all_outcomes, outcome
from wheel import unpacked

from rltrain.config.options import DEFAULT_TASK as TASK
from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan

MADE_FOR = 4096
"""Environments of most tasks; of a file with smaller mini-batches, no more than those have rows."""
SHORTER = {"params.config.mini_epochs": 1}


def spaces_of(name, options, of_library=spaces.rl_games):
    """Return the spaces that a file is for; without `params.env`, as Isaac Lab's files have it."""
    options.setdefault("params", options.get("train", {}).get("params", {})).setdefault("env", {})
    return of_library(name, options)


def made_for(path: Path) -> int:
    rows = re.findall(r"^ *minibatch_size: *(\d+)", path.read_text(), re.MULTILINE)
    return min(MADE_FOR, *map(int, rows)) if rows else MADE_FOR


def came(library: str, file: File, logs: Path) -> str:
    """Return the outcome of a file; of one without a network's options, what the plan says."""
    try:
        did = outcome(library, file, logs)
    except (AttributeError, KeyError, UsageError):
        did = "refused: --agent-config"
    if not did.startswith("refused: --agent-config"):
        return did
    try:
        make_plan({"library": library, "task": TASK, "agent_config": str(file.path)})
    except UsageError as error:
        return "refused: " + str(error).partition(": ")[2]
    return "FAILS: planned without a network's options"


def main(folders: list[str]) -> None:
    torch.set_num_threads(1)
    counts: Counter[tuple[str, str]] = Counter()
    print("| file | outcome |\n|---|---|", flush=True)
    for folder in map(Path, folders):
        found = [File(path.name, path, made_for(path)) for path in sorted(folder.glob("*.y*ml"))]
        with (
            tempfile.TemporaryDirectory() as place,
            contextlib.redirect_stdout(sys.stderr),
            mock.patch.object(spaces, "rl_games", spaces_of),
            mock.patch.object(outcomes, "files", return_value=found),
            mock.patch.object(outcomes, "outcome", came),
            mock.patch.dict(outcomes.CUT, SHORTER),
        ):

            def note(file, did, folder=folder):
                counts[str(folder), did.partition(": ")[0]] += 1
                print(f"| {file.path} | {did} |", file=sys.__stdout__, flush=True)

            all_outcomes("rl_games", unpacked(Path(place), "3.0.0"), Path(place, "runs"), note)
    print(
        "", *(f"{n} {folder}: {did}" for (folder, did), n in counts.items()), sep="\n", flush=True
    )
    os._exit(0)  # The stand-in's app ends a process in its own way, as Isaac Sim does.


if __name__ == "__main__":
    main(sys.argv[1:])
