"""The conformance kit for observers, as tests to subclass."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from rltrain.launch import private_folder
from rltrain.testing import FakeWorld, RankRun, differing
from rltrain_devkit.kits.rules import Kit, skip


class ObserverConformance(Kit):
    """What every observer must do: trains with and without it, on fake ranks.

    Example:
        ```python
        from rltrain_devkit import ObserverConformance

        class TestMyObserver(ObserverConformance):
            observer = "my_observer"
        ```
    """

    observer: str
    """The name under which the plugin declares it."""
    options: Mapping[str, Any] = {}
    """Fields of `RunOptions` for the trainings: a task that renders, another library, or, by the
    observer's name, its own options."""
    changes_nothing: bool = True
    """Whether a run with it learns the same. Set it to False for one that changes training."""

    def test_every_rank_trains_to_the_end(self) -> None:
        """Every rank trains to the end with it: what it wraps is called, and returned."""
        assert [run.result.iterations for run in self._train(True)] == [2, 2]

    def test_it_changes_nothing(self) -> None:
        """A run with it learns the same as one without it, to the last bit."""
        if not self.changes_nothing:
            skip("changes_nothing = False")
        pairs = zip(self._train(True), self._train(False), strict=True)
        for rank, (watched, alone) in enumerate(pairs):
            names = differing([watched, alone])
            assert not names, f"on rank {rank}, {names[0]} ended different with {self.observer}"

    def _train(self, watched: bool) -> list[RankRun]:
        options = {"max_iterations": 2, "num_envs": 8, **self.options}
        if not watched:
            options.pop(self.observer, None)
        with private_folder() as scratch, contextlib.chdir(scratch):
            options.setdefault("log_root", str(scratch / "logs"))
            return FakeWorld(2).train(observers=[self.observer] * watched, **options)
