"""The rules that every gradient sync keeps, as tests to subclass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rltrain.specs import GradientSyncSpec
from rltrain.testing.kits.arrays import form
from rltrain.testing.kits.declaration import check_declaring_is_light
from rltrain.testing.kits.gradient_sync_ranks import (
    GradientSyncRanks,
    MakeSync,
    given_back,
    numpy_arrays,
)
from rltrain.testing.kits.rules import may, must, skip

__all__ = ["GradientSyncConformance"]

_FORMS: Sequence[tuple[tuple[int, ...], str]] = (
    ((4, 3), "float32"),
    ((), "float32"),
    ((2, 1, 2), "float64"),
    ((5,), "float32"),
)
"""Shapes and dtypes of an optimiser's parameters."""

_STEPS = 64
"""Over so many steps a lost rounding error has added up, and a kept one has not."""


class GradientSyncConformance(GradientSyncRanks):
    """What every gradient sync must do, on the ranks of a fake world.

    Example:
        ```python
        from rltrain.testing import GradientSyncConformance

        class TestMySync(GradientSyncConformance):
            grad_sync = "my_sync"
        ```
    """

    @must("Declaring the gradient sync imports no tensor framework and no numpy.")
    def test_declaring_is_light(self) -> None:
        """In a process of its own, with the other plugins left out."""
        check_declaring_is_light(GradientSyncSpec, self.grad_sync)

    @must("The result is the average of all ranks' gradients, not their sum.")
    def test_gradients_are_averaged(self) -> None:
        """Looks at the first of two parameters: other tests look at the others."""
        given = [_values(rank) for rank in range(3)]

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, [given[rank], given[rank]])

        expected, largest = sum(given) / 3, max(map(_largest, given))
        for rank, (first, _) in enumerate(self.on_ranks(3, work)):
            self.assert_close(first, expected, largest, f"on rank {rank} of 3, the average")

    @must("Every parameter is averaged: the last too, of any shape, of any dtype.")
    def test_every_parameter_is_averaged(self) -> None:
        """A rank's gradients are all of one number, so that the averages are."""

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, [_filled(1.0 + 2 * rank, *form) for form in _FORMS])

        for rank, averages in enumerate(self.on_ranks(2, work)):
            expected = averages[0].flat[0]
            for index, average in enumerate(averages):
                what = f"on rank {rank}, parameter {index} of {_FORMS[index]}, as parameter 0,"
                self.assert_close(average, expected, 3.0, what)

    @must("A gradient of one rank that is NaN or infinite is not finite on any rank.")
    def test_what_is_not_finite_reaches_every_rank(self) -> None:
        """A rank that went wrong would otherwise go on unseen."""
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

    @must("Gradients come back in the structure they went in: as many, same shapes, same dtypes.")
    def test_the_structure_comes_back(self) -> None:
        """Compares what came back with what went in."""
        given = [_filled(1.0, *kind) for kind in _FORMS]

        def work(make: MakeSync, rank: int) -> list[str]:
            averages = self.make(make, given)(self.arrays(given))
            return [form(average) for average in given_back(averages)]

        expected = [form(gradient) for gradient in self.arrays(given)]
        for rank, forms in enumerate(self.on_ranks(2, work)):
            assert forms == expected, f"on rank {rank}, {expected} went in and {forms} came back"

    @must("A gradient that is None on every rank stays None.")
    def test_none_on_every_rank_stays_none(self) -> None:
        """In the middle, on both of two ranks."""
        self.skip_without_none()

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, [_filled(1.0), None, _filled(1.0)])

        for rank, averages in enumerate(self.on_ranks(2, work)):
            nones = [average is None for average in averages]
            assert nones == [False, True, False], (
                f"gradient 1 of 3 was None on every rank; on rank {rank} the gradients that came "
                f"back as None are {[index for index, none in enumerate(nones) if none]}"
            )

    @must("A gradient that is None on some ranks counts as zeros there, and shifts no other.")
    def test_none_on_some_ranks_counts_as_zeros(self) -> None:
        """Compares with what the sync makes of zeros, after a call with gradients everywhere."""
        self.skip_without_none()
        everywhere = [_filled(value) for value in (1.0, 2.0, 4.0)]

        def work(make: MakeSync, rank: int) -> tuple[list[Any], list[Any]]:
            with_none: list[Any] = list(everywhere)
            if rank == 1:
                with_none[1] = None
            with_zeros = [_filled(0.0) if x is None else x for x in with_none]
            sync = self.make(make, everywhere)
            sync(self.arrays(everywhere))
            return numpy_arrays(sync(self.arrays(with_none))), self.synced(make, with_zeros)

        for rank, (averages, expected) in enumerate(self.on_ranks(2, work)):
            for index, average in enumerate(averages):
                what = f"gradient 1 is None on rank 1; on rank {rank}, gradient {index}"
                assert average is not None, f"{what} came back as None"
                self.assert_close(average, expected[index], 4.0, what)

    @must("A second call averages the gradients of the second call.")
    def test_a_second_call_averages_its_own_gradients(self) -> None:
        """Compares with a sync that is called for the first time."""

        def work(make: MakeSync, rank: int) -> tuple[list[Any], list[Any]]:
            first, second = [_filled(1.0 + rank)], [_filled(8.0 + 4 * rank)]
            sync = self.make(make, first)
            sync(self.arrays(first))
            return numpy_arrays(sync(self.arrays(second))), self.synced(make, second)

        for rank, (averages, expected) in enumerate(self.on_ranks(2, work)):
            what = f"on rank {rank}, after a first call with others, the average"
            self.assert_close(averages[0], expected[0], 12.0, what)

    @must("The result has the same bytes on every rank, or parameters drift apart.")
    def test_ranks_get_the_same_bytes(self) -> None:
        """Looks at the first of two parameters: other tests look at the others."""

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, [_values(rank), _values(rank)])

        reference, *others = [averages[0] for averages in self.on_ranks(3, work)]
        for rank, average in enumerate(others, start=1):
            apart = abs(average - reference).max()
            assert average.tobytes() == reference.tobytes(), (
                f"rank {rank}'s average differs from rank 0's by {apart}: combine in the same "
                "order on every rank, and add nothing that is a rank's own after the all-reduce"
            )

    @must("On one rank gradients come back unchanged.")
    def test_alone_gradients_are_unchanged(self) -> None:
        """To the last bit, and None as None."""
        none = [] if self.framework == "jax" else [None]
        given = [_values(0), *none, _values(1)]

        def work(make: MakeSync, rank: int) -> list[Any]:
            return self.synced(make, given)

        [averages] = self.on_ranks(1, work)
        for index, (average, gradient) in enumerate(zip(averages, given, strict=True)):
            assert (average is None) == (gradient is None), f"gradient {index} is {average}"
            assert gradient is None or average.tobytes() == gradient.tobytes(), (
                f"on one rank, gradient {index} came back as {average}, not as {gradient}"
            )

    @must("There is one sync an optimiser: two of them do not disturb each other.")
    def test_two_syncs_do_not_disturb_each_other(self) -> None:
        """The first's result is read after the second was called."""

        def work(make: MakeSync, rank: int) -> tuple[list[Any], list[Any]]:
            first, second = [_filled(1.0 + rank)], [_filled(8.0 + 4 * rank)]
            one, two = self.make(make, first), self.make(make, second)
            ours = one(self.arrays(first))
            two(self.arrays(second))
            return numpy_arrays(ours), self.synced(make, first)

        for rank, (averages, expected) in enumerate(self.on_ranks(2, work)):
            what = f"on rank {rank}, after another sync's call, this one's average"
            self.assert_close(averages[0], expected[0], 2.0, what)

    @may("Averages of the same gradients add up to their true sum: what a step loses is kept.")
    def test_what_a_step_loses_does_not_add_up(self) -> None:
        """Equal gradients on both ranks, so that their average is known without adding them."""
        if not self.unbiased:
            skip(f"{self.grad_sync} says that it is not unbiased (unbiased = False)")
        # The first number is one that every scheme can carry; the others go by its total.
        gradient = _values(0)
        gradient[0] = 1.0

        def work(make: MakeSync, rank: int) -> Any:
            sync = self.make(make, [gradient])
            averages = [numpy_arrays(sync(self.arrays([gradient])))[0] for _ in range(_STEPS)]
            return sum(average.astype("float64") for average in averages)

        for rank, total in enumerate(self.on_ranks(2, work)):
            expected = total[0] * gradient.astype("float64")
            largest = _largest(gradient)
            # A few steps' loss, which is in the buffers still, and the rounding of each average.
            allowed = (4 * self.tolerance + _STEPS * 2**-22) * largest
            apart = abs(total - expected).max()
            assert apart <= allowed, (
                f"on rank {rank}, {_STEPS} averages of the same gradient add up to something that "
                f"is off by {apart}, more than {allowed:.3g}: add what one step lost to the next "
                "step's gradient, or say `unbiased = False`"
            )


def _values(rank: int) -> Any:
    """Return 64 numbers of a rank's own, which no short format holds exactly."""
    import numpy as np

    return np.random.default_rng(rank).standard_normal(64).astype("float32")


def _filled(value: float, shape: tuple[int, ...] = (3,), dtype: str = "float32") -> Any:
    import numpy as np

    return np.full(shape, value, dtype)


def _largest(x: Any) -> float:
    return float(abs(x).max())
