"""Checks of option values: each returns the converted value, or raises an error with the flag."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.ranks.hangs import SECTIONS

Check = Callable[[str, Any], Any]
"""Takes an option's name and value; returns the converted value, or raises `UsageError`."""


_REGISTER = " Register the class of the environment, as by gymnasium.register, and give task=NAME."


def flag(name: str) -> str:
    """Return an option's flag: "num_envs" is --num-envs."""
    singular = {"writers": "writer", "observers": "observer", "no_plugins": "no-plugin"}
    return "--" + singular.get(name, name).replace("_", "-")


def _wrong(name: str, value: Any, wanted: str) -> UsageError:
    hint = _REGISTER if hasattr(value, "step") else ""  # A script's environment, or its class.
    return UsageError(f"{flag(name)} {value}: must be {wanted}.{hint}")


def text(name: str, value: Any) -> str:
    """Return text; a path counts as text."""
    if not isinstance(value, (str, Path)):
        raise _wrong(name, value, "text")
    if not str(value) or "\0" in str(value):
        raise _wrong(name, repr(value), "text, not empty, and without NUL characters")
    return str(value)


def integer(minimum: int, maximum: int = 2**63 - 1) -> Any:
    """Return a check for whole numbers of at least `minimum`."""

    def check(name: str, value: Any) -> int:
        try:
            number = int(str(value))
        except ValueError:
            raise _wrong(name, value, "a whole number") from None
        if not minimum <= number <= maximum:
            least = number < minimum
            raise _wrong(name, value, f"at least {minimum}" if least else f"at most {maximum}")
        return number

    return check


def interval(name: str, value: Any) -> int | str:
    """Return a number of iterations; or a time in seconds, as text: "600s" for 10m."""
    found = re.fullmatch(r"(\d+)([smh]?)", str(value))
    amount = int(found[1]) if found else 0
    if found is None or not amount:
        raise _wrong(name, value, "a number of iterations from 1, or a time such as 90s, 10m or 1h")
    return f"{amount * {'s': 1, 'm': 60, 'h': 3600}[found[2]]}s" if found[2] else amount


def number(name: str, value: Any) -> float:
    """Return a number."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _wrong(name, value, "a number")
    return number


def hang_timeout(name: str, value: Any) -> dict[str, float]:
    """Return the seconds of each section of a run that is given; a number is that of `step`."""
    given = value
    if isinstance(value, str) and "=" in value:
        given = dict(part.partition("=")[::2] for part in value.split(","))
    elif not isinstance(value, Mapping):
        given = {"step": value}
    found = {str(section).strip(): number(name, amount) for section, amount in given.items()}
    if not set(found) <= set(SECTIONS):
        raise _wrong(name, value, f"seconds, or SECTION=SECONDS of {', '.join(SECTIONS)}")
    if not all(0 <= amount <= 1e9 for amount in found.values()):  # Python waits no longer.
        raise _wrong(name, value, "a number of seconds from 0 to 1e9")
    return found


def boolean(name: str, value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def ranks(name: str, value: Any) -> int | str | None:
    """Return a number of ranks, gpu, or cpu; None for auto."""
    if value in ("gpu", "cpu", "auto"):
        return None if value == "auto" else str(value)
    try:
        return int(integer(1)(name, value))
    except UsageError:
        raise _wrong(name, value, "a number from 1, gpu, cpu or auto") from None


def indices(of: str, *words: str) -> Any:
    """Return a check for indices or one of some words: `0 1`, `[0, 1]`, `0,1`, `all`."""

    def check(name: str, value: Any) -> tuple[int, ...] | str:
        items = value if isinstance(value, (list, tuple)) else [value]
        typed = [x for item in items for x in re.sub(r"[\[\](), ]+", " ", str(item)).split()]
        if len(typed) == 1 and typed[0].lower() in words:
            return typed[0].lower()
        shown = " ".join(typed)
        if not typed or not all(re.fullmatch(r"-?\d+", word) for word in typed):
            raise _wrong(name, shown, f"{of} such as `0 1`, or {' or '.join(words)}")
        found = tuple(map(int, typed))
        if min(found) < 0 or len(set(found)) < len(found):
            raise _wrong(name, shown, f"{of} from 0, without repeats")
        return found

    return check


def each(check: Check) -> Any:
    """Return a check of each of several values."""
    return lambda name, values: tuple(check(name, value) for value in values)


def one_of(*words: str) -> Any:
    """Return a check that a value is one of some words."""

    def check(name: str, value: Any) -> str:
        if value not in words:
            raise _wrong(name, value, f"{', '.join(words[:-1])} or {words[-1]}")
        return str(value)

    return check


def names(name: str, value: Any) -> tuple[str, ...]:
    """Return one or more names."""
    return tuple(str(item) for item in (value if isinstance(value, (list, tuple)) else [value]))


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Return a mapping of options."""
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "a mapping of options")
    return dict(value)


def address(name: str, value: Any) -> str:
    """Read a host's name or address; remove the brackets of an IPv6 address."""
    return re.sub(r"^\[(.*)\]$", r"\1", text(name, value))
