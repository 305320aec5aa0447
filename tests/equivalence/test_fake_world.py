"""N ranks in one process: values, order, state of each rank, and errors."""

from __future__ import annotations

import functools
import inspect
import os
import random
import signal
import threading
import traceback

import numpy as np
import pytest
from messages import check_said, says

from rltrain.testing import (
    CollectiveMismatch,
    Deadlock,
    FakeWorld,
    Fault,
    FaultNotReached,
    PeerLost,
    RankDied,
)
from rltrain.types import World

X = np.arange(3.0)


def line_of(function, text):
    """Return "file:line" of a line in a function of this file."""
    lines, first = inspect.getsourcelines(function)
    (at,) = [first + i for i, line in enumerate(lines) if text in line]
    return f"{__file__}:{at} in {function.__name__}"


def test_results_are_ordered_by_rank():
    assert FakeWorld(3).run(lambda group: group.rank * 10) == [0, 10, 20]
    assert FakeWorld(1).run(lambda group: group.all_reduce(X).tolist()) == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("op", "expected"), [("sum", [3, 6]), ("mean", [1, 2]), ("min", [0, 0]), ("max", [2, 4])]
)
def test_all_reduce_combines_element_by_element(op, expected):
    results = FakeWorld(3).run(lambda g: g.all_reduce(np.array([1.0, 2.0]) * g.rank, op).tolist())
    assert results == [expected] * 3


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
def test_kind_shape_and_dtype_are_kept(shape, dtype):
    given = np.ones(shape, dtype)
    for result in FakeWorld(2).run(lambda group: group.all_reduce(given)):
        assert isinstance(result, np.ndarray)
        assert (result.shape, result.dtype) == (shape, given.dtype)


@pytest.mark.parametrize("src", [0, 1, 2])
def test_broadcasts_come_from_the_source(src):
    def work(group):
        array = group.broadcast(np.array([group.rank]), src)
        return int(array[0]), group.broadcast_object({"rank": group.rank}, src)

    assert FakeWorld(3).run(work) == [(src, {"rank": src})] * 3


def test_objects_are_gathered_in_order_and_not_shared():
    gathered = FakeWorld(3).run(lambda group: group.gather_objects([group.rank]))
    assert gathered == [[[0], [1], [2]]] * 3
    assert len({id(item) for rank in gathered for item in rank}) == 9


def test_ranks_share_no_array():
    def work(group):
        mine = np.full(2, group.rank, float)
        for result in (group.all_reduce(mine), group.broadcast(mine)):
            result += 100 * group.rank  # Would show on other ranks, or in the input.
        return mine.tolist(), group.all_reduce(mine).tolist(), group.broadcast(mine).tolist()

    assert FakeWorld(3).run(work) == [([r, r], [3, 3], [0, 0]) for r in (0.0, 1.0, 2.0)]


def test_one_rank_runs_at_a_time_in_the_same_order_each_time():
    def order():
        events = []

        def work(group):
            for step in range(3):
                events.append((step, group.rank))
                group.barrier()

        FakeWorld(3).run(work)
        return events

    first = order()
    assert first[:3] == [(0, 0), (0, 1), (0, 2)]
    assert all(order() == first for _ in range(5))


def test_each_rank_has_the_place_that_torchrun_would_give_it():
    names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")

    def work(group):
        group.barrier()
        return group.world, [int(os.environ[name]) for name in names]

    worlds, variables = zip(*FakeWorld(4, num_nodes=2).run(work), strict=True)
    assert worlds[3] == World(3, 1, 1, 4, 2, 2)
    assert list(variables) == [[0, 0, 0, 4, 2], [1, 1, 0, 4, 2], [2, 0, 1, 4, 2], [3, 1, 1, 4, 2]]
    assert "RANK" not in os.environ


def test_each_rank_has_its_own_environment_variables(monkeypatch):
    monkeypatch.setenv("GIVEN", "before")
    monkeypatch.setenv("TAKEN", "before")

    def work(group):
        os.environ["GIVEN"] = str(group.rank)
        if group.rank:
            del os.environ["TAKEN"]
        group.barrier()
        return os.environ["GIVEN"], os.environ.get("TAKEN")

    assert FakeWorld(2).run(work) == [("0", "before"), ("1", None)]
    assert (os.environ["GIVEN"], os.environ["TAKEN"]) == ("before", "before")


def draws():
    import torch

    return random.random(), float(np.random.normal()), float(torch.rand(()))


def seed(value):
    import torch

    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)


def test_each_rank_has_its_own_generators():
    alone = []
    for rank in range(3):
        seed(rank)
        alone.append([draws() for _ in range(4)])

    def work(group):
        seed(group.rank)
        drawn = []
        for _ in range(4):
            drawn.append(draws())
            group.barrier()
        return drawn

    seed(7)
    expected = draws()
    seed(7)
    assert FakeWorld(2).run(lambda group: draws()) == [expected] * 2  # They start with ours.
    assert FakeWorld(3).run(work) == alone
    assert draws() == expected, "the caller's generators are as they were"


