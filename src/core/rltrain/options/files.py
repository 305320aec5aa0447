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

from rltrain.errors import UsageError

__all__ = ["in_short", "load_yaml", "parse_yaml"]

_LINES = 6
"""Of an error of YAML's."""

_TUPLE = re.compile(r"(?<=[:,\[-] )!!python/tuple(?=\s)")
"""The tag that Isaac Lab's and mjlab's own files have where Python had a tuple: it is a list."""


def load_yaml(path: str, option: str) -> dict[str, Any]:
    """Load a YAML file that holds a mapping, and resolve its interpolations.

    OmegaConf reads it, so that `3e-4` is a number, as users of these libraries expect.

    Raises:
        UsageError: the file does not exist, does not parse, or does not hold a mapping.
    """
    if not os.path.isfile(path):  # Path.is_file raises if the name is too long.
        raise UsageError(f"{option} {path}: there is no such file.")
    return _options(
        lambda: copy.deepcopy(_parsed(path, Path(path).stat().st_mtime_ns)), path, option
    )


def parse_yaml(text: str, path: str, option: str) -> dict[str, Any]:
    """Return what the text of a YAML file holds. Interpolations stay as they are written.

    Raises:
        UsageError: it does not parse, or does not hold a mapping.
    """
    from omegaconf import OmegaConf

    return _options(lambda: OmegaConf.to_container(_loaded(text)), path, option)


def _options(read: Callable[[], Any], path: str, option: str) -> dict[str, Any]:
    try:
        loaded = read()
    except (
        Exception
    ) as error:  # Besides its own errors, OmegaConf raises AssertionError and others.
        raise UsageError(f"{option} {path}: does not parse as YAML: {in_short(error)}") from error
    if not isinstance(loaded, dict) or not loaded:
        raise UsageError(f"{option} {path}: must hold a mapping of options, not {loaded!r}.")
    return {str(key): value for key, value in loaded.items()}


@functools.lru_cache(maxsize=64)
def _parsed(path: str, modified: int) -> Any:
    """Return a file's contents. Cached: listing tasks reads the same few files many times."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(_loaded(Path(path).read_text("utf-8")), resolve=True)


def _loaded(text: str) -> Any:
    """Return the configuration in a text. All tags but that of tuples are refused."""
    from omegaconf import OmegaConf

    return OmegaConf.load(io.StringIO(_TUPLE.sub("!!seq", text)))


def in_short(error: Exception) -> str:
    """Return an error of YAML's: what, and where. OmegaConf may add a page after it."""
    return "\n".join(str(error).splitlines()[:_LINES])
