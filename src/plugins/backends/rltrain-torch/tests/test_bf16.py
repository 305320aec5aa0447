"""Gradient sync `bf16`: what bfloat16 rounds off, and how it arrives."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from rltrain.testing import FakeWorld
from rltrain_torch.gradients import Bf16GradientSync, Bf16Sync

INF, NAN = float("inf"), float("nan")


def synced(ranks, steps):
    """Return rank 0's averages by step; `steps[step][rank]` are one parameter's gradients."""

    def work(group):
        sync = Bf16Sync(group, [torch.zeros(len(steps[0][0]))])
        return [sync([torch.as_tensor(step[group.rank])])[0].clone() for step in steps]

    return FakeWorld(ranks).run(work)[0]


def test_what_is_rounded_off_is_sent_later():
    generator = torch.Generator().manual_seed(0)
    scale = torch.logspace(-30, 30, 50)  # bfloat16 has the range of float32.
    steps = [
        [(torch.randn(50, generator=generator) + 1) * scale for _ in range(3)] for _ in range(400)
    ]
    made = torch.stack(synced(3, steps)).double()
    truth = torch.stack([torch.stack(step).double().mean(0) for step in steps])
    assert ((made[0] - truth[0]) / scale).abs().max() > 1e-3
    assert ((made.sum(0) - truth.sum(0)) / (len(steps) * scale)).abs().max() < 1e-3


def test_nan_and_infinity_reach_every_rank_and_leave_nothing_behind():
    steps = [
        [[NAN, INF, -INF, INF, 3.4e38, 1.0], [1.0, 1.0, 1.0, -INF, 0.0, 1.0]],
        [[2.0] * 6] * 2,
    ]
    first, second = synced(2, steps)
    assert first.isnan().tolist() == [True, False, False, True, False, False]
    assert first[1:3].tolist() == [INF, -INF]
    assert first[5] == 1
    assert second[[0, 1, 2, 3, 5]].tolist() == [2.0] * 5


@pytest.mark.parametrize("lacking", [{0, 1}, {1}])
def test_an_error_waits_until_the_rank_has_a_gradient_again(lacking):
    def work(group):
        sync = Bf16Sync(group, [torch.zeros(1)])
        first = sync([torch.tensor([1.001])])[0].item()
        (between,) = sync([None if group.rank in lacking else torch.zeros(1)])
        sent_between = 0.0 if between is None else between.item()
        last = sync([torch.zeros(1)])[0].item()
        assert first != pytest.approx(1.001, abs=1e-5)
        return first + sent_between + last

    assert FakeWorld(2).run(work) == [pytest.approx(1.001, abs=1e-5)] * 2


def test_one_all_reduce_of_half_the_bytes_keeps_the_forms():
    forms = [((3, 2), torch.float32), ((), torch.float64), ((5,), torch.bfloat16)]

    def work(group):
        sync = Bf16Sync(group, [torch.zeros(shape, dtype=dtype) for shape, dtype in forms])
        averages = sync([torch.ones(shape, dtype=dtype) for shape, dtype in forms])
        return [(tuple(x.shape), x.dtype) for x in averages]

    world = FakeWorld(2)
    assert world.run(work) == [forms] * 2
    (collective,) = world.trace
    assert collective.carries == "bfloat16[15]"  # 12 numbers and 3 flags.


def test_a_resumed_run_sends_what_was_rounded_off_before():
    def work(group):
        def made():
            plugin = Bf16GradientSync()
            session = SimpleNamespace(group=group)
            return plugin, plugin.rltrain_gradient_sync(session, [torch.zeros(1)], 0)

        plugin, sync = made()
        first = sync([torch.tensor([1.001])])[0].item()
        resumed, again = made()
        resumed.rltrain_load_state(plugin.rltrain_save_state())
        return first, first + again([torch.zeros(1)])[0].item()

    for first, both in FakeWorld(2).run(work):
        assert first != pytest.approx(1.001, abs=1e-5)
        assert both == pytest.approx(1.001, abs=1e-5)