class Config:
    class Inner:
        device = "nowhere"


def test_each_rank_has_its_own_registered_attributes():
    def work(group):
        assert Config.Inner.device == "nowhere"
        Config.Inner.device = f"device {group.rank}"
        group.barrier()
        return Config.Inner.device

    world = FakeWorld(2, rank_local=[f"{__name__}:Config.Inner.device"])
    assert world.run(work) == ["device 0", "device 1"]
    assert Config.Inner.device == "nowhere"
    with pytest.raises(AttributeError, match="devise"):
        FakeWorld(2, rank_local=[f"{__name__}:Config.Inner.devise"]).run(work)


def test_the_trace_lists_every_collective():
    def work(group):
        group.all_reduce(np.ones((2, 3), "float32"))
        group.broadcast_object("x" * (100 if group.rank == 1 else 1), src=1)
        group.barrier()

    world = FakeWorld(2, faults=[Fault("is_late", rank=0, at=3)])
    world.run(work)
    first, second, third = world.trace
    assert (first.op, first.carries, first.bytes) == ("all_reduce(sum)", "float32[2, 3]", 24)
    assert first.ranks == (0, 1)
    assert first.callers == (line_of(work, "all_reduce"),) * 2
    assert first.last == 1
    assert (second.op, second.carries) == ("broadcast_object(src=1)", "object")
    assert second.bytes > 100
    assert (third.op, third.carries, third.bytes, third.last) == ("barrier", "", 0, 0)
    world.trace.clear()


def test_a_deadlock_is_found_and_names_ranks_collectives_and_lines():
    def work(group):
        if group.rank == 1:
            return
        group.all_reduce(X, "mean")

    with says(Deadlock) as caught:
        FakeWorld(3).run(work)
    assert str(caught.value).count(line_of(work, "mean")) == 2


def test_a_swallowed_deadlock_is_still_one():
    def work(group):
        if group.rank:
            try:
                group.barrier()
            except Deadlock:
                return "all is well"

    with pytest.raises(Deadlock):
        FakeWorld(2).run(work)


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [
        (lambda g: g.all_reduce(X), lambda g: g.barrier()),
        (lambda g: g.all_reduce(X), lambda g: g.all_reduce(X, "max")),
        (lambda g: g.all_reduce(X), lambda g: g.all_reduce(X[:2])),
        (lambda g: g.all_reduce(X), lambda g: g.all_reduce(X.astype("float32"))),
        (lambda g: g.broadcast(X, 0), lambda g: g.broadcast(X, 1)),
        (lambda g: g.broadcast_object(X, 0), lambda g: g.broadcast_object(X, 1)),
        (lambda g: g.gather_objects(X), lambda g: g.broadcast_object(X, 1)),
    ],
)
def test_mismatched_collectives_are_reported_with_both_sides(theirs, mine):
    with pytest.raises(CollectiveMismatch) as caught:
        FakeWorld(2).run(lambda group: mine(group) if group.rank else theirs(group))
    head, first, second = str(caught.value).splitlines()
    assert head == "Ranks called different collectives:"
    assert first.startswith("  rank 0: ")
    assert second.startswith("  rank 1: ")
    assert first[10:].partition(", called at ")[0] != second[10:].partition(", called at ")[0]
    assert __file__ in first
    assert __file__ in second


def test_an_exception_reaches_the_caller_with_its_own_traceback():
    def fails(group):
        raise ValueError("as planned")

    ended = []

    def work(group):
        try:
            group.barrier()
            if group.rank == 1:
                fails(group)
            group.all_reduce(X)
        finally:
            ended.append(group.rank)

    world = FakeWorld(3)
    with pytest.raises(ValueError, match="as planned") as caught:
        world.run(work)
    assert "in fails" in "".join(traceback.format_tb(caught.value.__traceback__))
    check_said(caught.value.__notes__[0])
    assert sorted(ended) == [0, 1, 2]
    assert [type(world.errors[rank]) for rank in range(3)] == [PeerLost, ValueError, PeerLost]
    check_said(str(world.errors[0]))
    # It is not shown twice by a world that runs again.
    world = FakeWorld(2)
    with pytest.raises(ZeroDivisionError):
        world.run(lambda group: 1 / group.rank)
    assert world.run(lambda group: group.rank) == [0, 1]
    assert (world.errors, world.trace) == ({}, [])


def test_a_dead_rank_does_nothing_more():
    events = []

    def work(group):
        try:
            for _ in range(3):
                group.all_reduce(X)
        except Exception as error:
            events.append(f"rank {group.rank}: {type(error).__name__}")
            raise
        finally:
            events.append(f"rank {group.rank} unwinds")

    world = FakeWorld(3, faults=[Fault("dies", rank=0, at=2)])
    with says(RankDied):
        world.run(work)
    assert events[-1] == "rank 0 unwinds"
    said = (": PeerLost", " unwinds")
    assert set(events[:-1]) == {f"rank {rank}{words}" for rank in (1, 2) for words in said}
    assert len(world.trace) == 1


