"""Options in YAML files."""

from __future__ import annotations

import copy
import functools
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rltrain_files.errors import UsageError
from rltrain_files.hydra import read_alone
from rltrain_files.reading import no_file

__all__ = ["LARGEST", "in_short", "left_out", "load_yaml", "parse_yaml"]

LARGEST = 2**20
"""Bytes of a file of options."""

_LINES = 6
"""Of an error of YAML's."""

_TUPLE = re.compile(r"(?<=[:,\[-] )!!python/tuple(?=\s)")
"""The tag that Isaac Lab's and mjlab's own files have where Python had a tuple: it is a list."""


def load_yaml(path: str, option: str) -> dict[str, Any]:
    """Load a YAML file that holds a mapping, and resolve its interpolations.

    OmegaConf reads it, so that `3e-4` is a number, as users of these libraries expect. What is in
    another file of a Hydra configuration is left out.

    Raises:
        UsageError: the file does not exist, does not parse, or does not hold a mapping.
    """
    if not os.path.isfile(path):  # Path.is_file raises if the name is too long.
        raise UsageError(f"{option} {path}: {no_file(path)}.")
    if os.path.getsize(path) > LARGEST:
        raise UsageError(f"{option} {path}: it is larger than {LARGEST:,} bytes.")
    return _options(
        lambda: copy.deepcopy(_parsed(path, Path(path).stat().st_mtime_ns)[0]), path, option
    )


def left_out(path: str) -> list[str]:
    """Return the dotted keys of a file whose values are in other files, so that it has none."""
    return _parsed(path, Path(path).stat().st_mtime_ns)[1]


def parse_yaml(text: str, path: str, option: str) -> dict[str, Any]:
    """Return what the text of a YAML file holds. Interpolations stay as they are written.

    Raises:
        UsageError: it does not parse, or does not hold a mapping.
    """
    from omegaconf import OmegaConf

    return _options(lambda: OmegaConf.to_container(_loaded(text)), path, option)


def _options(read: Callable[[], Any], path: str, option: str) -> dict[str, Any]:
    from omegaconf.errors import InterpolationKeyError

    try:
        loaded = read()
    except InterpolationKeyError as error:
        raise UsageError(
            f"{option} {path}: {str(error).splitlines()[0]}. Write the value in its place, or give "
            "a file that has it, such as the `config.yaml` that a run of Hydra's has written."
        ) from error
    except Exception as error:  # Besides its own, OmegaConf raises AssertionError and others.
        raise UsageError(f"{option} {path}: does not parse as YAML: {in_short(error)}") from error
    if not isinstance(loaded, dict) or not loaded:
        raise UsageError(f"{option} {path}: must hold a mapping of options, not {loaded!r}.")
    return {str(key): value for key, value in loaded.items()}


@functools.lru_cache(maxsize=64)
def _parsed(path: str, modified: int) -> tuple[Any, list[str]]:
    """Return a file's contents, and what is left out: see `read_alone`.

    Cached: listing tasks reads the same few files many times.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    text = Path(path).read_text("utf-8")
    loaded = _loaded(text)
    try:
        return OmegaConf.to_container(loaded, resolve=True), []
    except OmegaConfBaseException:
        return read_alone(text, _loaded)


def _loaded(text: str) -> Any:
    """Return the configuration in a text. All tags but that of tuples are refused."""
    from omegaconf import OmegaConf

    return OmegaConf.load(io.StringIO(_TUPLE.sub("!!seq", text)))


def in_short(error: Exception) -> str:
    """Return an error of YAML's: what, and where. OmegaConf may add a page after it."""
    return "\n".join(str(error).splitlines()[:_LINES])
