"""Options in YAML files, those of Hydra's without the others of their configuration, too.

IsaacGymEnvs writes the whole configuration into its run folders, with the references as they are.
"""

from __future__ import annotations

import copy
import functools
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.files.bounds import DEEPEST
from rltrain.files.reading import no_file

LARGEST = 2**20
"""Bytes of a file of options."""

_LINES = 6
"""Of an error of YAML's."""

_MOST = 10_000
"""Values of a file, those of aliases counted: as many as OmegaConf 2.4 takes."""

_TUPLE = re.compile(r"(?<=[:,\[-] )!!python/tuple(?=\s)")
"""The tag that Isaac Lab's and mjlab's own files have where Python had a tuple: it is a list."""

GROUP = "train"
"""Where the whole configuration has the library's options."""

_OUTSIDE = re.compile(r"\$\{\.{3,}([A-Za-z_][\w.]*)\}")
"""A reference to what the whole configuration has next to or above the group."""
_RESOLVERS: dict[str, Callable[..., Any]] = {
    "resolve_default": lambda default, value: default if value == "" else value,
    "if": lambda condition, yes, no: yes if condition else no,
}
"""Functions in references that IsaacGymEnvs and OmniIsaacGymEnvs register with OmegaConf, in
their `__init__.py` and `hydra_utils.py`."""


def load_yaml(path: str, option: str) -> dict[str, Any]:
    """Load a YAML file that holds a mapping, and resolve its interpolations.

    OmegaConf reads it, so that `3e-4` is a number, as users of these libraries expect. What is in
    another file of a Hydra configuration is left out.
    """
    if not os.path.isfile(path):
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
    """Return what the text of a YAML file holds. Interpolations stay as they are written."""
    from omegaconf import OmegaConf

    return _options(lambda: OmegaConf.to_container(loaded(text)), path, option)


def _options(read: Callable[[], Any], path: str, option: str) -> dict[str, Any]:
    from omegaconf.errors import InterpolationKeyError

    try:
        found = read()
    except InterpolationKeyError as error:
        raise UsageError(
            f"{option} {path}: {str(error).splitlines()[0]}. Write the value in its place, or give "
            "a file that has it, such as the `config.yaml` that a run of Hydra's has written."
        ) from error
    except Exception as error:  # Besides its own, OmegaConf raises AssertionError and others.
        raise UsageError(f"{option} {path}: does not parse as YAML: {in_short(error)}") from error
    if not isinstance(found, dict) or not found:
        raise UsageError(f"{option} {path}: must hold a mapping of options, not {found!r:.60}.")
    return {str(key): value for key, value in found.items()}


@functools.lru_cache(maxsize=64)
def _parsed(path: str, modified: int) -> tuple[Any, list[str]]:
    """Return a file's contents, and what is left out: see `_read_alone`.

    Cached: listing tasks reads the same few files many times.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    text = Path(path).read_text("utf-8")
    try:
        return OmegaConf.to_container(loaded(text), resolve=True), []
    except OmegaConfBaseException:
        return _read_alone(text)


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


def _read_alone(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return a file's options, and by dotted key those that are left out.

    What is not in the file is empty, as if it were not given. An option that would be empty for
    that is left out: the seed of the command line, say, or the task's number of environments.
    """
    from omegaconf import OmegaConf

    for name, resolver in _RESOLVERS.items():
        if not OmegaConf.has_resolver(name):
            OmegaConf.register_new_resolver(name, resolver)
    config = loaded(text)
    is_whole = GROUP in config
    whole = config if is_whole else OmegaConf.create({GROUP: config})
    for name in _OUTSIDE.findall(text):
        if OmegaConf.select(whole, name) is None:
            OmegaConf.update(whole, name, "", force_add=True)
    written = OmegaConf.to_container(whole, resolve=False)
    found: Any = OmegaConf.to_container(whole, resolve=True)
    if is_whole:
        return found, []
    return found[GROUP], list(_drop_empty(written[GROUP], found[GROUP]))  # type: ignore[index,call-overload]


def _drop_empty(written: Any, found: Any, *keys: str) -> Iterator[str]:
    """Remove from a mapping, and yield by dotted key, what is empty for lack of what it names."""
    for key in list(found) if isinstance(found, dict) else ():
        if found[key] == "" and written[key] != "":
            del found[key]
            yield ".".join((*keys, str(key)))
        else:
            yield from _drop_empty(written[key], found[key], *keys, str(key))
