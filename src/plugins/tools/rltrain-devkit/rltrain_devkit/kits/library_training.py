"""The trainings of `LibraryConformance`, which keep errors instead of raising them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltrain.commands import make_plan
from rltrain.errors import DivergenceError
from rltrain.launch import hide_rank_variables
from rltrain.testing import FakeGroup, FakeWorld, Fault, RankDied
from rltrain.types import TrainResult
from rltrain_devkit.kits.library_probe import Probe


@dataclass
class Training:
    """The outcome of one training."""

    probes: list[Probe] = field(default_factory=list)
    """By rank."""
    collectives: int = 0
    """Number of completed collectives."""
    error: BaseException | None = None
    """What the training raised."""
    files: list[str] = field(default_factory=list)
    """The files that it left in its working directory, which was empty."""

    @property
    def finished(self) -> bool:
        """Whether the library finished; the core may have found afterwards that ranks differ."""
        return self.error is None or isinstance(self.error, DivergenceError)

    def check(self) -> Training:
        """Return this training; raise the error if the library did not finish."""
        if self.error is not None and not self.finished:
            raise self.error
        return self


def _pass(probe: Probe) -> None:
    """Do nothing before a step."""


@dataclass(frozen=True)
class Trainer:
    """Trains with the options of a kit."""

    options: Mapping[str, Any]
    """Fields of `RunOptions`."""
    rank_local: Sequence[str]
    """As for `FakeWorld`."""
    scratch: Path
    """Where trainings run and write."""

    def on_ranks(
        self,
        ranks: int,
        *faults: Fault,
        num_nodes: int = 1,
        on_step: Callable[[Probe], None] = _pass,
        **options: Any,
    ) -> Training:
        """Train on the ranks of a fake world.

        Args:
            ranks: number of ranks.
            *faults: faults to plant.
            num_nodes: number of nodes.
            on_step: called with a rank's probe before every step of its environment.
            **options: fields of `RunOptions`, which override the kit's.
        """
        world = FakeWorld(ranks, num_nodes=num_nodes, faults=faults, rank_local=self.rank_local)
        with self._observed(on_step) as (training, probe):
            # Ranks that differ are found when they are done: each rule judges what it names.
            at_the_end = {"check_interval": 0}
            world.train(observers=[probe], **{**at_the_end, **self.options, **options})
        training.collectives = len(world.trace)
        return training

    def alone(self) -> Training:
        """Train in one process, as without `--distributed`."""
        # Imported late: it needs the whole core.
        from rltrain.testing import make_session

        def train(group: FakeGroup) -> TrainResult:
            hide_rank_variables(os.environ)
            plan = make_plan({**self.options, "device": "cpu", "writers": ()})
            assert plan.world is not None, "a run that starts no ranks has a place in the world"
            session = make_session(plan.config, plan.world, plan.registry, [("probe", probe())])
            return session.run()

        with self._observed(_pass) as (training, probe):
            # The group is not used. The fake world restores global state after the training.
            FakeWorld(1, rank_local=self.rank_local).run(train)
        return training

    @contextlib.contextmanager
    def _observed(
        self, on_step: Callable[[Probe], None]
    ) -> Iterator[tuple[Training, Callable[[], Probe]]]:
        """Yield a training, complete when the context ends, and a factory for its probes."""
        training = Training()

        def probe() -> Probe:
            training.probes.append(Probe(on_step))
            return training.probes[-1]

        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        with contextlib.chdir(folder):
            try:
                yield training, probe
            except (Exception, RankDied) as error:
                training.error = error
        training.files = sorted(path.name for path in folder.rglob("*") if path.is_file())
        training.probes.sort(key=lambda probe: probe.rank)
