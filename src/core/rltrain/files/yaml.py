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

from rltrain.data import DEEPEST
from rltrain.errors import UsageError
from rltrain.files.reading import no_file

LARGEST = 2**20
"""Bytes of a file of options."""

_LINES = 6
"""Of an error of YAML's."""

_MOST = 10_000
"""Values of a file, those of aliases counted: as many as OmegaConf 2.4 takes."""

_TUPLE = re.compile(r"(?<=[:,\[-] )!!python/tuple(?=\s)")
"""The tag that Isaac Lab's and mjlab's own files have where Python had a tuple: it is a list."""


def load_yaml(path: str, option: str) -> dict[str, Any]:
    """Load a YAML file that holds a mapping, and resolve its interpolations.

    OmegaConf reads it, so that `3e-4` is a number, as users of these libraries expect.
    """
    if not os.path.isfile(path):
        raise UsageError(f"{option} {path}: {no_file(path)}.")
    if os.path.getsize(path) > LARGEST:
        raise UsageError(f"{option} {path}: it is larger than {LARGEST:,} bytes.")
    modified = Path(path).stat().st_mtime_ns
    return _options(lambda: copy.deepcopy(_parsed(path, modified)), path, option)


def parse_yaml(text: str, path: str, option: str) -> dict[str, Any]:
    """Return what the text of a YAML file holds. Interpolations stay as they are written."""
    from omegaconf import OmegaConf

    return _options(lambda: OmegaConf.to_container(loaded(text)), path, option)


def _options(read: Callable[[], Any], path: str, option: str) -> dict[str, Any]:
    from omegaconf.errors import InterpolationKeyError

    try:
        found = read()
    except InterpolationKeyError as error:
        raise UsageError(
            f"{option} {path}: {str(error).splitlines()[0]}. Write the value in its place."
        ) from error
    except Exception as error:  # Besides its own, OmegaConf raises AssertionError and others.
        raise UsageError(f"{option} {path}: does not parse as YAML: {in_short(error)}") from error
    if not isinstance(found, dict) or not found:
        raise UsageError(f"{option} {path}: must hold a mapping of options, not {found!r:.60}.")
    return {str(key): value for key, value in found.items()}


@functools.lru_cache(maxsize=64)
def _parsed(path: str, modified: int) -> Any:
    """Return a file's contents. Cached: listing tasks reads the same few files many times."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(loaded(Path(path).read_text("utf-8")), resolve=True)


def loaded(text: str) -> Any:
    """Return the configuration in a text. All tags but that of tuples are refused."""
    from omegaconf import OmegaConf

    text = _TUPLE.sub("!!seq", text)
    _check_size(text)
    return OmegaConf.load(io.StringIO(text))


def _check_size(text: str) -> None:
    """Check how deep it is, and how much with its aliases, before it is built, recursively."""
    import yaml

    total = 0
    inside: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = inside.pop()
            sizes[anchor] = total - before
        if isinstance(event, yaml.CollectionStartEvent):
            inside.append((event.anchor, total))
        if isinstance(event, yaml.NodeEvent):
            total += sizes.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
        if len(inside) > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        if total > _MOST:
            raise ValueError(f"it has more than {_MOST:,} values, those of aliases counted")


def in_short(error: Exception) -> str:
    """Return an error of YAML's: what, and where. OmegaConf may add a page after it."""
    return "\n".join(str(error).splitlines()[:_LINES])
