"""Gradient sync `flat`: the mean over ranks, in reused buffers."""

from __future__ import annotations

import pytest
import torch

from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld
from rltrain_torch.deferred_mean import DeferredMean
from rltrain_torch.gradients import _LARGE as LARGE
from rltrain_torch.gradients import FlatSync, synchronize

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
    dtypes = (torch.float32, torch.bfloat16, torch.float64)

    def work(group):
        made = parameters(dtypes)
        averaged = FlatSync(group, made)(gradients(made, group.rank))
        assert [g.dtype for g in averaged] == [p.dtype for p in made]
        assert [g.shape for g in averaged] == [p.shape for p in made]
        return averaged

    per_rank = [gradients(parameters(dtypes), rank) for rank in range(2)]
    world = FakeWorld(2)
    for averaged in world.run(work):
        assert [collective.op for collective in world.trace] == ["all_reduce(sum)"] * 3
        for index, gradient in enumerate(averaged):
            torch.testing.assert_close(gradient, (per_rank[0][index] + per_rank[1][index]) / 2)


def test_averages_set_as_gradients_serve_step_after_step():
    """The returned views become `.grad` and are passed in again, accumulated or replaced."""

    def train(group, synced):
        torch_model = torch.nn.Linear(3, 2)
        with torch.no_grad():
            for parameter in torch_model.parameters():
                parameter.fill_(0.5)
        made = list(torch_model.parameters())
        optimizer = torch.optim.SGD(made, lr=0.1, momentum=0.9)
        sync = FlatSync(group, made)
        for step in range(6):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            ranks = [group.rank] if synced else range(2)
            for rank in ranks:
                inputs = torch.arange(3.0) + rank + step
                (torch_model(inputs).square().sum() / len(ranks)).backward()
            if synced:
                synchronize(sync, made)
            optimizer.step()
        return [parameter.detach().clone() for parameter in made]

    first, second = FakeWorld(2).run(lambda group: train(group, synced=True))
    alone = train(SingleProcess("cpu"), synced=False)
    for ours, theirs, reference in zip(first, second, alone, strict=True):
        assert torch.equal(ours, theirs)
        torch.testing.assert_close(ours, reference)


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
    with pytest.raises(ValueError, match=r"2 gradients were given; .* for 5 parameters"):
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
