"""Prints which of Isaac Lab 3's tasks and presets each library trains, and whose options it takes.

python tests/corpus/isaaclab_presets.py [--train FRAMES] [WORD ...]

Needs Isaac Lab 3. Of the tasks whose names contain each word it plans runs, and simulates nothing.
With `--train`, every planned run collects that many frames an environment and learns from them, in
this process: for tasks whose assets are below ISAACSIM_ASSET_ROOT.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator

from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain.testing import FakeWorld

LIBRARIES = ("rl_games", "rsl_rl", "skrl")
OWN, DEFAULTS, TRAINED = "its options", "defaults", "trained"
STEPS = {
    "rl_games": "params.config.horizon_length",
    "rsl_rl": "num_steps_per_env",
    "skrl": "agent.rollouts",
}


def selections(words: list[str]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield tasks, family by family, with each of their presets, and first with none."""
    import gymnasium
    import isaaclab_tasks  # noqa: F401 - registers them
    from isaaclab_tasks.utils.preset_cli import enumerate_task_presets

    families = [
        ("/".join(str(spec.kwargs["env_cfg_entry_point"]).split(".")[1:3]), name)
        for name, spec in gymnasium.registry.items()
        if "env_cfg_entry_point" in spec.kwargs and all(word in name for word in words)
    ]
    for family, name in sorted(families):
        yield family, name, {}
        for target, presets in (enumerate_task_presets(name) or {}).items():
            for preset in presets:
                yield family, name, {str(getattr(target, "value", target)): preset}


def outcome(library: str, task: str, env: dict[str, str], frames: int) -> str:
    """Return whose options a run takes, or why it is refused before a rank starts."""
    run = {"library": library, "suite": "isaaclab", "task": task, "env": env}
    try:
        plan = make_plan(run)
    except UsageError as error:
        return f"refused: {reason(error, task)}"
    if not frames:
        return OWN if plan.options_from.startswith("those of the suite") else DEFAULTS
    run |= {"agent": {STEPS[library]: frames}, "num_envs": 4, "max_iterations": 2}
    try:
        with tempfile.TemporaryDirectory() as logs:
            FakeWorld(1).train(**run, scale_minibatches=True, log_root=logs)
    except UsageError as error:
        return f"refused: {reason(error, task)}"
    except Exception as error:
        return f"FAILS: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return TRAINED


def reason(error: UsageError, task: str) -> str:
    """Return the first line of an error, in the same words for each task."""
    return str(error).splitlines()[0].replace(task, "TASK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=int, default=0, metavar="FRAMES")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    reasons: dict[str, int] = {}
    print("| family | preset | " + " | ".join(LIBRARIES) + " |\n|---|---|" + "---|" * 3, flush=True)
    for family, chosen in itertools.groupby(selections(args.words), lambda each: each[0]):
        rows: dict[str, dict[str, collections.Counter[str]]] = {}
        # Isaac Lab and the libraries print to stdout.
        with contextlib.redirect_stdout(sys.stderr):
            for _, task, env in chosen:
                preset = " ".join(f"{name}={value}" for name, value in env.items()) or "-"
                row = rows.setdefault(preset, collections.defaultdict(collections.Counter))
                for library in LIBRARIES:
                    row[library][outcome(library, task, env, args.train)] += 1
        for preset, row in rows.items():
            cells = " | ".join(cell(row[library], reasons) for library in LIBRARIES)
            print(f"| {family} | {preset} | {cells} |", flush=True)
    print("", *(f"({number}) {came}" for came, number in reasons.items()), sep="\n", flush=True)
    os._exit(0)  # An app ends a process in its own way.


def cell(counts: collections.Counter[str], reasons: dict[str, int]) -> str:
    """Return how often each outcome came; reasons get numbers, and stand below the table."""
    short = {
        came: came
        if came in (OWN, DEFAULTS, TRAINED)
        else f"({reasons.setdefault(came, len(reasons) + 1)})"
        for came in counts
    }
    return ", ".join(f"{number} {short[came]}" for came, number in sorted(counts.items()))


if __name__ == "__main__":
    main()
