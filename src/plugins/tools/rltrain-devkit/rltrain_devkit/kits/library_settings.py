"""The settings of `LibraryConformance`, and the training that most of its tests check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rltrain.errors import PluginError
from rltrain.launch import private_folder
from rltrain.plugins import discover
from rltrain.specs import LibrarySpec
from rltrain_devkit.kits.given import GivenPlugins
from rltrain_devkit.kits.library_policy import Loader
from rltrain_devkit.kits.library_probe import Probe
from rltrain_devkit.kits.library_training import Trainer, Training
from rltrain_devkit.kits.rules import skip

ITERATIONS = 3
"""Iterations of a training: a first, a middle and a last one."""


class LibrarySettings(GivenPlugins):
    """The attributes to set in a subclass of `LibraryConformance`."""

    library: str
    """Name of the library, as users type it."""
    framework: str = "torch"
    """One of the library's frameworks."""
    task: str = "rltrain/CartPoleContinuous-v1"
    """A task that the library can learn. Its first observations must be random."""
    algorithm: str | None = None
    """One of the library's algorithms; None for its default."""
    num_envs: int = 8
    """Environments per rank."""
    agent: Mapping[str, Any] = {}
    """Overrides of the library's options, by dotted key, that make iterations small."""
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
    _whole: ClassVar[Training | None]

    @classmethod
    def setup_class(cls) -> None:
        """Create a folder for the output of the trainings."""
        super().setup_class()
        cls._whole = None
        cls._scratch = cls._opened.enter_context(private_folder())

    @classmethod
    def teardown_class(cls) -> None:
        """Remove the folder, and release the models."""
        super().teardown_class()
        cls._whole = None

    def _spec(self) -> LibrarySpec:
        return discover().get(LibrarySpec, self.library)

    def _trainer(self) -> Trainer:
        return Trainer(self._options(), self.rank_local, self._scratch)

    def _loader(self, checkpoint: str) -> Loader:
        return Loader(self._options(), self.rank_local, checkpoint, self.framework)

    def _options(self) -> dict[str, Any]:
        return {
            "library": self.library,
            "framework": self.framework,
            "task": self.task,
            "algorithm": self.algorithm,
            "num_envs": self.num_envs,
            "agent": self.agent,
            "max_iterations": ITERATIONS,
            "log_root": str(self._scratch / "logs"),
        }

    def _two_nodes(self, **options: Any) -> Training:
        """Train on two nodes of two ranks, where local rank and rank differ."""
        return self._trainer().on_ranks(4, num_nodes=2, **options)

    def _trained(self) -> Training:
        """Return the training that most tests check; it runs once per class."""
        if self._whole is None:
            type(self)._whole = self._two_nodes()
        assert self._whole is not None
        return self._whole

    def _breaks_contract(self) -> bool:
        """Return whether that training has ended because the library breaks the contract."""
        return isinstance(self._trained().error, PluginError)

    def _ranks(self) -> list[Probe]:
        """Return the ranks of that training; skip the test if training failed."""
        if not self._trained().finished:
            skip("The training failed: see test_every_rank_trains_to_the_end.")
        return self._trained().probes
