"""The command that the pods run: checked here, as far as this machine can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from rltrain.commands import read_run, resolve_run
from rltrain.errors import UsageError
from rltrain.options import RunOptions, Scope, scoped

_MEET = "Kubernetes numbers the pods, and they meet at the first one."
_REFUSED = {
    **dict.fromkeys(scoped(RunOptions, Scope.MEETING), _MEET),
    "launcher": "Kubernetes starts the nodes, and the backend's own launcher the ranks of each.",
    "gpu_ids": "a pod sees only the GPUs that it requests. Give --nproc-per-node N, and for the "
    "CPU --device cpu.",
}
"""Options that a pod must not have, and why."""

_JOIN_TIMEOUT = 1800
"""Seconds in which all pods must have met: one may have an image of 20 GB to pull."""


@dataclass(frozen=True)
class Inside:
    """A run, as each pod starts it."""

    words: tuple[str, ...]
    """The words after `rltrain`."""
    nodes: int
    """The number of pods."""
    gpus: int
    """The number of GPUs of each pod; 0 for a run on the CPU."""
    distributed: bool


def read_inside(words: Sequence[str], volume: str | None, name: str, restarts: int) -> Inside:
    """Check a run's command line, and return what the pods need for it.

    Args:
        words: those after `rltrain`.
        volume: the folder that outlives the pods, where run folders go; None without one.
        name: of the job, and of the run unless it has one.
        restarts: how often the job is started again.
    """
    if not words:
        raise UsageError(
            "No run is given. Write its flags after --, as in: rltrain manifest ... -- --library "
            "rsl_rl --distributed --nnodes 2 --nproc-per-node 4"
        )
    if words[0] == "rltrain":
        raise UsageError("rltrain: leave it out. Only the run's flags follow the --.")
    given = read_run(words)
    for option, reason in _REFUSED.items():
        if option in given:
            leave = "" if option == "gpu_ids" else " Leave it out."
            raise UsageError(f"--{option.replace('_', '-')}: {reason}{leave}")
    asked = RunOptions.from_mapping(given)
    gpus = _gpus(asked)
    run = resolve_run(given, gpus=gpus)
    if volume is not None:
        words = _into(volume, words, given.get("log_root"))
    if restarts:
        words = [*words, *_going_on(given, name)]
    if run.nnodes > 1 and "join_timeout" not in given:
        words = [*words, "--join-timeout", str(_JOIN_TIMEOUT)]
    return Inside(
        words=tuple(words),
        nodes=run.nnodes,
        gpus=0 if run.device_kind == "cpu" else gpus,
        distributed=run.distributed,
    )


def _gpus(asked: RunOptions) -> int:
    """Return how many GPUs a pod needs, unless the run is on the CPU."""
    if isinstance(asked.nproc_per_node, int):
        return asked.nproc_per_node
    if not asked.distributed:
        return 1
    given = "" if asked.nproc_per_node is None else f" {asked.nproc_per_node}"
    what = f"--nproc-per-node{given}" if given else "--distributed"
    raise UsageError(
        f"{what}: a manifest requests a number of GPUs for each node. Give --nproc-per-node "
        "N, and for the CPU --device cpu."
    )


def _going_on(given: Mapping[str, Any], name: str) -> list[str]:
    """Return the words by which a run that is started again goes on from its newest checkpoint."""
    named = [] if "run_name" in given else ["--run-name", name]
    return (
        []
        if "resume" in given
        else [*([] if given.get("auto_resume") else ["--auto-resume"]), *named]
    )


def _into(volume: str, words: Sequence[str], log_root: str | None) -> Sequence[str]:
    """Return the words of a run whose run folders are on the volume."""
    if log_root is None:
        return [*words, "--log-root", volume]
    if not PurePosixPath(log_root).is_relative_to(volume):
        raise UsageError(
            f"--log-root {log_root}: is not on the volume, which is mounted at {volume}. Leave it "
            f"out, or name a folder below {volume}."
        )
    return words
