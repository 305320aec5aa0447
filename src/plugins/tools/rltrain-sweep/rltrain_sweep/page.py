"""The page of a study, by the pictures of Optuna; of a population, who descends from whom."""

from __future__ import annotations

import functools
import io
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rltrain_report.page import Page, Pictures, Section, Table, write_page
from rltrain_report.pictures import Picture
from rltrain_sweep.study import Found, Study

_OF_OPTUNA = {
    "optimization_history": "Every trial, and the best so far",
    "param_importances": "How much each option matters",
    "parallel_coordinate": "A line for each trial, through its options",
}


def write(study: Study, found: Sequence[Found]) -> Path:
    """Write the page, and return its file."""
    done = [each for each in found if each.value is not None]
    if study.settings.population is not None:
        pictures = [_lineage(done)]
    else:
        pictures = [_of_optuna(study, *each) for each in _OF_OPTUNA.items() if len(done) > 1]
    head = ("", "state", study.settings.objective, *study.space)
    rows = [
        (each.name, each.state, *(_cell(x) for x in (each.value, *each.values.values())))
        for each in found
    ]
    page = Page(
        title=study.path.name,
        lead=f"{len(found)} trials, {len(done)} of them complete.",
        sections=[
            Section("Search", [Pictures(pictures)], "search"),
            Section("Trials", [Table(head, rows, range(2, len(head)))], "trials"),
        ],
        foot=f"Written by rltrain sweep on {time.strftime('%Y-%m-%d %H:%M')}.",
    )
    return write_page(page, study.path / "report", "report.html")[0]


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.5g}" if isinstance(value, float) else str(value)


class _OfOptuna(Picture):
    """A picture of Optuna's, which makes its own figure."""

    @functools.cached_property
    def png(self) -> bytes:
        """A PNG file."""
        from matplotlib import pyplot

        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # These functions may change, Optuna says.
            pyplot.switch_backend("agg")
            self.plot(None)
        pyplot.savefig(file, format="png", dpi=110, bbox_inches="tight")
        pyplot.close("all")
        return file.getvalue()


def _of_optuna(study: Study, name: str, title: str) -> Picture:
    from optuna.importance import PedAnovaImportanceEvaluator
    from optuna.visualization import matplotlib

    # The usual evaluator needs scikit-learn.
    more = {"evaluator": PedAnovaImportanceEvaluator()} if "importance" in name else {}
    plot = functools.partial(getattr(matplotlib, f"plot_{name}"), study.optuna, **more)
    return _OfOptuna(name, title, f"{title}, as Optuna plots it.", lambda _: plot())


def _lineage(done: Sequence[Found]) -> Picture:
    values = [each.value or 0.0 for each in done]
    low, width = min(values), max(values) - min(values)

    def plot(axes: Any) -> None:
        from matplotlib import colormaps

        for each, value in zip(done, values, strict=True):
            last, copied = (each.generation or 0) - 1, each.parent != each.number
            if last >= 0:
                style = {"color": "gray", "linewidth": 2.2 if copied else 0.8, "zorder": 1}
                axes.plot([last, last + 1], [each.parent, each.number], **style)
            shade = colormaps["viridis"]((value - low) / width if width else 0.5)
            axes.plot(last + 1, each.number, "o", color=shade, markersize=7)
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("generation", loc="right")
        axes.set_ylabel("member")

    copies = sum(each.parent != each.number for each in done)
    alt = f"Members by generation; {copies} began as copies of another one, by a thick line."
    return Picture("lineage", "Lineage; yellow is the highest", alt, plot)
