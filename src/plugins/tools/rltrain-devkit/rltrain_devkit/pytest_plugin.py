"""pytest's fixtures for authors of plugins: `fake_world` and `rltrain_run`.

Every run of pytest imports this module, so it is light.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rltrain.runs import Run
    from rltrain.testing import FakeWorld, RankRun

__all__ = ["fake_world", "rltrain_run"]


@pytest.fixture
def fake_world(tmp_path: Path) -> type[FakeWorld]:
    """Return the class `FakeWorld`, whose runs are written below `tmp_path`.

    Example:
        ```python
        def test_it_trains(fake_world):
            runs = fake_world(2).train(library="mine", plugins=[my_plugin], max_iterations=2)
            assert runs[0].result.iterations == 2
        ```
    """
    from rltrain.testing import FakeWorld

    class World(FakeWorld):
        """Its runs are written below the test's folder."""

        def train(self, **options: Any) -> list[RankRun]:  # type: ignore[override]
            return super().train(**{"log_root": str(tmp_path / "logs"), **options})

    return World


@pytest.fixture
def rltrain_run(tmp_path: Path) -> Callable[..., Run]:
    """Return a function that trains, and reads the run folder, which is below `tmp_path`.

    It takes what `rltrain.train` takes. With `ranks`, so many processes are started.

    Example:
        ```python
        def test_it_records_a_loss(rltrain_run):
            run = rltrain_run(library="mine", plugins=[my_plugin], ranks=2, max_iterations=2)
            assert "loss" in run.scalars[-1].values
        ```
    """
    import rltrain
    from rltrain.runs import load_runs

    def run(*, ranks: int | None = None, **options: Any) -> Run:
        placed = {} if ranks is None else {"distributed": True, "nproc_per_node": ranks}
        quiet: dict[str, Any] = {"log_root": str(tmp_path / "logs"), "writers": ()}
        if not options.get("backend"):
            quiet["device"] = "cpu"
        result = rltrain.train(**{**quiet, **placed, **options})
        (loaded,) = load_runs([Path(result.run_dir)])
        return loaded

    return run
