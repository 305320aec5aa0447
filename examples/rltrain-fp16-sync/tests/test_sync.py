"""What is specific to half precision."""

from __future__ import annotations

import pytest
import torch

from rltrain.testing import FakeWorld
from rltrain_fp16_sync.sync import LIMIT, HalfSync

INF, NAN = float("inf"), float("nan")


def synced(ranks, steps):
    """Return rank 0's averages by step; `steps[step][rank]` are one parameter's gradients."""
    sizes = torch.tensor(steps[0][0]).numel()

    def work(group):
        sync = HalfSync(group, [torch.zeros(sizes)])
        made = []
        for step in steps:
            (average,) = sync([torch.tensor(step[group.rank])])
            made.append(average.clone())
        return made

    return FakeWorld(ranks).run(work)[0]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_rounding_errors_are_sent_later(ranks):
    generator = torch.Generator().manual_seed(0)
    # Eleven orders of magnitude: many of these values round to zero in float16 in a single step.
    scale = torch.logspace(-9, 2, 50)
    steps = [
        [(torch.randn(50, generator=generator) + 1) * scale for _ in range(ranks)]
        for _ in range(400)
    ]
    averages = synced(ranks, [[gradient.tolist() for gradient in step] for step in steps])
    truth = torch.stack([torch.stack(step).double().mean(0) for step in steps])
    made = torch.stack(averages).double()
    one_step = ((made[0] - truth[0]) / scale).abs().max()
    all_steps = ((made.sum(0) - truth.sum(0)) / (len(steps) * scale)).abs()
    assert one_step > 1e-3
    # The sum over ranks is rounded too, and no rank keeps that error.
    assert all_steps[scale > 1e-6].max() < 1e-3
    # Smaller values may still be kept as an error, up to float16's smallest number.
    assert all_steps.max() < 0.5


def test_a_gradient_too_small_for_half_precision_arrives_in_the_end():
    averages = synced(2, [[[1e-8], [1e-8]]] * 1000)
    assert averages[0] == 0
    assert torch.stack(averages).sum().item() == pytest.approx(1e-5, rel=0.02)


@pytest.mark.parametrize("ranks", [2, 3, 7])
def test_a_gradient_beyond_the_range_is_clipped_and_not_kept(ranks):
    steps = [[[1e5, -3e38, 70000.0]] * ranks, [[1.0, 1.0, 1.0]] * ranks]
    first, second = synced(ranks, steps)
    assert first.tolist() == pytest.approx([LIMIT, -LIMIT, LIMIT], rel=1e-3)
    # The first step's rounding error is at most the spacing of float16 at LIMIT.
    assert second.tolist() == pytest.approx([1.0] * 3, abs=LIMIT / 2**10)


def test_nan_and_infinity_reach_every_rank_and_leave_nothing_behind():
    steps = [[[NAN, INF, -INF, INF, 1.0], [1.0, 1.0, 1.0, -INF, 1.0]], [[2.0] * 5] * 2]
    first, second = synced(2, steps)
    assert first.isnan().tolist() == [True, False, False, True, False]
    assert first[1:3].tolist() == [INF, -INF]
    assert first[4] == 1
    assert second.tolist() == [2.0] * 5


@pytest.mark.parametrize("lacking", [{0, 1}, {1}])
def test_a_kept_error_waits_until_the_rank_has_a_gradient_again(lacking):
    def work(group):
        sync = HalfSync(group, [torch.zeros(1)])
        first = sync([torch.tensor([1.0003])])[0].item()
        (between,) = sync([None if group.rank in lacking else torch.zeros(1)])
        sent_between = 0.0 if between is None else between.item()
        last = sync([torch.zeros(1)])[0].item()
        assert first != pytest.approx(1.0003, abs=1e-5)
        return first + sent_between + last

    assert FakeWorld(2).run(work) == [pytest.approx(1.0003, abs=1e-6)] * 2


def test_gradients_that_are_accumulated_in_its_own_views_are_read_before_they_are_overwritten():
    def work(group):
        sync = HalfSync(group, [torch.zeros(2)])
        (average,) = sync([torch.tensor([1.0, 3.0])])
        average.add_(1.0)
        return sync([average])[0].tolist()

    assert FakeWorld(2).run(work) == [[2.0, 4.0]] * 2


def test_one_all_reduce_of_half_the_bytes():
    forms = [((3, 2), torch.float32), ((), torch.float64), ((5,), torch.bfloat16)]

    def work(group):
        sync = HalfSync(group, [torch.zeros(shape, dtype=dtype) for shape, dtype in forms])
        averages = sync([torch.ones(shape, dtype=dtype) for shape, dtype in forms])
        return [(tuple(x.shape), x.dtype) for x in averages]

    world = FakeWorld(2)
    assert world.run(work) == [forms] * 2
    (collective,) = world.trace
    assert collective.carries == "float16[15]"  # 12 numbers and 3 flags.
    assert collective.bytes == 30
