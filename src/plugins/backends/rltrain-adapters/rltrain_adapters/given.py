"""What the user gives beside a checkpoint, kept while the checkpoint is loaded."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from rltrain.session import Session


@contextlib.contextmanager
def as_given(session: Session, owner: Any, places: Mapping[str, Iterable[str]]) -> Iterator[None]:
    """Keep what the user gives anew (`session.given_anew`) while a checkpoint is loaded.

    Args:
        session: this rank's session.
        owner: the library's algorithm, built from the options.
        places: by pattern of keys in `config.agent`, where an option's value is, from `owner` on:
            attributes ("entropy_coef"), in the groups of torch's optimizers too ("optimizer.lr"),
            or a whole part ("optimizer"). `*` is the end of the key. What is not there is passed
            over.
    """
    paths = [
        path.replace("*", key.rpartition(".")[2])
        for pattern, found in places.items()
        for key in session.given_anew
        if fnmatchcase(key, pattern)
        for path in found
    ]
    kept = [copy.deepcopy([_get(x, name) for x, name in _of(owner, path)]) for path in paths]
    yield
    for path, values in zip(paths, kept, strict=True):
        for (holder, name), value in zip(_of(owner, path), values, strict=True):
            if isinstance(holder, dict):
                holder[name] = value
            elif hasattr(getattr(holder, name, None), "load_state_dict"):
                getattr(holder, name).load_state_dict(value)
            elif value is not None:
                setattr(holder, name, value)


def _of(owner: Any, path: str) -> list[tuple[Any, str]]:
    *parts, name = path.split(".")
    for part in parts:
        owner = getattr(owner, part, None)
    return [(holder, name) for holder in getattr(owner, "param_groups", [owner])]


def _get(holder: Any, name: str) -> Any:
    value: Any = holder[name] if isinstance(holder, dict) else getattr(holder, name, None)
    return value.state_dict() if hasattr(value, "load_state_dict") else value
