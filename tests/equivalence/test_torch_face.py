"""Library code that calls `torch.distributed` gets from fake ranks what gloo would give it."""

from __future__ import annotations

import functools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from messages import says
from torch_programs import PROGRAMS, groups

from rltrain.testing import CollectiveMismatch, Deadlock, FakeWorld, Fault

SCRIPT = Path(__file__).with_name("torch_programs.py")


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def of_gloo(size, folder):
    """Return every program's results on each of `size` real gloo processes."""
    command = [sys.executable, SCRIPT]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(size), folder / "store", folder / f"{rank}.pt"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        errors = [rank.communicate(timeout=100)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * size, errors
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(size)]


def of_fake(size, program):
    return FakeWorld(size, torch=True).run(lambda group: PROGRAMS[program](group.rank))


def same(mine, theirs, equal):
    if isinstance(mine, torch.Tensor):
        return mine.dtype == theirs.dtype and equal(mine, theirs)
    if isinstance(mine, dict):
        return mine.keys() == theirs.keys() and same([*mine.values()], [*theirs.values()], equal)
    if isinstance(mine, (list, tuple)):
        return len(mine) == len(theirs) and all(
            same(*pair, equal) for pair in zip(mine, theirs, strict=True)
        )
    return mine == theirs


@pytest.fixture(scope="module")
def two_gloo_ranks(tmp_path_factory):
    return of_gloo(2, tmp_path_factory.mktemp("gloo"))


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_two_fake_ranks_get_the_bytes_of_two_gloo_ranks(program, two_gloo_ranks):
    expected = [rank[program] for rank in two_gloo_ranks]
    assert same(of_fake(2, program), expected, torch.equal)


@pytest.mark.slow
def test_three_fake_ranks_get_what_three_gloo_ranks_get(tmp_path):
    expected = of_gloo(3, tmp_path)
    close = functools.partial(torch.allclose, rtol=1e-4, atol=1e-6)  # The order of sums differs.
    for program in PROGRAMS:
        assert same(of_fake(3, program), [rank[program] for rank in expected], close)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_runs_on_four_ranks(program):
    assert len(of_fake(4, program)) == 4


def test_each_rank_has_its_own_groups_until_the_run_ends():
    world = FakeWorld(3, torch=True)
    places = [place for place, _, _ in world.run(lambda group: groups(group.rank))]
    assert places == [[0, 3, True, True, 0, 2], [1, 3, True, True], [2, 3, True, True, 1, 2]]
    assert not dist.is_initialized()
    world.run(lambda group: dist.destroy_process_group())
    assert not dist.is_initialized()


def test_the_group_and_torchs_default_group_are_one():
    def work(group):
        x = torch.ones(2)
        if group.rank:
            dist.all_reduce(x)
            return x.tolist()
        return group.all_reduce(x).tolist()

    assert FakeWorld(2, torch=True).run(work) == [[2, 2], [2, 2]]


def waits_alone(group):
    if group.rank:
        dist.broadcast_object_list([1], src=0)


def waits_crosswise(group):
    first, second = dist.new_group([0, 1]), dist.new_group([0, 1])
    for subgroup in (first, second) if group.rank else (second, first):
        dist.barrier(group=subgroup)


@pytest.mark.parametrize(
    ("work", "error"),
    [
        (waits_alone, Deadlock),  # It names the line in the library, and not in torch.
        (waits_crosswise, Deadlock),
        (lambda group: dist.all_reduce(torch.ones(group.rank + 1)), CollectiveMismatch),
        (lambda group: dist.send(torch.ones(1), dst=1 - group.rank), NotImplementedError),
        (
            lambda group: dist.all_reduce(torch.ones(1, dtype=torch.int), dist.ReduceOp.BXOR),
            NotImplementedError,
        ),
    ],
)
def test_what_is_wrong_is_reported(work, error):
    with says(error):
        FakeWorld(2, torch=True).run(work)


def test_faults_reach_torchs_collectives():
    def work(group):
        x = torch.ones(2)
        dist.all_reduce(x)
        return x

    for result in FakeWorld(2, torch=True, faults=[Fault("sends_nan", 0, 1)]).run(work):
        assert result.isnan().all()


def test_a_thread_that_a_rank_starts_may_ask_for_groups():
    """torch.compile does so, and what several fake ranks compile is as real ranks have it."""

    def work(group):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(dist.is_initialized).result(), dist.is_initialized()

    assert FakeWorld(2, torch=True).run(work) == [(False, True)] * 2


def test_a_process_that_has_a_group_is_refused():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with says(RuntimeError):
            FakeWorld(2, torch=True).run(lambda group: None)
    finally:
        dist.destroy_process_group()
