"""Keeps skrl from making a process group, and gives it this rank's place.

skrl reads RANK, LOCAL_RANK and WORLD_SIZE on import and starts NCCL at once; with the variables
JAX_RANK and so on it does the same for jax. Only this file prevents that. It relies on four facts,
which `tests/test_skrl_contract.py` checks against the installed version:

- skrl reads those variables in `skrl/__init__.py` alone, while its `config` is built;
- `skrl.config.torch` and `skrl.config.jax` are plain attributes, read at each use;
- their classes can be built again, without arguments, and subclassed;
- skrl reads its place only from `rank`, `local_rank`, `world_size`, `is_distributed` and `device`,
  and with jax its device only from `parse_device`.

With jax an agent of skrl runs as if it were the only rank: skrl's own collectives compile again in
every call.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from rltrain.types import World

_RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


@contextlib.contextmanager
def _hidden_rank_variables() -> Iterator[None]:
    names = [f"{prefix}{name}" for name in _RANK_VARIABLES for prefix in ("", "JAX_")]
    hidden = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def import_skrl() -> ModuleType:
    """Import skrl without starting a process group, whatever the environment says."""
    with _hidden_rank_variables():
        return importlib.import_module("skrl")


def configured(
    world: World, framework: str = "torch"
) -> contextlib.AbstractContextManager[ModuleType]:
    """Give skrl, which is yielded, this rank's place and device while the context is open.

    With one rank skrl is not distributed, and needs no process group.
    """
    return using(configuration(world, framework), framework)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Have skrl log errors only: its warnings of options were shown when it trained."""
    logger = logging.getLogger("skrl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def configuration(world: World, framework: str = "torch") -> Any:
    """Return skrl's configuration of a framework with a rank's place; see `configured`."""
    make = {"torch": _rank_config_class, "jax": _single_config_class}[framework]
    return make()(world)


@contextlib.contextmanager
def using(own: Any, framework: str) -> Iterator[ModuleType]:
    """Have skrl, which is yielded, use a configuration of a framework."""
    skrl = import_skrl()
    before = getattr(skrl.config, framework)
    setattr(skrl.config, framework, own)
    try:
        yield skrl
    finally:
        setattr(skrl.config, framework, before)


@contextlib.contextmanager
def restored_hash_seed() -> Iterator[None]:
    """Restore PYTHONHASHSEED: skrl sets it with its seed, for all processes started afterwards."""
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

    Made once, when first needed: a run inside a run must not subclass the outer run's class.
    """
    base: Any = type(import_skrl().config.torch)

    class RankConfig(base):  # type: ignore[misc]
        """skrl's torch configuration of one rank."""

        def __init__(self, world: World) -> None:
            with _hidden_rank_variables():
                super().__init__()
            self._world = world
            self.device = world.device

        rank = property(lambda self: self._world.rank)
        local_rank = property(lambda self: self._world.local_rank)
        world_size = property(lambda self: self._world.world_size)
        is_distributed = property(lambda self: self._world.world_size > 1)

    return RankConfig


@functools.cache
def _single_config_class() -> type[Any]:
    """Return skrl's jax configuration of a single process, on the device of a `World`."""
    from rltrain_jax.devices import local_device

    base: Any = type(import_skrl().config.jax)

    class SingleConfig(base):  # type: ignore[misc]
        """skrl's jax configuration of one rank, as if it were the only one."""

        def __init__(self, world: World) -> None:
            with _hidden_rank_variables():
                super().__init__()
            self._device = local_device(world.device)

        def parse_device(self, device: Any) -> Any:
            """Return this rank's device: for "cpu", skrl would take the first one of all ranks."""
            return self._device

    return SingleConfig
