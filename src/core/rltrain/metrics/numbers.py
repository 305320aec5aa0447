"""NaN and infinity: checks of what environments return and of updates, and what a run does.

Numbers are checked where they are, by operators that numpy, torch and jax arrays share. Only counts
are copied to the host, once an iteration.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.errors import NonFiniteError, PeerLost
from rltrain.types import Arrays, GradientSync, ProcessGroup

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


_SKIPS = {
    "observations": "0 takes their place",
    "rewards": "0 takes their place",
    "gradients": "all ranks skip such updates",
    "losses": "an update is skipped where its gradients are not finite either",
    "parameters": "the run ends",
}
"""What `--on-nonfinite skip` does about each kind."""

_IDLE = 10
"""Iterations without a single update after which a run ends."""


class NonFiniteCheck:
    """Finds NaN and infinity on one rank, and reacts once any rank has found some."""

    def __init__(self, reaction: str, arrays: Arrays | None) -> None:
        """Start counting, for the option `on_nonfinite`; without arrays, no gradients."""
        self._reaction, self._arrays = reaction, arrays
        self.env = EnvNumbers(arrays, replaces=reaction == "skip")
        self._syncs: list[CheckedSync] = []
        self._models: dict[str, Any] = {}
        self._losses: list[str] = []
        self._counts = dict.fromkeys(KINDS, 0.0)
        self._warned: set[str] = set()

    def add_model(self, model: Any, role: str) -> None:
        """Remember a model, whose parameters may be named."""
        self._models[role] = model

    def checked(self, sync: GradientSync, parameters: Any, extras: int = 0) -> GradientSync:
        """Return a gradient sync that is checked, but for its extras."""
        if self._arrays is None:
            return sync
        skips = self._reaction == "skip"
        self._syncs.append(CheckedSync(sync, parameters, extras, self._arrays, self.env, skips))
        return self._syncs[-1]

    def count(self, values: Mapping[str, Any]) -> list[Any]:
        """Return how many numbers of each kind were not finite on this rank in this iteration.

        They are where the arrays are: reading them waits for the device.
        """
        self._losses = [name for name, value in values.items() if _is_broken_loss(name, value)]
        found = self.env.count()
        found["losses"] = float(len(self._losses))
        found["gradients"] = sum((sync.found for sync in self._syncs), 0.0)
        found["parameters"] = sum((sync.broken for sync in self._syncs), 0.0)
        return [found[kind] for kind in KINDS]

    def react(
        self, group: ProcessGroup, counts: Sequence[float], iteration: int
    ) -> tuple[str, dict[str, float]]:
        """Begin the next iteration, or end the run. Collective if any rank has found something.

        It returns a warning, or "", and scalars: how many there were so far, by kind.
        """
        warning = ""
        if any(counts) or any(sync.left_out for sync in self._syncs):
            own = [dataclasses.astuple(x) for x in self._findings(group.rank)]
            found = [Finding(*each) for rank in group.gather_objects(own) for each in rank]
            if self._reaction != "skip" or any(each.kind == "parameters" for each in found):
                raise self._error(describe(found), iteration)
            warning = self._warning(found, iteration)
            # As one rank with all environments would count.
            new = dict(zip(KINDS, counts, strict=True))
            new["gradients"] = float(sum(sync.left_out for sync in self._syncs))
            new["losses"] = float(len({each.what for each in found if each.kind == "losses"}))
            self._counts = {kind: count + new[kind] for kind, count in self._counts.items()}
        self.env.restart()
        for sync in self._syncs:
            sync.restart()
            if sync.idle >= _IDLE:
                raise NonFiniteError(
                    f"In the last {_IDLE} iterations every update was left out, because of "
                    "gradients that are not finite: nothing is learned any more. The run ends; the "
                    "parameters in its checkpoints are finite."
                )
        return warning, {f"nonfinite/{kind}": x for kind, x in self._counts.items() if x}

    def explain(self, rank: int, iteration: int) -> NonFiniteError | PeerLost | None:
        """Return why a library has failed in this iteration, if it was because of such numbers."""
        found = self._findings(rank)
        if not self.env.findings(rank) and any(x.broken and not x.found for x in self._syncs):
            # An average broke parameters to which this rank gave finite gradients.
            return PeerLost(
                f"NaN or infinity in iteration {iteration}, by another rank's gradients."
            )
        return self._error(describe(found), iteration) if found else None

    def _findings(self, rank: int) -> list[Finding]:
        found = self.env.findings(rank)
        for sync in self._syncs:
            found += sync.findings(rank, self._models)
        return found + [Finding(rank, "losses", name, math.inf) for name in self._losses]

    def _error(self, described: str, iteration: int) -> NonFiniteError:
        skip = "without such numbers: --on-nonfinite skip; " if self._reaction == "stop" else ""
        return NonFiniteError(
            f"NaN or infinity in iteration {iteration}: {described}. No checkpoint of this "
            f"iteration was saved. To continue {skip}from the newest checkpoint: --max-restarts N."
        )

    def _warning(self, found: list[Finding], iteration: int) -> str:
        """Describe the findings of a kind that has not been named yet."""
        new = [finding for finding in found if finding.kind not in self._warned]
        if not new:
            return ""
        kinds = {finding.kind for finding in new}
        self._warned |= kinds
        done = "; ".join(f"{kind}: {_SKIPS[kind]}" for kind in KINDS if kind in kinds)
        return (
            f"NaN or infinity in iteration {iteration}: {describe(new)}. {done.capitalize()}. "
            "From now on they are only counted, in the metrics nonfinite/*."
        )


def _is_broken_loss(name: str, value: Any) -> bool:
    """Whether a scalar is a loss that is not finite. Other metrics may be NaN if there are none."""
    total = value[0] if isinstance(value, tuple) else value
    return name.lower().startswith("loss") and not math.isfinite(total)


class CheckedSync:
    """Checks one optimizer's gradients before they are averaged: then their rank is known.

    Alike on all ranks are `left_out`, the updates that were left out in this iteration, and
    `idle`, the last iterations in which every update was.
    """

    def __init__(
        self,
        sync: GradientSync,
        parameters: Any,
        extras: int,
        arrays: Arrays,
        env: EnvNumbers,
        skips: bool,
    ) -> None:
        """Check gradients but the last `extras`; `skips` says to return None for averages."""
        self._sync, self._parameters = sync, parameters
        self._checked = slice(None, -extras or None)
        self._arrays, self._env, self._skips = arrays, env, skips
        self._ages: Any = None
        """By parameter, how many updates there are since the first whose gradient was not finite,
        that included."""
        self._updates: list[int] = []
        self._learned, self.left_out, self.idle = False, 0, 0

    def __call__(self, gradients: Any) -> Any:
        """Return the averages; None if this update is to be skipped, on all ranks."""
        norms = self._arrays.norms(gradients)
        if norms is not None:
            self._ages = self._arrays.compile(_aged)(self._ages, norms)
            self._updates.append(self._env.tick())
        averaged = self._sync(gradients)
        if self._skips and not self._is_finite(averaged):
            self.left_out += 1
            return None
        self._learned = True
        return averaged

    def _is_finite(self, averaged: Any) -> bool:
        """Wait for the device, and return whether all averages are finite: equal on all ranks."""
        norms = self._arrays.norms(averaged)
        if norms is None:
            return True
        return math.isfinite(self._arrays.floats((norms[self._checked].max(),))[0])

    @property
    def found(self) -> Any:
        """1 if an update of this iteration had gradients that are not finite, else 0."""
        return (self._ages[self._checked].max() > 0) * 1.0 if self._updates else 0.0

    @property
    def broken(self) -> Any:
        """How many parameters are not finite after this iteration's updates."""
        broken = self._broken_parameters()
        return 0.0 if broken is None else broken.sum()

    def _broken_parameters(self) -> Any:
        # jax's are other arrays after each update: there the next gradients show it.
        if not self._learned or not isinstance(self._parameters, Sequence):
            return None
        return self._arrays.compile(_broken)(self._arrays.norms(self._parameters))

    def findings(self, rank: int, models: Mapping[str, Any]) -> list[Finding]:
        """Return what was found in this iteration, in parameters of these models by role."""
        ages = self._ages[self._checked].tolist() if self._updates else [0]
        found = []
        if oldest := max(ages):
            first = [index for index, age in enumerate(ages) if age == oldest]
            text = f"gradients of {self._name(first, models)}"
            found.append(Finding(rank, "gradients", text, self._updates[-oldest]))
        elif self.left_out and rank == 0:  # Unless another rank's are named: its came before.
            text = "the average of the ranks' gradients, which are finite"
            found.append(Finding(rank, "gradients", text, math.inf))
        if self.broken:
            flags = self._broken_parameters().tolist()
            name = self._name([index for index, flag in enumerate(flags) if flag], models)
            found.append(Finding(rank, "parameters", name, math.inf))
        return found

    def _name(self, which: list[int], models: Mapping[str, Any]) -> str:
        """Name parameters by the first of them."""
        name = self._arrays.names(self._parameters, models)[which[0]]
        return name + (f" and {len(which) - 1} more" if which[1:] else "")

    def restart(self) -> None:
        """Begin an iteration."""
        if self._updates:
            self.idle = 0 if self._learned else self.idle + 1
        self._updates, self._learned, self.left_out = [], False, 0
        if self._ages is not None:
            self._ages = self._arrays.zeros_like(self._ages)


def _aged(ages: Any, norms: Any) -> Any:
    """Return the ages after another update."""
    broken = _broken(norms)
    return broken * 1 if ages is None else ages + ((ages > 0) | broken)


def _broken(norms: Any) -> Any:
    return norms - norms != 0  # NaN, also for infinity.
