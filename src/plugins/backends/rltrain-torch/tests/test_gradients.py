"""Gradient syncs `flat` and `bf16`: the mean over ranks, in reused buffers; what is rounded off."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from messages import says

from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld
from rltrain_torch.deferred_mean import DeferredMean
from rltrain_torch.gradients import _LARGE as LARGE
from rltrain_torch.gradients import Bf16GradientSync, Bf16Sync, FlatSync, synchronize

INF, NAN = float("inf"), float("nan")
SHAPES = [(3, 2), (), (4,), (0,), (2, 1, 2)]


def parameters(dtypes=(torch.float32,)):
    return [
        torch.nn.Parameter(torch.zeros(shape, dtype=dtypes[index % len(dtypes)]))
        for index, shape in enumerate(SHAPES)
    ]


def gradients(made, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(p.shape, generator=generator).to(p.dtype) for p in made]


class InPlace:
    """A group that returns its input tensor, like gloo's."""

    def __init__(self, group):
        self.world_size, self._group = group.world_size, group

    def all_reduce(self, x, op):
        return x.copy_(self._group.all_reduce(x, op))


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_large_gradients_are_averaged_to_the_same_numbers(world_size):
    """In one pass for two ranks; also those that have accumulated in the buffer itself."""

    def work(group):
        made = [torch.nn.Parameter(torch.zeros(2, LARGE // 2)), torch.nn.Parameter(torch.zeros(7))]
        sync = FlatSync(InPlace(group), made)
        first = [each.clone() for each in sync(gradients(made, group.rank))]
        views = sync(gradients(made, group.rank))
        for view in views:
            view.add_(group.rank)
        again = [each.clone() for each in sync(views)]
        return first, again, sync([None, gradients(made, group.rank)[1]])

    made = [torch.zeros(2, LARGE // 2), torch.zeros(7)]
    per_rank = [gradients(made, rank) for rank in range(world_size)]
    total = [sum(rank[index] for rank in per_rank) for index in (0, 1)]
    for first, again, partly in FakeWorld(world_size).run(work):
        for mean, later, expected in zip(first, again, total, strict=True):
            assert torch.equal(mean, expected / world_size)
            torch.testing.assert_close(later, expected / world_size + (world_size - 1) / 2)
        assert partly[0] is None
        assert torch.equal(partly[1], total[1] / world_size)


def test_a_large_gradient_that_one_rank_lacks_counts_as_zero_there():
    def work(group):
        made = [torch.nn.Parameter(torch.zeros(LARGE))]
        return FlatSync(group, made)([None if group.rank else torch.ones(LARGE)])[0]

    for averaged in FakeWorld(2).run(work):
        assert averaged.unique().tolist() == [0.5]


def test_one_all_reduce_serves_each_dtype():
    def work(group):
        made = parameters((torch.float32, torch.bfloat16, torch.float64))
        averaged = FlatSync(group, made)(gradients(made, group.rank))
        assert [(g.dtype, g.shape) for g in averaged] == [(p.dtype, p.shape) for p in made]

    world = FakeWorld(2)
    world.run(work)
    assert [collective.op for collective in world.trace] == ["all_reduce(sum)"] * 3


def test_steps_allocate_no_memory():
    def work(group):
        made = parameters()
        sync = FlatSync(InPlace(group), made)
        return len({sync(gradients(made, step))[0].data_ptr() for step in range(4)})

    assert FakeWorld(2).run(work) == [1, 1]


def test_strided_gradients_are_averaged():
    def work(group):
        made = [torch.nn.Parameter(torch.zeros(3, 2))]
        gradient = torch.arange(6.0).reshape(2, 3).t()
        assert not gradient.is_contiguous()
        return FlatSync(group, made)([gradient])[0]

    for averaged in FakeWorld(2).run(work):
        assert torch.equal(averaged, torch.arange(6.0).reshape(2, 3).t())


def test_a_wrong_number_of_gradients_is_an_error():
    sync = FlatSync(SingleProcess("cpu"), parameters())
    with says(ValueError):
        sync([None, None])


def test_one_rank_gets_its_own_gradients_back_without_a_copy():
    mine = gradients(made := parameters(), 0)
    averaged = FlatSync(SingleProcess("cpu"), made)(mine)
    assert all(ours is given for ours, given in zip(averaged, mine, strict=True))


def test_synchronize_averages_numbers_in_the_same_collective():
    def work(group):
        made = parameters()
        for parameter in made:
            parameter.grad = torch.full_like(parameter, float(group.rank))
        number = torch.tensor(3.0 * group.rank)
        (average,) = synchronize(FlatSync(group, [*made, number]), made, [number])
        return float(average), float(made[1].grad)

    world = FakeWorld(2)
    assert world.run(work) == [(1.5, 0.5)] * 2
    assert len(world.trace) == 1


def test_a_late_mean_is_used_once_after_the_next_gradients_or_at_the_end():
    def work(group):
        used = []
        late = DeferredMean(group, used.append)
        parameter = torch.nn.Parameter(torch.zeros(2))
        sync = FlatSync(group, [parameter, late.number])

        def step():
            parameter.grad = torch.ones(2)
            late.resolve(synchronize(sync, [parameter], [late.number]))

        step()
        late.add(1.0 + group.rank)
        late.resolve(None)  # An update that is left out.
        assert not used
        step()
        step()
        late.flush()
        assert used == [1.5]
        late.add(torch.tensor(3.0 - group.rank))
        late.add(4.0)  # No step came between.
        late.flush()
        return used

    world = FakeWorld(2)
    assert world.run(work) == [[1.5, 2.5, 4.0]] * 2
    assert len(world.trace) == 5


def test_an_update_that_is_left_out_changes_nothing():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([parameter])

    def step(sync):
        parameter.grad = torch.full((2,), 3.0)
        synchronize(sync, [parameter])
        torch.nn.utils.clip_grad_norm_([parameter], 1.0)
        optimizer.step()
        state = {name: value.tolist() for name, value in optimizer.state[parameter].items()}
        return parameter.tolist(), state

    first = step(lambda gradients: gradients)
    assert step(lambda gradients: None) == first
    assert synchronize(lambda gradients: None, [parameter], [torch.ones(())]) is None
    assert step(lambda gradients: gradients) != first


# bf16


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
    steps = [[[NAN, INF, -INF, INF, 3.4e38, 1.0], [1.0, 1.0, 1.0, -INF, 0.0, 1.0]], [[2.0] * 6] * 2]
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
