"""Prints which libraries train mjlab's tasks, and whether the files of its own scripts are taken.

python tests/corpus/mjlab_tasks.py [--train FRAMES] [WORD ...]

Needs mjlab. Of the tasks whose names contain each word it plans runs, and simulates nothing: with
the options of the task, with the `params/agent.yaml` that mjlab's own script writes for it, and
with each other library's. With `--train`, every planned run collects that many frames an
environment and learns from them, in this process.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from mjlab.tasks.registry import list_tasks, load_rl_cfg

from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain.testing import FakeWorld

STEPS = {
    "rl_games": "params.config.horizon_length",
    "rsl_rl": "num_steps_per_env",
    "skrl": "agent.rollouts",
}
OWN, DEFAULTS, TRAINED = "its options", "defaults", "trained"
COLUMNS = ("rsl_rl", "rsl_rl, its `params/agent.yaml`", "rl_games", "skrl")


def outcome(column: str, task: str, folder: Path, frames: int) -> str:
    """Return whose options a run takes, or why it is refused before a rank starts."""
    library, _, file = column.partition(", ")
    run: dict[str, Any] = {"library": library, "suite": "mjlab", "task": task}
    if file:
        path = folder / f"{task}.yaml"
        # With Python's tuples, as mjlab's `dump_yaml` writes it.
        path.write_text(yaml.dump(dataclasses.asdict(load_rl_cfg(task)), sort_keys=False))
        run["agent_config"] = str(path)
    try:
        plan = make_plan(run)
        if not frames:
            registered = plan.options_from.startswith("those of the suite")
            return "its file" if file else OWN if registered else DEFAULTS
        run |= {"agent": {STEPS[library]: frames}, "num_envs": 4, "max_iterations": 2}
        FakeWorld(1).train(**run, scale_minibatches=True, log_root=str(folder))
    except UsageError as error:
        return "refused: " + str(error).partition("\n")[0].replace(task, "TASK")
    except Exception as error:
        return f"FAILS: {type(error).__name__}: {error}".partition("\n")[0]
    return TRAINED


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=int, default=0, metavar="FRAMES")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    print(f"| task | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for task in sorted(list_tasks()):
            if not all(word in task for word in args.words):
                continue
            with contextlib.redirect_stdout(sys.stderr):  # The libraries print to stdout.
                cells = [outcome(each, task, Path(folder), args.train) for each in COLUMNS]
            print(f"| {task} | {' | '.join(cells)} |", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
