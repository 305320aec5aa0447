"""The conformance kit for gradient syncs, as tests to subclass."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from rltrain_devkit.kits.arrays import form
from rltrain_devkit.kits.gradient_sync_ranks import (
    GradientSyncRanks,
    MakeSync,
    numpy_arrays,
    returned,
)
from rltrain_devkit.kits.rules import may, must, skip

_FORMS: Sequence[tuple[tuple[int, ...], str]] = (
    ((4, 3), "float32"),
    ((), "float32"),
    ((2, 1, 2), "float64"),
    ((5,), "float32"),
)
"""Shapes and dtypes of an optimizer's parameters."""

_STEPS = 64
"""Steps after which the rounding errors of a biased scheme have added up."""


class GradientSyncConformance(GradientSyncRanks):
    """What every gradient sync must do, on the ranks of a fake world.

    Example:
        ```python
        from rltrain_devkit import GradientSyncConformance

        class TestMySync(GradientSyncConformance):
            grad_sync = "my_sync"
        ```
    """

    @must("The result is the average of all ranks' gradients, not their sum.")
    def test_gradients_are_averaged(self) -> None:
        """Checks the first of two parameters; other tests check the rest."""
        given = [_values(rank) for rank in range(3)]

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, [given[rank], given[rank]])

        expected, largest = sum(given) / 3, max(map(_largest, given))
        for rank, (first, _) in enumerate(self.on_ranks(3, work)):
            self.assert_close(first, expected, largest, f"on rank {rank} of 3, the average")

    @must("Every parameter is averaged, including the last, for any shape and dtype.")
    def test_every_parameter_is_averaged(self) -> None:
        """A rank's gradients all have the same value, so the averages do too."""

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, [_filled(1.0 + 2 * rank, *form) for form in _FORMS])

        for rank, averages in enumerate(self.on_ranks(2, work)):
            expected = averages[0].flat[0]
            for index, average in enumerate(averages):
                what = f"on rank {rank}, parameter {index} of {_FORMS[index]}, like parameter 0,"
                self.assert_close(average, expected, 3.0, what)

    @must("If one rank's gradient is NaN or infinite, the average is not finite on any rank.")
    def test_nan_and_infinity_reach_every_rank(self) -> None:
        """Otherwise a broken rank would go unnoticed."""
        import numpy as np

        wrong = _filled(1.0)
        wrong[0], wrong[1] = np.nan, np.inf

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, [wrong if rank == 1 else _filled(1.0), _filled(1.0)])

        for rank, (average, _) in enumerate(self.on_ranks(2, work)):
            assert not np.isfinite(average[:2]).any(), (
                f"rank 1's gradient was {wrong}, the other's {_filled(1.0)}; on rank {rank} the "
                f"average is {average}"
            )

    @must("Gradients are returned in the structure they had: same number, shapes and dtypes.")
    def test_the_structure_is_kept(self) -> None:
        """Compares output and input."""
        given = [_filled(1.0, *kind) for kind in _FORMS]

        def work(make: MakeSync, rank: int) -> list[str]:
            averages = self.make(make, given)(self.arrays(given))
            return [form(average) for average in returned(averages)]

        expected = [form(gradient) for gradient in self.arrays(given)]
        for rank, forms in enumerate(self.on_ranks(2, work)):
            assert forms == expected, f"on rank {rank}, {forms} was returned for {expected}"

    @must("Extras, which may be counts, are neither rounded nor clipped.")
    def test_extras_are_exact(self) -> None:
        """A number after a gradient; other tests check that what comes last is averaged too."""
        count = 1_000_001  # Exact in float32, and in nothing smaller.

        def work(make: MakeSync, rank: int) -> float:
            given = [_values(rank), _filled(count, ())]
            sync = self.make(functools.partial(make, extras=1), given)
            return float(numpy_arrays(sync(self.arrays(given)))[1].item())

        average = self.on_ranks(2, work)[0]
        assert average % count == 0, (
            f"every rank gave the extra {count}, and rank 0 got {average}: the hook's `extras` "
            "tells how many of the last arrays are no gradients"
        )

    @must("A gradient that is None on every rank stays None.")
    def test_none_on_every_rank_stays_none(self) -> None:
        """The middle one of three, on both of two ranks."""
        self.skip_without_none()

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, [_filled(1.0), None, _filled(1.0)])

        for rank, averages in enumerate(self.on_ranks(2, work)):
            nones = [average is None for average in averages]
            assert nones == [False, True, False], (
                f"gradient 1 of 3 was None on every rank; on rank {rank} the gradients returned "
                f"as None are {[index for index, none in enumerate(nones) if none]}"
            )

    @must("A gradient that is None on some ranks counts as zeros there, and affects no other one.")
    def test_none_on_some_ranks_counts_as_zeros(self) -> None:
        """Compares with the average of zeros, after a call with gradients everywhere."""
        self.skip_without_none()
        everywhere = [_filled(value) for value in (1.0, 2.0, 4.0)]

        def work(make: MakeSync, rank: int) -> tuple[list[Any], list[Any]]:
            with_none: list[Any] = list(everywhere)
            if rank == 1:
                with_none[1] = None
            with_zeros = [_filled(0.0) if x is None else x for x in with_none]
            sync = self.make(make, everywhere)
            sync(self.arrays(everywhere))
            return self.averaged(sync, with_none), self.synced(make, with_zeros)

        for rank, (averages, expected) in enumerate(self.on_ranks(2, work)):
            for index, average in enumerate(averages):
                what = f"gradient 1 is None on rank 1; on rank {rank}, gradient {index}"
                assert average is not None, f"{what} was returned as None"
                self.assert_close(average, expected[index], 4.0, what)

    @must("A second call averages the gradients of the second call.")
    def test_a_second_call_averages_its_own_gradients(self) -> None:
        """Compares with the first call of another sync."""

        def work(make: MakeSync, rank: int) -> tuple[list[Any], list[Any]]:
            first, second = [_filled(1.0 + rank)], [_filled(8.0 + 4 * rank)]
            sync = self.make(make, first)
            sync(self.arrays(first))
            return self.averaged(sync, second), self.synced(make, second)

        for rank, (averages, expected) in enumerate(self.on_ranks(2, work)):
            what = f"on rank {rank}, after a first call with other gradients, the average"
            self.assert_close(averages[0], expected[0], 12.0, what)

    @must("The result is equal to the last bit on every rank, or parameters drift apart.")
    def test_ranks_get_the_same_bytes(self) -> None:
        """Checks the first of two parameters; other tests check the rest."""

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, [_values(rank), _values(rank)])

        reference, *others = [averages[0] for averages in self.on_ranks(3, work)]
        for rank, average in enumerate(others, start=1):
            apart = abs(average - reference).max()
            assert average.tobytes() == reference.tobytes(), (
                f"rank {rank}'s average differs from rank 0's by {apart}: combine in the same "
                "order on every rank, and do not add a rank's own values after the all-reduce"
            )

    @must("On one rank gradients are returned unchanged.")
    def test_one_rank_keeps_its_gradients(self) -> None:
        """To the last bit, and None stays None."""
        none = [] if self.framework == "jax" else [None]
        given = [_values(0), *none, _values(1)]

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, given)

        [averages] = self.on_ranks(1, work)
        for index, (average, gradient) in enumerate(zip(averages, given, strict=True)):
            assert (average is None) == (gradient is None), f"gradient {index} is {average}"
            assert gradient is None or average.tobytes() == gradient.tobytes(), (
                f"on one rank, gradient {index} was returned as {average}, not as {gradient}"
            )

    @must("Each optimizer has its own sync: two syncs do not affect each other.")
    def test_two_syncs_do_not_disturb_each_other(self) -> None:
        """Reads the first one's result after calling the second."""

        def work(make: MakeSync, rank: int) -> tuple[list[Any], list[Any]]:
            first, second = [_filled(1.0 + rank)], [_filled(8.0 + 4 * rank)]
            one, two = self.make(make, first), self.make(make, second)
            ours = self.averaged(one, first, then=lambda: two(self.arrays(second)))
            return ours, self.synced(make, first)

        for rank, (averages, expected) in enumerate(self.on_ranks(2, work)):
            what = f"on rank {rank}, after another sync's call, this one's average"
            self.assert_close(averages[0], expected[0], 2.0, what)

    @may("Averages of the same gradients add up to their true sum: rounding errors are fed back.")
    def test_rounding_errors_do_not_add_up(self) -> None:
        """Both ranks have equal gradients, so the true average is known."""
        if not self.unbiased:
            skip(f"{self.grad_sync} declares that it is biased (unbiased = False)")
        # Every scheme can represent the first number exactly; the others are compared with its sum.
        gradient = _values(0)
        gradient[0] = 1.0

        def work(make: MakeSync, rank: int) -> Any:
            sync = self.make(make, [gradient])
            averages = [numpy_arrays(sync(self.arrays([gradient])))[0] for _ in range(_STEPS)]
            return sum(average.astype("float64") for average in averages)

        for rank, total in enumerate(self.on_ranks(2, work)):
            expected = total[0] * gradient.astype("float64")
            largest = _largest(gradient)
            # The errors of a few steps, still in the buffers, and the rounding of each average.
            allowed = (max(4, self.steps) * self.tolerance + _STEPS * 2**-22) * largest
            apart = abs(total - expected).max()
            assert apart <= allowed, (
                f"on rank {rank}, the sum of {_STEPS} averages of the same gradient is off by "
                f"{apart}, more than {allowed:.3g}: add one step's rounding error to the next "
                "step's gradient, or set `unbiased = False`"
            )


def _values(rank: int) -> Any:
    """Return 64 numbers for a rank, which low-precision formats cannot represent exactly."""
    import numpy as np

    return np.random.default_rng(rank).standard_normal(64).astype("float32")


def _filled(value: float, shape: tuple[int, ...] = (3,), dtype: str = "float32") -> Any:
    import numpy as np

    return np.full(shape, value, dtype)


def _largest(x: Any) -> float:
    return float(abs(x).max())
