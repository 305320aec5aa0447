"""The settings of `GradientSyncConformance`, and how it runs a gradient sync on ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rltrain.plugins import discover
from rltrain.specs import GradientSyncSpec
from rltrain.testing import FakeGroup, FakeWorld, RankSession, RunPlugins, make_config
from rltrain.types import GradientSync
from rltrain_devkit.kits.arrays import array, dtype_of, missing, parameter, to_numpy
from rltrain_devkit.kits.given import GivenPlugins
from rltrain_devkit.kits.rules import skip

MakeSync = Callable[..., GradientSync]
"""Makes a sync for parameters; it takes the arguments of `Session.gradient_sync`."""


class GradientSyncRanks(GivenPlugins):
    """The attributes that a subclass of `GradientSyncConformance` sets."""

    grad_sync: str
    """The name under which the installed plugin declares it."""
    tolerance: float = 1e-6
    """Maximum error of an average, relative to the largest gradient. The default is for float32
    rounding; for a sync that compresses, set the error of one step."""
    steps: int = 1
    """Over how many steps of the same gradients averages are judged: over many for a sync that
    sends a part of them, and feeds back the rest (error feedback). Their mean is then judged."""
    unbiased: bool = True
    """Whether later steps correct the errors of earlier ones, so that errors do not add up."""
    options: Mapping[str, Any] = {}
    """The plugin's own options."""

    @functools.cached_property
    def framework(self) -> str:
        """The gradients' framework. If the kit does not support it, the test is skipped."""
        framework = discover().get(GradientSyncSpec, self.grad_sync).frameworks[0]
        if lacking := missing(framework):
            skip(f"{self.grad_sync}: {lacking}")
        return framework

    def on_ranks(self, world_size: int, work: Callable[[MakeSync, int], Any]) -> list[Any]:
        """Call `work(make, rank)` on each rank; `make` makes a sync for parameters."""
        spec, on_torch = discover().get(GradientSyncSpec, self.grad_sync), self.framework == "torch"
        config = make_config(grad_sync=spec.name, distributed=True, nproc_per_node=world_size)

        def on_rank(group: FakeGroup) -> Any:
            plugins = RunPlugins()
            plugins.choose(spec, {spec.name: self.options})
            session = RankSession(config, group.world, plugins)
            session.group = group
            return work(session.gradient_sync, group.rank)

        return FakeWorld(world_size, torch=on_torch).run(on_rank)

    def skip_without_none(self) -> None:
        """Skip the running test if gradients are never None."""
        if self.framework == "jax":
            skip(f"{self.grad_sync}: jax's gradients have the parameters' structure, never None")

    def make(self, make: MakeSync, gradients: Sequence[Any]) -> GradientSync:
        """Make a sync for parameters with these gradients, of which at least one is not None."""
        [like, *_] = [gradient for gradient in gradients if gradient is not None]
        shown = [like if gradient is None else gradient for gradient in gradients]
        return make([parameter(self.framework, x, self._dtype(x)) for x in shown])

    def arrays(self, gradients: Sequence[Any]) -> list[Any]:
        """Convert numpy arrays to the framework's; None stays None."""
        return [None if x is None else array(self.framework, x, self._dtype(x)) for x in gradients]

    def _dtype(self, x: Any) -> str:
        return dtype_of(self.framework, str(x.dtype))

    def synced(self, make: MakeSync, gradients: Sequence[Any]) -> list[Any]:
        """Average gradients, numpy arrays or None, with a new sync; over `steps` steps."""
        return self.averaged(self.make(make, gradients), gradients)

    def averaged(
        self, sync: GradientSync, gradients: Sequence[Any], then: Callable[[], object] = int
    ) -> list[Any]:
        """Average gradients over `steps` steps; `then` comes before an average is read."""
        steps = []
        for _ in range(self.steps):
            averages = sync(self.arrays(gradients))
            then()
            steps.append(numpy_arrays(averages))
        return [_mean(each) for each in zip(*steps, strict=True)]

    def assert_close(self, average: Any, expected: Any, largest: float, what: str) -> None:
        """Compare values, but not shapes, which another test checks."""
        apart = float(abs(average.ravel() - expected.ravel()).max())
        assert apart <= self.tolerance * largest, (
            f"{what} should be {expected}, but is {average}: off by {apart:.3g}, more than "
            f"{self.tolerance:.3g} of the largest gradient, {largest:.3g}"
        )


def numpy_arrays(gradients: Sequence[Any]) -> list[Any]:
    """Return a sync's result as numpy arrays; None stays None."""
    return [None if x is None else to_numpy(x) for x in returned(gradients)]


def returned(gradients: Any) -> Sequence[Any]:
    """Return a sync's result as a list; fail if it is None."""
    assert gradients is not None, "the sync returned None: return the averages, in place or not"
    return list(gradients)


def _mean(steps: Sequence[Any]) -> Any:
    """Return the mean of an array over steps; None if it is None in one of them."""
    import numpy as np

    if len(steps) == 1 or any(each is None for each in steps):
        return steps[0]
    return np.mean(steps, axis=0, dtype="float64").astype(steps[0].dtype)
