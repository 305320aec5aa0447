"""Keeps skrl from making a process group, and tells it this rank's place.

skrl reads RANK, LOCAL_RANK and WORLD_SIZE when it is imported, and starts NCCL there and then; with
the JAX_ variables it does the like for jax. This file is the only place that works against that. It
leans on four things, which `tests/test_skrl_contract.py` checks against the installed version:

- skrl reads those variables in `skrl/__init__.py` alone, while its `config` is built;
- `skrl.config.torch` is a plain attribute, read anew at each use;
- its class can be built again, without arguments, and subclassed;
- skrl learns its place only from `rank`, `local_rank`, `world_size`, `is_distributed` and `device`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from rltrain.types import World

__all__ = ["configured", "import_skrl", "kept_hash_seed"]

_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


@contextlib.contextmanager
def _hidden_rank_variables() -> Iterator[None]:
    names = [*_RANK_VARIABLES, *(f"JAX_{name}" for name in _RANK_VARIABLES)]
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def import_skrl() -> ModuleType:
    """Import skrl so that it starts no process group, whatever the environment says."""
    with _hidden_rank_variables():
        return importlib.import_module("skrl")


@contextlib.contextmanager
def configured(world: World) -> Iterator[ModuleType]:
    """Give skrl this rank's place and device while the context is open.

    Args:
        world: this rank's place. With one rank skrl is not distributed, and needs no process group.

    Yields:
        The module `skrl`.
    """
    skrl = import_skrl()
    before = skrl.config.torch
    skrl.config.torch = _rank_config_class()(world)
    try:
        yield skrl
    finally:
        skrl.config.torch = before


@contextlib.contextmanager
def kept_hash_seed() -> Iterator[None]:
    """Put PYTHONHASHSEED back: skrl sets it with its seed, for all processes started after it."""
    before = os.environ.get("PYTHONHASHSEED")
    try:
        yield
    finally:
        os.environ.pop("PYTHONHASHSEED", None)
        if before is not None:
            os.environ["PYTHONHASHSEED"] = before


@functools.cache
def _rank_config_class() -> type[Any]:
    """Return skrl's torch configuration with the place of a `World`.

    Made when first needed, and once: a run inside a run must not subclass the outer run's class.
    """
    base: Any = type(import_skrl().config.torch)

    class RankConfig(base):  # type: ignore[misc]
        """skrl's torch configuration of one rank."""

        def __init__(self, world: World) -> None:
            with _hidden_rank_variables():
                super().__init__()
            self._world = world
            self.device = world.device

        @property
        def rank(self) -> int:
            """Global rank."""
            return self._world.rank

        @property
        def local_rank(self) -> int:
            """Rank on this node."""
            return self._world.local_rank

        @property
        def world_size(self) -> int:
            """Number of ranks."""
            return self._world.world_size

        @property
        def is_distributed(self) -> bool:
            """Whether there are several ranks."""
            return self._world.world_size > 1

    return RankConfig
