"""Ranks of a fake world that return the errors they raised."""

from __future__ import annotations

from typing import Any

from rltrain.testing import FakeWorld


def run_ranks(world_size: int, work: Any) -> list[Any]:
    """Call `work(group)` on every rank; return results, or raised errors, by rank."""

    def kept(group):
        try:
            return work(group)
        except BaseException as error:
            return error

    return FakeWorld(world_size).run(kept)
