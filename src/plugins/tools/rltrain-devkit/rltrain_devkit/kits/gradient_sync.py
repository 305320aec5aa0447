"""The conformance kit for gradient syncs, as tests to subclass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rltrain.plugins import discover
from rltrain.specs import GradientSyncSpec
from rltrain.testing import FakeGroup, FakeWorld, RankSession, RunPlugins, make_config
from rltrain.types import GradientSync
from rltrain_devkit.kits.arrays import array, dtype_of, form, missing, parameter, to_numpy
from rltrain_devkit.kits.rules import Kit, skip

MakeSync = Callable[..., GradientSync]
"""Makes a sync for parameters; it takes the arguments of `Session.gradient_sync`."""

_FORMS: Sequence[tuple[tuple[int, ...], str]] = (
    ((4, 3), "float32"),
    ((), "float32"),
    ((2, 1, 2), "float64"),
    ((5,), "float32"),
)
"""Shapes and dtypes of an optimizer's parameters."""

_STEPS = 64
"""Steps after which the rounding errors of a biased scheme have added up."""


class GradientSyncConformance(Kit):
    """What every gradient sync must do, on the ranks of a fake world.

    Example:
        ```python
        from rltrain_devkit import GradientSyncConformance

        class TestMySync(GradientSyncConformance):
            grad_sync = "my_sync"
        ```
    """

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

    def test_gradients_are_averaged(self) -> None:
        """The result is the average of all ranks' gradients, of any shape and dtype."""
        given = [[_values(rank), *(_filled(rank, *x) for x in _FORMS)] for rank in range(3)]
        averages = self._averages(3, given.__getitem__)
        for rank, of_rank in enumerate(averages):
            for index, average in enumerate(of_rank):
                expected = sum(gradients[index] for gradients in given) / 3
                largest = max(_largest(gradients[index]) for gradients in given)
                what = f"on rank {rank} of 3, the average of gradient {index}"
                self.assert_close(average, expected, largest, what)

    def test_nan_and_infinity_reach_every_rank(self) -> None:
        """If one rank's gradient is NaN or infinite, the average is not finite on any rank."""
        right, wrong = _filled(1.0), _filled(1.0)
        wrong[0], wrong[1] = np.nan, np.inf
        found = self._averages(2, lambda rank: [wrong if rank == 1 else right, right])
        for rank, (average, _) in enumerate(found):
            assert not np.isfinite(average[:2]).any(), (
                f"rank 1's gradient was {wrong}, the other's {right}; on rank {rank} the average "
                f"is {average}"
            )

    def test_the_structure_is_kept(self) -> None:
        """Gradients are returned in the structure they had: same number, shapes and dtypes."""
        given = [_filled(1.0, *kind) for kind in _FORMS]

        def work(make: MakeSync, rank: int) -> list[str]:
            averages = self.make(make, given)(self.arrays(given))
            return [form(average) for average in _returned(averages)]

        expected = [form(gradient) for gradient in self.arrays(given)]
        for rank, forms in enumerate(self.on_ranks(2, work)):
            assert forms == expected, f"on rank {rank}, {forms} was returned for {expected}"

    def test_extras_are_exact(self) -> None:
        """Extras, which may be counts, are neither rounded nor clipped."""
        count = 1_000_001  # Exact in float32, and in nothing smaller.

        def work(make: MakeSync, rank: int) -> float:
            given = [_values(rank), _filled(count, ())]
            sync = self.make(functools.partial(make, extras=1), given)
            return float(_to_numpy(sync(self.arrays(given)))[1].item())

        average = self.on_ranks(2, work)[0]
        assert average % count == 0, (
            f"every rank gave the extra {count}, and rank 0 got {average}: the hook's `extras` "
            "says how many of the last arrays are no gradients"
        )

    def test_none_on_every_rank_stays_none(self) -> None:
        """A gradient that is None on every rank stays None."""
        self._skip_without_none()
        found = self._averages(2, lambda _: [_filled(1.0), None, _filled(1.0)])
        for rank, averages in enumerate(found):
            nones = [index for index, average in enumerate(averages) if average is None]
            assert nones == [1], (
                f"gradient 1 of 3 was None on every rank; on rank {rank} the gradients returned "
                f"as None are {nones}"
            )

    def test_none_on_some_ranks_counts_as_zeros(self) -> None:
        """A gradient that is None on some ranks counts as zeros there, and affects no other one."""
        self._skip_without_none()
        everywhere = [_filled(value) for value in (1.0, 2.0, 4.0)]

        def work(make: MakeSync, rank: int) -> tuple[list[Any], list[Any]]:
            with_none: list[Any] = list(everywhere)
            if rank == 1:
                with_none[1] = None
            with_zeros = [_filled(0.0) if x is None else x for x in with_none]
            sync = self.make(make, everywhere)
            sync(self.arrays(everywhere))  # So that its buffers hold something.
            return self.averaged(sync, with_none), self.synced(make, with_zeros)

        for rank, (averages, expected) in enumerate(self.on_ranks(2, work)):
            for index, average in enumerate(averages):
                what = f"gradient 1 is None on rank 1; on rank {rank}, gradient {index}"
                assert average is not None, f"{what} was returned as None"
                self.assert_close(average, expected[index], 4.0, what)

    def test_ranks_get_the_same_bytes(self) -> None:
        """The result is equal to the last bit on every rank, or parameters drift apart."""
        found = self._averages(3, lambda rank: [_values(rank), _values(rank)])
        reference, *others = [averages[0] for averages in found]
        for rank, average in enumerate(others, start=1):
            apart = abs(average - reference).max()
            assert average.tobytes() == reference.tobytes(), (
                f"rank {rank}'s average differs from rank 0's by {apart}: combine in the same "
                "order on every rank, and do not add a rank's own values after the all-reduce"
            )

    def test_one_rank_keeps_its_gradients(self) -> None:
        """On one rank gradients are returned unchanged."""
        none = [] if self.framework == "jax" else [None]
        given = [_values(0), *none, _values(1)]
        [averages] = self._averages(1, lambda _: given)
        for index, (average, gradient) in enumerate(zip(averages, given, strict=True)):
            assert (average is None) == (gradient is None), f"gradient {index} is {average}"
            assert gradient is None or average.tobytes() == gradient.tobytes(), (
                f"on one rank, gradient {index} was returned as {average}, not as {gradient}"
            )

    def test_calls_do_not_disturb_each_other(self) -> None:
        """A call averages its own gradients, not those of an earlier call or another optimizer."""

        def work(make: MakeSync, rank: int) -> list[list[Any]]:
            first, second = [_filled(1.0 + rank)], [_filled(8.0 + 4 * rank)]
            one, two = self.make(make, first), self.make(make, second)
            before = self.averaged(one, first, then=lambda: two(self.arrays(second)))
            again = self.averaged(one, second)
            return [before, self.synced(make, first), again, self.synced(make, second)]

        for rank, (before, first, again, second) in enumerate(self.on_ranks(2, work)):
            what = f"on rank {rank}, after the call of another sync, this one's average"
            self.assert_close(before[0], first[0], 2.0, what)
            what = f"on rank {rank}, after a first call with other gradients, the average"
            self.assert_close(again[0], second[0], 12.0, what)

    def test_rounding_errors_do_not_add_up(self) -> None:
        """Averages of the same gradients add up to their sum: rounding errors are fed back."""
        if not self.unbiased:
            skip(f"{self.grad_sync} declares that it is biased (unbiased = False)")
        # Every scheme can represent the first number exactly; the others are compared with its sum.
        gradient = _values(0)
        gradient[0] = 1.0

        def work(make: MakeSync, rank: int) -> Any:
            sync = self.make(make, [gradient])
            averages = [_to_numpy(sync(self.arrays([gradient])))[0] for _ in range(_STEPS)]
            return sum(average.astype("float64") for average in averages)

        for rank, total in enumerate(self.on_ranks(2, work)):
            expected = total[0] * gradient.astype("float64")
            # The errors of a few steps, still in the buffers, and the rounding of each average.
            allowed = max(4, self.steps) * self.tolerance + _STEPS * 2**-22
            allowed *= _largest(gradient)
            apart = abs(total - expected).max()
            assert apart <= allowed, (
                f"on rank {rank}, the sum of {_STEPS} averages of the same gradient is off by "
                f"{apart}, more than {allowed:.3g}: add one step's rounding error to the next "
                "step's gradient, or set `unbiased = False`"
            )

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

    def _averages(
        self, world_size: int, gradients: Callable[[int], Sequence[Any]]
    ) -> list[list[Any]]:
        """Return by rank the averages of `gradients(rank)`, by a new sync."""
        return self.on_ranks(world_size, lambda make, rank: self.synced(make, gradients(rank)))

    def make(self, make: MakeSync, gradients: Sequence[Any]) -> GradientSync:
        """Make a sync for parameters with these gradients, of which at least one is not None."""
        [like, *_] = [gradient for gradient in gradients if gradient is not None]
        shown = [like if gradient is None else gradient for gradient in gradients]
        return make([parameter(self.framework, x, self._dtype(x)) for x in shown])

    def arrays(self, gradients: Sequence[Any]) -> list[Any]:
        """Convert numpy arrays to the framework's; None stays None."""
        return [None if x is None else array(self.framework, x, self._dtype(x)) for x in gradients]

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
            steps.append(_to_numpy(averages))
        return [_mean(each) for each in zip(*steps, strict=True)]

    def assert_close(self, average: Any, expected: Any, largest: float, what: str) -> None:
        """Compare values, but not shapes, which another test checks."""
        apart = float(abs(average.ravel() - expected.ravel()).max())
        assert apart <= self.tolerance * largest, (
            f"{what} should be {expected}, but is {average}: off by {apart:.3g}, more than "
            f"{self.tolerance:.3g} of the largest gradient, {largest:.3g}"
        )

    def _dtype(self, x: Any) -> str:
        return dtype_of(self.framework, str(x.dtype))

    def _skip_without_none(self) -> None:
        if self.framework == "jax":
            skip(f"{self.grad_sync}: jax's gradients have the parameters' structure, never None")


def _to_numpy(gradients: Any) -> list[Any]:
    return [None if x is None else to_numpy(x) for x in _returned(gradients)]


def _returned(gradients: Any) -> Sequence[Any]:
    assert gradients is not None, "the sync returned None: return the averages, in place or not"
    return list(gradients)


def _mean(steps: Sequence[Any]) -> Any:
    """Return the mean of an array over steps; None if it is None in one of them."""
    if len(steps) == 1 or any(each is None for each in steps):
        return steps[0]
    return np.mean(steps, axis=0, dtype="float64").astype(steps[0].dtype)


def _values(rank: int) -> Any:
    """Return 64 numbers for a rank, which low-precision formats cannot represent exactly."""
    return np.random.default_rng(rank).standard_normal(64).astype("float32")


def _filled(value: float, shape: tuple[int, ...] = (3,), dtype: str = "float32") -> Any:
    return np.full(shape, value, dtype)


def _largest(x: Any) -> float:
    return float(abs(x).max())
