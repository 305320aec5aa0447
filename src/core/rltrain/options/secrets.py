"""Secrets among options, in command lines and in variables: no file of a run has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["HIDDEN", "hide", "hide_words", "without_secrets"]

HIDDEN = "(hidden)"

_PASSWORD = re.compile(r"(?:^|[._-])(?:password|passwd|passphrase|pwd)$", re.IGNORECASE)

_SECRET = re.compile(
    r"(?:^|[._-])(?:(?:api|access|secret|private|auth|signing|encryption|license)[_-]?key|"
    r"secret|token|credentials?|jwt)$",
    re.IGNORECASE,
)

_VARIABLE = re.compile(r"[A-Z0-9_]*_KEY")
"""The name of an environment variable."""

_IN_URL = re.compile(r"(://[^/@:\s]*:)[^/@\s]+(?=@)")


def hide(value: Any, name: str = "") -> Any:
    """Return a value with all secrets hidden, those below it too.

    Args:
        value: mappings, lists, tuples and plain values.
        name: of the value: of an option, with dots or without, or of an environment variable.
    """
    if isinstance(value, Mapping):
        return {key: hide(below, str(key)) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        below = (hide(each, name) for each in value)
        return tuple(below) if isinstance(value, tuple) else list(below)
    if _is_secret(name, value):
        return HIDDEN
    return _IN_URL.sub(rf"\1{HIDDEN}", value) if isinstance(value, str) else value


def hide_words(words: Iterable[str]) -> list[str]:
    """Return the words of a command line, as in `wandb.api_key=...`, with secrets hidden."""
    hidden: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        before = hidden[-1] if hidden else ""
        if equals:
            hidden.append(f"{name}={hide(value, name)}")
        else:
            hidden.append(hide(word, before if before.startswith("--") else ""))
    return hidden


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options for a file that starts another run: it needs its secrets from elsewhere."""
    return {
        name: without_secrets(value) if isinstance(value, Mapping) else hide(value)
        for name, value in options.items()
        if not _is_secret(str(name), value)
    }


def _is_secret(name: str, value: Any) -> bool:
    """Return whether this is a secret; a number may be a password, or an index of a token."""
    if isinstance(value, str) and value and (_SECRET.search(name) or _VARIABLE.fullmatch(name)):
        return True
    return isinstance(value, (str, int)) and bool(value) and bool(_PASSWORD.search(name))
