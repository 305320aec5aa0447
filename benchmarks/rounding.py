"""Compares how far two ranks are from one rank with how far rounding leads.

    python benchmarks/rounding.py
    python benchmarks/rounding.py --library skrl --iterations 20
    python benchmarks/rounding.py --algorithm ppo --grad-sync bf16

Each row is a claim of tests/shards: two ranks, and one rank that has their environments and their
noise. A number is the greatest difference of any element of any tensor or metric, as a share of its
tensor's scale, after two iterations and after the last one. "1 + 1e-7" is that one rank against
itself with initial weights that are a rounding off. In float64 all is computed that is in float32.
With another gradient sync, only the first number is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "shards"))

from rltrain_devkit.as_one.alike import State, differences

LIBRARIES = ("rl_games", "rsl_rl", "skrl", "skrl (jax)")
RANKS, EARLY = 2, 2
HEADS = ["ranks, float32", "1 + 1e-7, float32", "ranks, float64"]


def far(run: Sequence[State], expected: Sequence[State]) -> str:
    """Return the greatest difference after two iterations, and after all."""
    ends = sorted({min(EARLY, len(run)), len(run)})
    found = [max(differences(run[:end], expected[:end]).values()) for end in ends]
    return ", ".join(f"{x:.0e}" for x in found)


def of_torch(claim: Any, iterations: int, grad_sync: str | None) -> Iterable[str]:
    """Yield the row's numbers; the first one alone for a gradient sync that is named."""
    from shard_runs import Again, prepared, split_run, whole_run

    with tempfile.TemporaryDirectory() as folder:
        claim = dataclasses.replace(prepared(claim, folder), max_iterations=iterations)
        again = Again(claim, RANKS, folder)
        whole = whole_run(claim, RANKS, folder).states
        named = dataclasses.replace(claim, grad_sync=grad_sync)
        yield far(split_run(named, RANKS, folder)[0].states, whole)
        if grad_sync:
            return
        yield far(again.control(0).states, whole)
        split, one = again.in_float64()
        yield far(split[0].states, one.states)


def of_jax(claim: Any) -> Iterable[str]:
    """Yield the row's numbers."""
    from jax_updates import JaxAgain, split_update, whole_update

    whole = whole_update(claim, RANKS).states
    yield far(split_update(claim, RANKS)[0].states, whole)
    yield far(JaxAgain(claim, RANKS).control(0).states, whole)
    yield "float32 only"


def rows(
    libraries: Sequence[str], iterations: int, grad_sync: str | None
) -> Iterable[tuple[Any, Callable[[], Any]]]:
    """Yield the first claim of each algorithm, with what measures it."""
    from claims import of_each_algorithm
    from claims_jax import JAX

    for claim in of_each_algorithm():
        if claim.library in libraries:
            yield claim, functools.partial(of_torch, claim, iterations, grad_sync)
    if "skrl (jax)" in libraries and not grad_sync:
        first = {claim.algorithm: claim for claim in reversed(JAX)}
        for claim in reversed(first.values()):
            yield claim, functools.partial(of_jax, claim)


def main() -> None:
    """Print one row for each algorithm of each library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", action="append", choices=LIBRARIES)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--algorithm")
    parser.add_argument("--grad-sync")
    arguments = parser.parse_args()
    sync = arguments.grad_sync
    heads = [f"ranks, {sync}"] if sync else HEADS
    print(f"| library | algorithm | iterations | {' | '.join(heads)} |")
    print("|---|---|---" + "|---" * len(heads) + "|", flush=True)
    for claim, measure in rows(arguments.library or LIBRARIES, arguments.iterations, sync):
        if arguments.algorithm not in (None, claim.algorithm):
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            cells = list(measure())
        count = f"{EARLY}, {arguments.iterations}" if "," in cells[0] else str(EARLY)
        print(
            f"| {claim.library} | {claim.algorithm} | {count} | {' | '.join(cells)} |", flush=True
        )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
