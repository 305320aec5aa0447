"""The space of a search: which options vary, and between which values.

Its parameters are Optuna's distributions, by the dotted key of the option.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rltrain.errors import UsageError, in_a_line, suggest

Space = Mapping[str, BaseDistribution]
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\((.*)\)\s*", re.DOTALL)
_SECTIONS = ("agent", "env")
_FUNCTIONS = ("choice", "range", "interval", "log", "int", "tag")


def space_in(options: Mapping[str, Any]) -> Space:
    """Return the options of a run whose value is `choice(...)` or the like.

    Raises:
        UsageError: one is written wrongly.
    """
    return {
        key: _distribution(f"{key}={value}", call)
        for key, value in flat(options)
        if isinstance(value, str) and (call := _CALL.fullmatch(value))
    }


def with_values(options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's options with a value for each key."""
    changed = {**options, **{name: dict(options.get(name, {})) for name in _SECTIONS}}
    for key, value in values.items():
        section, _, rest = key.partition(".")
        if section in _SECTIONS:
            changed[section][rest] = value
        else:
            changed[key] = value
    return changed


def written_out(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which each `a,b`, as for Hydra's multirun, is `choice(a,b)`."""
    return with_values(options, {key: as_choice(value) for key, value in flat(options)})


def as_choice(value: Any) -> Any:
    """Return `choice(a,b)` for `a,b`, and any other value as it is."""
    several = isinstance(value, str) and not _CALL.fullmatch(value) and len(_split(value)) > 1
    return f"choice({value})" if several else value


def values_of(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a run for Optuna's, which has lists and mappings as text."""
    found = dict(params)
    for key, value in params.items():
        if isinstance(value, str) and value[:1] in ("[", "{"):
            with contextlib.suppress(ValueError):
                found[key] = json.loads(value)
    return found


def ends_of(each: BaseDistribution) -> list[Any]:
    """Return values that have to be possible: of a range both ends, and one between them."""
    if isinstance(each, CategoricalDistribution):
        return [values_of({"": choice})[""] for choice in each.choices]
    assert isinstance(each, (FloatDistribution, IntDistribution))
    return [each.low, each.high, nearest(each, each.low + 0.382 * (each.high - each.low))]


def first_of(space: Space) -> dict[str, Any]:
    """Return values of the space, the first of each parameter."""
    return {key: ends_of(each)[0] for key, each in space.items()}


def nearest(each: BaseDistribution, value: Any) -> Any:
    """Return the value of a parameter that is the nearest to a number."""
    assert isinstance(each, (FloatDistribution, IntDistribution))
    value = min(max(value, each.low), each.high)
    if each.step is not None:
        value = each.low + round((value - each.low) / each.step) * each.step
    return value


def shown(values: Mapping[str, Any]) -> str:
    """Return values in a line, each by the last part of its key if that is enough."""
    last = [key.rpartition(".")[2] for key in values]
    words = []
    for (key, value), short in zip(values.items(), last, strict=True):
        name = short if last.count(short) == 1 else key
        words.append(f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}")
    return " ".join(words)


def flat(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each option of a run by dotted key."""
    for name, value in options.items():
        if name in _SECTIONS:
            yield from ((f"{name}.{key}", each) for key, each in value.items())
        else:
            yield name, value


def _distribution(word: str, call: re.Match[str]) -> BaseDistribution:
    """Return what a call such as `log(1e-5, 1e-2)` means; `word` is for messages."""
    name, given, tags = call[1], _split(call[2]), set[str]()
    while name in ("tag", "int") or (name == "log" and len(given) == 1):
        tags |= set(given[:-1]) if name == "tag" else {name}
        inner = _CALL.fullmatch(given[-1]) if given else None
        if inner is None or inner[1] == "choice" or not tags <= {"log", "int"}:
            raise UsageError(f"{word}: write tag(log,int,interval(LOW,HIGH)), or one of the tags.")
        name, given = inner[1], _split(inner[2])
    if name not in _FUNCTIONS:
        raise UsageError(
            f"{word}: there is no {name}().{suggest(name, _FUNCTIONS)} Write choice(A,B), "
            "log(LOW,HIGH), interval(LOW,HIGH) or range(START,STOP,STEP)."
        )
    values = [_plain(each) for each in given]
    try:
        if name == "choice":
            return CategoricalDistribution(list(map(_as_choice, values)))
        if not all(isinstance(x, (int, float)) and math.isfinite(x) for x in values):
            raise ValueError(f"{name}() takes numbers, such as {name}(1,10)")
        if name == "range":
            return _range(values, tags)
        if len(values) != 2:
            raise ValueError(f"{name}() takes two numbers, the lowest and the highest")
        log = name == "log" or "log" in tags
        kind = IntDistribution if "int" in tags else FloatDistribution
        return kind(values[0], values[1], log)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{word}: {in_a_line(error):.200}.") from error


def _range(values: list[Any], tags: set[str]) -> BaseDistribution:
    """Return numbers from START to below STOP, as Python and Hydra count."""
    given = {1: [0, *values, 1], 2: [*values, 1], 3: values}.get(len(values))
    start, stop, step = given or [0, 0, 0]
    count = math.ceil((stop - start) / step - 1e-9) if step > 0 else 0
    if count < 1:
        raise ValueError("range(START,STOP,STEP) needs START below STOP, and STEP above 0")
    whole = all(isinstance(x, int) for x in (start, stop, step)) or "int" in tags
    kind = IntDistribution if whole else FloatDistribution
    return kind(start, start + step * (count - 1), log="log" in tags, step=step)


def _split(text: str) -> list[str]:
    """Return the parts between commas that are in no brackets and no quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote or (letter in "'\"" and not parts[-1].strip()):
            quote = "" if quote == letter else quote or letter
        depth += (letter in "([{") - (letter in ")]}") if not quote else 0
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _plain(text: str) -> Any:
    """Return a value as an override has it: `3e-4` is a number."""
    with contextlib.suppress(ValueError):
        return int(text) if text.lstrip("+-").isdigit() else float(text)
    with contextlib.suppress(yaml.YAMLError):
        found = yaml.safe_load(text)
        return text if isinstance(found, datetime.date) else found
    return text


def _as_choice(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (list, dict)) else value
