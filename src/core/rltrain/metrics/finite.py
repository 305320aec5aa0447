"""NaN and infinity in what an environment returns, and which number was the first of all ranks.

Numbers are checked where they are, by operators that numpy, torch and jax arrays share. Only counts
are copied to the host, once an iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rltrain.types import Arrays

KINDS = ("observations", "rewards", "gradients", "losses", "parameters")
_FINAL = "final observations"
"""The name of `info["final_obs"]`."""
_SHOWN = 4
"""How many findings a message names."""


@dataclass(frozen=True)
class Finding:
    """What a rank found in one tensor in an iteration."""

    rank: int
    kind: str
    what: str
    """The tensor, such as "observations[policy]", and where in it."""
    when: float
    """The tick in which it came; see `EnvNumbers.tick`. What comes later than the first finding of
    all ranks may follow from it."""


def describe(findings: Iterable[Finding]) -> str:
    """Name the ranks and tensors that were the first to hold NaN or infinity."""
    found = sorted(findings, key=lambda finding: (finding.when, finding.rank))
    first = [finding for finding in found if finding.when == found[0].when]
    if first[0].kind == "gradients":
        ranks = {finding.rank for finding in first}
        first += [item for item in found if item.kind == "losses" and item.rank in ranks]
    named = [f"rank {finding.rank}: {finding.what}" for finding in first[:_SHOWN]]
    return "; ".join(named) + (f"; and {len(first) - _SHOWN} more" if first[_SHOWN:] else "")


class EnvNumbers:
    """Counts what is not finite among one rank's observations and rewards."""

    def __init__(self, arrays: Arrays | None = None, *, replaces: bool = False) -> None:
        """Start counting; `replaces` says to put 0 in the place of numbers that are not finite."""
        self._arrays = arrays
        self._replaces = replaces
        self._seen: dict[str, tuple[Any, Any]] = {}
        """By tensor, how often each environment had a number that was not finite, and in how many
        checks since the first of these, that included."""
        self._broken: set[str] = set()
        """Tensors that the host has seen to hold such numbers in this iteration."""
        self._ticks = 0
        self._checks: list[int] = []
        """The ticks of the checks in this iteration."""

    def tick(self) -> int:
        """Return the number of the next check, or update, of this iteration: alike on all ranks."""
        self._ticks += 1
        return self._ticks

    def reset(self, observations: Any) -> Any:
        """Check the observations of a reset; return them, or finite ones."""
        self._check(_named("observations", observations))
        return self._kept(observations)

    def step(
        self, observations: Any, rewards: Any, info: dict[str, Any] | None = None
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Check a step of every environment; return what it returned, or finite numbers.

        Rows of `info["final_obs"]` whose episode has not ended may hold anything.
        """
        info = info or {}
        final, ended = info.get("final_obs"), info.get("_final_obs")
        named = _named("observations", observations) | _named("rewards", rewards)
        self._check(named if ended is None else named | _named(_FINAL, final), ended)
        if final is not None and self._replaces:
            info = {**info, "final_obs": self._kept(final)}
        return self._kept(observations), self._kept(rewards), info

    def count(self) -> dict[str, Any]:
        """Return by kind the steps of single environments with a number that is not finite.

        The numbers are where the arrays are: reading them waits for the device.
        """
        counted: dict[str, Any] = dict.fromkeys(("observations", "rewards"), 0.0)
        for name, (count, _) in self._seen.items():
            kind = _kind(name)
            counted[kind] = counted[kind] + count.sum()
        return counted

    def findings(self, rank: int) -> list[Finding]:
        """Return what was found in this iteration."""
        found = []
        for name, (_, ages) in self._seen.items():
            if oldest := int(ages.max()):
                what = f"{name}, first in environment {int(ages.argmax())}"
                found.append(Finding(rank, _kind(name), what, self._checks[-oldest]))
        return found

    def restart(self) -> None:
        """Begin an iteration."""
        self._ticks, self._checks, self._broken = 0, [], set()
        for name, (count, age) in self._seen.items():
            self._seen[name] = self._zeros_like(count), self._zeros_like(age)

    def _check(self, values: Mapping[str, Any], ended: Any = None) -> None:
        """Count what is not finite; of final observations, where an episode has `ended`."""
        self._checks.append(self.tick())
        if not values:
            return
        if self._arrays is not None:
            values = {name: self._arrays.view_on_host(x) for name, x in values.items()}
            ended = self._arrays.view_on_host(ended)
            if self._arrays.owns(next(iter(values.values()))):
                self._seen = self._arrays.compile(_count)(self._seen, values, ended)
                return
        import numpy as np

        with np.errstate(invalid="ignore", over="ignore"):
            # On the host, the check need not wait. A sum is not finite if a number is not.
            self._broken |= {name for name, x in values.items() if not math.isfinite(x.sum())}
            new = {x for x in values if x not in self._seen} | self._broken
            if new:
                seen = {name: self._seen[name] for name in new & self._seen.keys()}
                self._seen |= _count(seen, {x: values[x] for x in new & values.keys()}, ended)

    def _zeros_like(self, count: Any) -> Any:
        if self._arrays is not None and self._arrays.owns(count):
            return self._arrays.zeros_like(count)
        return count * 0

    def _kept(self, values: Any) -> Any:
        if not self._replaces:
            return values
        if isinstance(values, Mapping):
            return {name: self._kept(value) for name, value in values.items()}
        if not _is_float(values):
            return values
        if self._arrays is not None and self._arrays.owns(values):
            return self._arrays.finite(values)
        import numpy as np

        return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _kind(name: str) -> str:
    kind = name.partition("[")[0]
    return "observations" if kind == _FINAL else kind


def _named(kind: str, values: Any) -> dict[str, Any]:
    """Return the arrays of floats by name, such as "observations[policy]"."""
    groups = values if isinstance(values, Mapping) else {"": values}
    return {
        f"{kind}[{name}]" if name else kind: value
        for name, value in groups.items()
        if _is_float(value)
    }


def _is_float(x: Any) -> bool:
    return "float" in str(getattr(x, "dtype", None))


def _count(
    seen: Mapping[str, tuple[Any, Any]], values: Mapping[str, Any], ended: Any
) -> dict[str, tuple[Any, Any]]:
    """Return counts and ages, each of shape (num_envs,), after another check: see `_check`."""
    # A tensor that is not there in each step grows older all the same.
    found = {name: (count, age + (age > 0)) for name, (count, age) in seen.items()}
    for name, x in values.items():
        zeros = x - x  # Or NaN. On the CPU, sums are ten times as fast as comparing and `all`.
        if x.ndim > 2:
            zeros = zeros.reshape((len(x), -1))
        if x.ndim > 1:
            zeros = zeros.sum(1)
        broken = (zeros != 0) & ended if name.startswith(_FINAL) else zeros != 0
        count, age = seen.get(name, (0, 0))
        found[name] = count + broken, age + ((age > 0) | broken)
    return found
