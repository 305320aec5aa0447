"""What can be set in `GradientSyncConformance`, and how it runs a gradient sync on ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rltrain.config import RunConfig
from rltrain.plugins import discover
from rltrain.run_plugins import RunPlugins
from rltrain.session import Session
from rltrain.specs import GradientSyncSpec
from rltrain.testing.fake.group import FakeGroup
from rltrain.testing.fake.world import FakeWorld
from rltrain.testing.kits.arrays import array, missing, parameter, to_numpy
from rltrain.testing.kits.rules import skip
from rltrain.types import GradientSync

__all__ = ["GradientSyncRanks", "MakeSync", "given_back", "numpy_arrays"]

MakeSync = Callable[[Sequence[Any]], GradientSync]


class GradientSyncRanks:
    """The attributes that a subclass of `GradientSyncConformance` sets."""

    grad_sync: str
    """The name under which the installed plugin declares it."""
    tolerance: float = 1e-6
    """How far an average may be off, in parts of the largest gradient. The default is rounding of
    float32; a sync that compresses says what it loses in one step."""
    unbiased: bool = True
    """Whether what one step loses is made good in later ones, so that it does not add up."""

    def on_ranks(self, world_size: int, work: Callable[[MakeSync, int], Any]) -> list[Any]:
        """Call `work(make, rank)` on each rank, where `make` makes a sync over parameters."""
        spec = discover().get(GradientSyncSpec, self.grad_sync)
        if "torch" not in spec.frameworks:
            skip(f"{spec.name}: {missing(spec.frameworks[0])}")
        config = RunConfig(grad_sync=spec.name, distributed=True, nproc_per_node=world_size)

        def on_rank(group: FakeGroup) -> Any:
            plugins = RunPlugins()
            plugins.choose(spec)
            session = Session(config, group.world, plugins)
            session.group = group
            return work(session.gradient_sync, group.rank)

        return FakeWorld(world_size, torch=True).run(on_rank)

    def make(self, make: MakeSync, gradients: Sequence[Any]) -> GradientSync:
        """Make a sync over parameters such as have these gradients, one of which is not None."""
        [like, *_] = [gradient for gradient in gradients if gradient is not None]
        shown = [like if gradient is None else gradient for gradient in gradients]
        return make([parameter("torch", x, str(x.dtype)) for x in shown])

    def arrays(self, gradients: Sequence[Any]) -> list[Any]:
        """Return the framework's arrays for numpy's; None stays None."""
        return [None if x is None else array("torch", x, str(x.dtype)) for x in gradients]

    def synced(self, make: MakeSync, gradients: Sequence[Any]) -> list[Any]:
        """Return what a new sync makes of gradients, numpy's or None."""
        return numpy_arrays(self.make(make, gradients)(self.arrays(gradients)))

    def assert_close(self, average: Any, expected: Any, largest: float, what: str) -> None:
        """Compare numbers, whatever their shape: that is another test's."""
        apart = float(abs(average.ravel() - expected.ravel()).max())
        assert apart <= self.tolerance * largest, (
            f"{what} should be {expected}, but is {average}: off by {apart:.3g}, more than "
            f"{self.tolerance:.3g} of the largest gradient, {largest:.3g}"
        )


def numpy_arrays(gradients: Sequence[Any]) -> list[Any]:
    """Return what a sync gave back as numpy's arrays; None stays None."""
    return [None if x is None else to_numpy(x) for x in given_back(gradients)]


def given_back(gradients: Any) -> Sequence[Any]:
    """Return what a sync gave back as a list, or say that it gave nothing."""
    assert gradients is not None, "the sync returned None: return the averages, in place or not"
    return list(gradients)
