"""The settings of `LibraryConformance`, and its trainings, which keep errors."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from rltrain.commands import make_plan
from rltrain.errors import DivergenceError
from rltrain.launch import hide_rank_variables, private_folder
from rltrain.plugins import discover
from rltrain.specs import LibrarySpec
from rltrain.testing import FakeGroup, FakeWorld, Fault, RankDied, make_session
from rltrain.types import TrainResult
from rltrain_devkit.kits.library_probe import Probe, counting_steps
from rltrain_devkit.kits.rules import Kit, skip

ITERATIONS = 3
"""Iterations of a training: a first, a middle and a last one."""


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

    def iterations(self) -> list[int | None]:
        """Return how many each rank says it has done."""
        return [probe.result.iterations if probe.result else None for probe in self.probes]


class LibrarySettings(Kit):
    """The attributes to set in a subclass of `LibraryConformance`."""

    library: str
    """Name of the library, as users type it."""
    framework: str = "torch"
    """One of the library's frameworks."""
    task: str = "rltrain/CartPoleContinuous-v1"
    """A task that the library can learn. Its first observations must be random."""
    algorithm: str | None = None
    """One of the library's algorithms; None for its default."""
    env: Mapping[str, Any] = {}
    """The task's options, such as the length of its episodes."""
    num_envs: int = 8
    """Environments per rank."""
    agent: Mapping[str, Any] = {}
    """Overrides of the library's options, by dotted key, that make iterations small."""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """By name, other settings of this class, with which the rules that they matter to are judged
    again. Where a setting is a mapping, such as `agent`, they are added to the class's own."""
    rank_local: Sequence[str] = ()
    """The library's global state, of which each rank needs its own copy, as
    "module:path.to.attribute"; see `FakeWorld`."""
    scaled: Sequence[str] = ()
    """Keys of `agent` that are sizes of batches: one rank with the environments of two ranks must
    have twice as much, to learn as they do."""
    as_one: Mapping[str, Any] = {}
    """More overrides of the library's options for that rule: one mini-batch, say, where the library
    shuffles in a way of its own."""
    not_as_one: str = ""
    """Why ranks do not learn as one rank with all their environments, if they do not."""
    saves_checkpoints: bool = True
    """Whether the library saves a checkpoint when training ends, and can start from it."""
    loads_policies: bool = True
    """Whether it implements `rltrain_load_policy`, for play, evaluate and export."""
    resumes_exactly: bool = True
    """Whether a resumed run continues bit for bit. Set it to False only if the library cannot."""

    _scratch: ClassVar[Path]
    _whole: ClassVar[dict[str, Training]]

    @classmethod
    def setup_class(cls) -> None:
        """Create a folder for the output of the trainings."""
        super().setup_class()
        cls._whole = {}
        cls._scratch = cls._opened.enter_context(private_folder())

    @classmethod
    def teardown_class(cls) -> None:
        """Remove the folder, and release the models."""
        super().teardown_class()
        cls._whole.clear()

    def _spec(self) -> LibrarySpec:
        return discover().get(LibrarySpec, self.library)

    def _options(self) -> dict[str, Any]:
        return {
            "library": self.library,
            "framework": self.framework,
            "task": self.task,
            "env": self.env,
            "algorithm": self.algorithm,
            "num_envs": self.num_envs,
            "agent": self.agent,
            "max_iterations": ITERATIONS,
            "log_root": str(self._scratch / "logs"),
        }

    def _trained(self) -> Training:
        """Return the training that most tests check; it runs once per class and variant."""
        if self._variant not in self._whole:
            self._whole[self._variant] = self._two_nodes()
        return self._whole[self._variant]

    def _ranks(self) -> list[Probe]:
        """Return the ranks of that training; skip the test if training failed."""
        if not self._trained().finished:
            skip("The training failed: see test_every_rank_trains_to_the_end.")
        return self._trained().probes

    def _two_nodes(self) -> Training:
        """Train on two nodes of two ranks, where local rank and rank differ."""
        return self._train(4, num_nodes=2)

    def _train(
        self,
        ranks: int,
        *faults: Fault,
        num_nodes: int = 1,
        on_step: Callable[[Probe], object] = id,
        **options: Any,
    ) -> Training:
        """Train on fake ranks; `on_step` is called before every step of a rank's environment."""
        world = FakeWorld(ranks, num_nodes=num_nodes, faults=faults, rank_local=self.rank_local)
        with self._observed(on_step) as (training, probe):
            # Ranks that differ are found when they are done: each rule judges what it names.
            at_the_end = {"check_interval": 0}
            world.train(observers=[probe], **{**at_the_end, **self._options(), **options})
        training.collectives = len(world.trace)
        return training

    def _alone(self) -> Training:
        """Train in one process, as without `--distributed`."""

        def train(group: FakeGroup) -> TrainResult:
            hide_rank_variables(os.environ)
            plan = make_plan({**self._options(), "device": "cpu", "writers": ()})
            assert plan.world is not None, "a run that starts no ranks has a place in the world"
            session = make_session(plan.config, plan.world, plan.registry, [("probe", probe())])
            return session.run()

        with self._observed(id) as (training, probe):
            # The group is not used. The fake world restores global state after the training.
            FakeWorld(1, rank_local=self.rank_local).run(train)
        return training

    @contextlib.contextmanager
    def _observed(
        self, on_step: Callable[[Probe], object]
    ) -> Iterator[tuple[Training, Callable[[], Probe]]]:
        """Yield a training, complete when the context ends, and a factory for its probes."""
        training = Training()

        def probe() -> Probe:
            training.probes.append(Probe(on_step))
            return training.probes[-1]

        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        with contextlib.chdir(folder), counting_steps(self.framework, training.probes):
            try:
                yield training, probe
            except (Exception, RankDied) as error:
                training.error = error
        training.files = sorted(path.name for path in folder.rglob("*") if path.is_file())
        training.probes.sort(key=lambda probe: probe.rank)
