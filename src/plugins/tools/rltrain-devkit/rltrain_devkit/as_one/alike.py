"""How far apart two runs are that should have learned the same: each tensor by its own scale.

Needs numpy alone. A state maps names to arrays, or to tensors on the CPU.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

State = Mapping[str, Any]

NOT_COMPARED = {
    "time/*": "times differ from run to run",
    "*(ms)": "times differ from run to run",
    "diagnostics/exp_var": "the mean of the ranks' shares of a variance is not that of all rows",
}
"""Metrics that no number of ranks has alike, with the reason. The docs list the same."""

OF_ONES = ("losses/a_loss", "Loss/surrogate", "Loss / Policy loss")
"""Metrics that are means of terms around 1, compared by that scale at least: most of the terms
cancel, and what is left, such as 0.003, has the rounding of the terms."""

LAST_BIT = 1e-15
"""By which learning rates among the metrics may be off: they are means over ranks, and a mean of
eight equal numbers may be off by its last bit."""

_EXACT = re.compile(r"learning.?rate|(?<![a-z])lr(?![a-z])|\b(step|frames)\b|(?<![a-z])count\b")


def is_compared(metric: str) -> bool:
    """Return whether a metric of several ranks should be that of one rank."""
    return not any(fnmatch.fnmatchcase(metric, pattern) for pattern in NOT_COMPARED)


def is_exact(name: str) -> bool:
    """Return whether a number has to be the same to the last bit: learning rates and counters."""
    return _EXACT.search(name) is not None


def differences(run: Sequence[State], expected: Sequence[State]) -> dict[str, float]:
    """Return the greatest difference of each tensor, as a share of the tensor's scale.

    The scale is the tensor's greatest absolute element in all states of both runs. So every element
    counts, second moments of 1e-8 as much as weights; biases that begin at 0 are compared with what
    they become; and a mean or a moment that passes 0 is not compared with 0. A tensor is not split:
    rounding of a sum is of the size of its terms, of which an element may have none left.
    """
    assert len(run) == len(expected), f"{len(run)} states instead of {len(expected)}"
    apart: dict[str, float] = {}
    scales: dict[str, float] = {}
    for state, other in zip(run, expected, strict=True):
        assert state.keys() == other.keys(), sorted(state.keys() ^ other.keys())
        assert state, "nothing was learned"
        for name in state:
            x, y = _numbers(state[name]), _numbers(other[name])
            assert x.shape == y.shape, name
            # Unlike max, it keeps a NaN.
            apart[name] = float(np.maximum(apart.get(name, 0.0), _greatest(x - y)))
            scales[name] = max(scales.get(name, _least(name)), _greatest(x), _greatest(y))
    return {name: x / (scales[name] or 1.0) for name, x in apart.items()}


def beyond(
    found: Mapping[str, float], tolerance: float, drift: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the `differences` that are greater than allowed: any of what is exact.

    `drift` allows greater ones than `tolerance` for some of the others.
    """

    def allowed(name: str) -> float:
        if is_exact(name):
            return LAST_BIT if name.startswith("recorded ") else 0.0
        return max(tolerance, (drift or {}).get(name, 0.0))

    return {name: x for name, x in found.items() if not x <= allowed(name)}


def _numbers(x: Any) -> np.ndarray:
    # numpy has no bfloat16.
    return np.asarray(x.double() if hasattr(x, "double") else x, dtype=np.float64)


def _greatest(x: np.ndarray) -> float:
    return float(np.abs(x).max(initial=0.0))


def _least(name: str) -> float:
    return 1.0 if name.endswith(OF_ONES) else 0.0
