"""Statistics of episodes, by scipy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Summary:
    """Statistics of one number of many episodes."""

    mean: float
    mean_interval: tuple[float, float]
    """Bounds of a 95 % bootstrap interval of the mean."""
    iqm: float
    """The interquartile mean: that of the middle half of the episodes, which outliers do not move
    (Agarwal et al. 2021, "Deep RL at the Edge of the Statistical Precipice")."""
    iqm_interval: tuple[float, float]
    std: float
    least: float
    greatest: float


def summarize(values: Sequence[float]) -> Summary:
    """Return the statistics of one number of each episode. The same values give the same bounds."""
    import numpy as np

    data = np.asarray(values, dtype=np.float64)
    return Summary(
        mean=float(data.mean()),
        mean_interval=_interval(data, np.mean),
        iqm=float(_iqm(data)),
        iqm_interval=_interval(data, _iqm),
        std=float(data.std(ddof=1)) if len(data) > 1 else 0.0,
        least=float(data.min()),
        greatest=float(data.max()),
    )


def _iqm(data: Any, axis: int = -1) -> Any:
    from scipy.stats import trim_mean

    return trim_mean(data, 0.25, axis=axis)


def _interval(data: Any, statistic: Any) -> tuple[float, float]:
    import numpy as np
    from scipy.stats import bootstrap

    if len(data) < 2 or np.all(data == data[0]):
        return float(statistic(data)), float(statistic(data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns if all resamples are equal.
        # As many resamples as in rliable's examples (github.com/google-research/rliable).
        found = bootstrap(
            *((data,), statistic),
            n_resamples=2000,
            method="percentile",
            random_state=np.random.default_rng(0),
        ).confidence_interval
    return float(found.low), float(found.high)