def test_a_dead_rank_joins_no_collective_while_it_unwinds():
    def work(group):
        try:
            group.barrier()
        finally:
            group.gather_objects("last words")

    world = FakeWorld(2, faults=[Fault("dies", rank=1, at=1)])
    with pytest.raises(RankDied):
        world.run(work)
    assert world.trace == []


def test_nan_is_sent_where_it_was_planted():
    world = FakeWorld(2, faults=[Fault("sends_nan", rank=1, at=2)])
    sums = world.run(lambda group: [group.all_reduce(X).sum() for _ in range(3)])
    assert sums[0][0] == sums[0][2] == 6
    assert np.isnan(sums[0][1])
    with says(ValueError):
        FakeWorld(2, faults=[Fault("sends_nan", 0, 1)]).run(lambda group: group.barrier())


def test_a_rank_returns_early_where_it_was_planted():
    def work(group):
        group.barrier()
        group.barrier()
        return "done"

    with says(Deadlock):
        FakeWorld(2, faults=[Fault("returns_early", rank=1, at=2)]).run(work)
    both = [Fault("returns_early", rank=rank, at=2) for rank in (0, 1)]
    assert FakeWorld(2, faults=both).run(work) == [None, None]


@pytest.mark.parametrize("kind", ["dies", "sends_nan", "returns_early", "is_late"])
def test_a_fault_that_never_happened_is_an_error(kind):
    with says(FaultNotReached):
        FakeWorld(2, faults=[Fault(kind, rank=1, at=3)]).run(
            lambda group: [group.all_reduce(X) for _ in range(2)]
        )


def in_a_world(work, **options):
    return lambda: FakeWorld(2, **options).run(work)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (in_a_world(lambda g: g.all_reduce(X, "product")), ValueError),
        (in_a_world(lambda g: g.broadcast(X, src=3)), ValueError),
        (in_a_world(lambda g: g.all_reduce(0.5)), TypeError),
        (in_a_world(lambda g: FakeWorld(2).run(lambda inner: None)), RuntimeError),
        (lambda: FakeWorld(2).run(lambda g: g)[0].barrier(), RuntimeError),
        (lambda: Fault("die", rank=0, at=1), ValueError),
        (in_a_world(None, faults=[Fault("dies", 2, 1)]), ValueError),
        (in_a_world(None, faults=[Fault("dies", 0, 0)]), ValueError),
        *(
            (functools.partial(FakeWorld, ranks, num_nodes=nodes), ValueError)
            for ranks, nodes in ((0, 1), (3, 2), (2, 0))
        ),
    ],
)
def test_what_cannot_be_is_named(wrong, error):
    with says(error):
        wrong()


def test_a_group_that_was_closed_takes_no_collective():
    def work(group):
        group.close()
        group.close()
        group.barrier()

    with says(RuntimeError):
        FakeWorld(2).run(work)


@pytest.mark.slow
def test_an_interrupted_run_leaves_nothing_behind():
    def work(group):
        os.environ["LEFT"] = "behind"
        if group.rank == 0:
            os.kill(os.getpid(), signal.SIGINT)
        while True:
            group.barrier()

    before = dict(os.environ)
    with pytest.raises(KeyboardInterrupt):
        FakeWorld(3).run(work)
    assert dict(os.environ) == before
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rank ")]
    assert FakeWorld(2).run(lambda group: group.rank) == [0, 1]


def test_jax_arrays_stay_jax_arrays():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def work(group):
        mine = jnp.array([1.0, 2.0]) * (group.rank + 1)
        results = [group.all_reduce(mine, op) for op in ("sum", "mean", "min", "max")]
        return [*results, group.broadcast(mine, 1), group.all_reduce(jnp.int32(group.rank))]

    for results in FakeWorld(2).run(work):
        assert all(isinstance(x, jax.Array) for x in results)
        values = [x.tolist() for x in results]
        assert values == [[3, 6], [1.5, 3], [1, 2], [2, 4], [2, 4], 1]


def test_a_collective_inside_a_compiled_function_is_refused():
    jax = pytest.importorskip("jax")
    with says(TypeError):
        FakeWorld(2).run(lambda group: jax.jit(group.all_reduce)(jax.numpy.ones(2)))


@pytest.mark.parametrize(
    "send",
    [lambda group, obj: group.gather_objects(obj), lambda group, obj: group.broadcast_object(obj)],
)
def test_the_fake_group_refuses_what_real_ones_do(send):
    world = FakeWorld(2)
    with pytest.raises(TypeError, match="data only"):
        world.run(lambda group: send(group, World()))
    assert world.trace == []
