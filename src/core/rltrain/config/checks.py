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
    if not str(value):
        raise _wrong(name, "''", "text, not empty")
    if "\0" in str(value):
        raise _wrong(name, repr(value), "text without NUL characters")
    return str(value)


def integer(minimum: int) -> Any:
    """Return a check for whole numbers of at least `minimum`."""

    def check(name: str, value: Any) -> int:
        try:
            number = int(str(value))
        except ValueError:
            raise _wrong(name, value, "a whole number") from None
        if not minimum <= number < 2**63:
            raise _wrong(name, value, f"at least {minimum}" if number < minimum else "below 2**63")
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


def seconds(name: str, value: Any) -> float:
    """Return a time in seconds; 0 means for ever."""
    amount = number(name, value)
    if not 0 <= amount <= 1e9:  # Python and libraries wait no longer than some 1e10.
        raise _wrong(name, value, "a number of seconds from 0 to 1e9")
    return amount


def hang_timeout(name: str, value: Any) -> dict[str, float]:
    """Return the seconds of each section of a run that is given; a number is that of `step`."""
    given = value
    if isinstance(value, str) and "=" in value:
        given = dict(part.partition("=")[::2] for part in value.split(","))
    elif not isinstance(value, Mapping):
        given = {"step": value}
    found = {str(section).strip(): amount for section, amount in given.items()}
    if not set(found) <= set(SECTIONS):
        raise _wrong(name, value, f"seconds, or SECTION=SECONDS of {', '.join(SECTIONS)}")
    return {section: seconds(name, amount) for section, amount in found.items()}


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


def nodes(name: str, value: Any) -> int:
    """Return a number of nodes."""
    if re.fullmatch(r"\d+:\d+", str(value)):
        text = "give one number; nodes that come and go are torchrun's."
        raise UsageError(f"{flag(name)} {value}: {text}")
    return int(integer(1)(name, value))


def gpu_ids(name: str, value: Any) -> tuple[int, ...] | str:
    """Read `0 1`, `[0, 1]`, `0,1`, `all` or `None`, as Isaac Lab's and mjlab's users type them."""
    return _indices(name, value, "indices such as `0 1`, all, or None", ("all", "none"))


def local_ranks(name: str, value: Any) -> tuple[int, ...] | str:
    """Read `0 1`, `0,1` as torchrun's users type them, or `all`."""
    return _indices(name, value, "ranks such as `0 1`, or all", ("all",))


def _indices(name: str, value: Any, wanted: str, names: tuple[str, ...]) -> tuple[int, ...] | str:
    """Read indices, or one of these names for some of them."""
    items = value if isinstance(value, (list, tuple)) else [value]
    words = [word for item in items for word in str(item).strip("[]() ").replace(",", " ").split()]
    if len(words) == 1 and words[0].lower() in names:
        return words[0].lower()
    try:
        indices = tuple(int(word) for word in words)
    except ValueError:
        raise _wrong(name, " ".join(words), wanted) from None
    if any(index < 0 for index in indices):
        raise _wrong(name, " ".join(words), "indices from 0")
    if not indices or len(set(indices)) < len(indices):
        raise _wrong(name, " ".join(words), "indices without repeats")
    return indices


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


def port(name: str, value: Any) -> int:
    """Return a port's number."""
    number = int(integer(1)(name, value))
    if number > 65535:
        raise _wrong(name, value, "a port from 1 to 65535")
    return number


def framework(name: str, value: Any) -> str:
    """Return a framework's name."""
    if value == "jax-numpy":
        raise UsageError(
            f"{flag(name)} jax-numpy: skrl 2 removed its numpy backend. Instead: {flag(name)} jax."
        )
    return text(name, value)


def address(name: str, value: Any) -> str:
    """Read a host's name or address; remove the brackets of an IPv6 address."""
    return re.sub(r"^\[(.*)\]$", r"\1", text(name, value))
