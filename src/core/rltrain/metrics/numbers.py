"""A rank's check for NaN and infinity, and what a run does about them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rltrain.errors import NonFiniteError, PeerLost
from rltrain.metrics.checked_sync import CheckedSync
from rltrain.metrics.finite import KINDS, EnvNumbers, Finding, describe
from rltrain.types import Arrays, GradientSync, ProcessGroup

__all__ = ["Numbers"]

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


class Numbers:
    """Finds NaN and infinity on one rank, and reacts once any rank has found some.

    Attributes:
        env: checks what this rank's environments return.
    """

    def __init__(self, reaction: str, arrays: Arrays | None) -> None:
        """Start counting.

        Args:
            reaction: the option `on_nonfinite`.
            arrays: of the run's framework; None if no installed backend knows it: then gradients
                are not checked.
        """
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
        checked = CheckedSync(sync, parameters, extras, self._arrays, self.env, skips)
        self._syncs.append(checked)
        return checked

    def count(self, values: Mapping[str, Any]) -> list[Any]:
        """Return how many numbers of each kind were not finite on this rank in this iteration.

        They are where the arrays are: reading them waits for the device.

        Args:
            values: the iteration's scalars.
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

        Args:
            group: the process group.
            counts: what `count` returned, summed over ranks.
            iteration: for the message.

        Returns:
            A warning, or "", and scalars: how many there were so far, by kind.

        Raises:
            NonFiniteError: there are some, and the run is not to go on.
        """
        warning = ""
        if any(counts) or any(sync.left_out for sync in self._syncs):
            ranks = group.gather_objects(
                [dataclasses.astuple(x) for x in self._findings(group.rank)]
            )
            found = [Finding(*finding) for findings in ranks for finding in findings]
            broken = [each for each in found if each.kind == "parameters"]
            if self._reaction != "skip" or broken:
                raise self._error(describe(found), iteration)
            warning = self._warning(found, iteration)
            self._add(counts, found)
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

    def _add(self, counts: Sequence[float], found: list[Finding]) -> None:
        """Count what was found so far, as one rank with all environments would."""
        new = dict(zip(KINDS, counts, strict=True))
        new["gradients"] = float(sum(sync.left_out for sync in self._syncs))
        new["losses"] = float(len({each.what for each in found if each.kind == "losses"}))
        for kind, count in new.items():
            self._counts[kind] += count

    def explain(self, rank: int, iteration: int) -> NonFiniteError | PeerLost | None:
        """Return why a library has failed in this iteration, if it was because of such numbers."""
        found = self._findings(rank)
        if not self.env.findings(rank) and any(sync.is_broken_by_others for sync in self._syncs):
            return PeerLost(
                f"NaN or infinity in iteration {iteration}, by another rank's gradients."
            )
        return self._error(describe(found), iteration) if found else None

    def _findings(self, rank: int) -> list[Finding]:
        """Return what this rank has found in this iteration."""
        found = self.env.findings(rank)
        for sync in self._syncs:
            found += sync.findings(rank, self._models)
        return found + [Finding(rank, "losses", name, math.inf) for name in self._losses]

    def _error(self, described: str, iteration: int) -> NonFiniteError:
        goes_back, then = self._reaction == "rollback", "No checkpoint of this iteration was saved."
        if not goes_back:
            skip = "without such numbers: --on-nonfinite skip; "
            then = (
                "The run ends without a checkpoint of this iteration. To go on "
                f"{skip if self._reaction == 'stop' else ''}from the newest checkpoint: "
                "--on-nonfinite rollback."
            )
        return NonFiniteError(
            f"NaN or infinity in iteration {iteration}: {described}. {then}", may_restart=goes_back
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
