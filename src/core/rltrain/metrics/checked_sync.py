"""A gradient sync that counts gradients that are not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.metrics.finite import EnvNumbers, Finding
from rltrain.types import Arrays, GradientSync

__all__ = ["CheckedSync"]


class CheckedSync:
    """Checks one optimizer's gradients before they are averaged.

    Only this rank's own gradients tell who has caused what: in the averages, and in all gradients
    after the update, every rank has it.

    Attributes:
        left_out: the updates that were left out in this iteration, alike on all ranks.
        idle: the last iterations in which every update was left out, alike on all ranks.
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
        """Check the gradients of `sync`.

        Args:
            sync: averages the gradients.
            parameters: those that it was made for.
            extras: how many of the last ones are not checked.
            arrays: of the run's framework.
            env: numbers the updates.
            skips: whether to return None for averages that are not finite.
        """
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
        """How many parameters are not finite after this iteration's updates.

        jax's are other arrays after each update: there the next gradients tell.
        """
        if not self._learned or not isinstance(self._parameters, Sequence):
            return 0.0
        return self._arrays.compile(_broken)(self._arrays.norms(self._parameters)).sum()

    @property
    def is_broken_by_others(self) -> bool:
        """Whether an average has broken parameters to which this rank gave finite gradients."""
        return bool(self.broken) and not self.found

    def findings(self, rank: int, models: Mapping[str, Any]) -> list[Finding]:
        """Return what was found in this iteration.

        Args:
            rank: this rank.
            models: by role, models to which the parameters may belong.
        """
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
            broken = self._arrays.compile(_broken)(self._arrays.norms(self._parameters)).tolist()
            which = [index for index, value in enumerate(broken) if value]
            found.append(Finding(rank, "parameters", self._name(which, models), math.inf))
        return found

    def _name(self, which: list[int], models: Mapping[str, Any]) -> str:
        """Name parameters by the first of them."""
        name = self._arrays.names(self._parameters, models)[which[0]]
        return name + (f" and {len(which) - 1} more parameters" if which[1:] else "")

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
