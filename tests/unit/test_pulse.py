"""What a rank is doing can be read by others at any time."""

from __future__ import annotations

import contextlib
import copy
import os

import pytest

from rltrain.ranks.pulse import PulseWriter, pulse_file, read_pulse, read_pulses
from rltrain.run.group import NotedGroup
from rltrain.testing import FakeWorld


@pytest.fixture
def writer(tmp_path):
    writer = PulseWriter()
    writer.share(pulse_file(tmp_path, 3))
    return writer


def test_a_pulse_is_read_while_the_rank_goes_on(writer, tmp_path):
    begin = read_pulse(pulse_file(tmp_path, 3))
    assert (begin.pid, begin.iteration, begin.phase) == (os.getpid(), 0, "starting")
    writer.phase("learning")
    with writer.during("stepping the environment"):
        writer.enter("all_reduce(sum) [7]")
        pulse = read_pulses(tmp_path)[3]
    assert (pulse.phase, pulse.waiting) == ("stepping the environment", True)
    assert (pulse.collectives, pulse.call) == (1, "all_reduce(sum) [7]")
    assert pulse.beats > begin.beats
    writer.leave()
    writer.done(12)
    pulse = read_pulses(tmp_path)[3]
    assert (pulse.phase, pulse.waiting, pulse.iteration) == ("learning", False, 12)


def test_a_full_disk_leaves_a_rank_unwatched(small_disk):
    with contextlib.suppress(OSError):
        (small_disk / "ballast").write_bytes(bytes(2 << 20))
    PulseWriter().share(pulse_file(small_disk, 0))
    assert read_pulses(small_disk) == {}
    assert read_pulse(small_disk / "missing") is None


def test_what_a_rank_did_before_it_had_a_file_is_in_it_and_a_long_call_is_cut(tmp_path):
    writer = PulseWriter()
    writer.done(7)
    writer.share(pulse_file(tmp_path, 0))
    assert read_pulse(pulse_file(tmp_path, 0)).iteration == 7
    writer.enter("é" * 200)
    assert read_pulse(pulse_file(tmp_path, 0)).call.startswith("ééé")


def test_each_collective_of_a_group_is_noted(tmp_path):
    def work(group):
        import numpy as np

        writer = PulseWriter()
        writer.share(pulse_file(tmp_path, group.rank))
        noted = NotedGroup(group, writer)
        assert (noted.rank, noted.world_size, noted.device) == (group.rank, 2, group.device)
        assert noted.all_reduce(np.ones(2)).tolist() == [2.0, 2.0]
        assert noted.broadcast(np.full(1, group.rank), 1).tolist() == [1]
        assert noted.broadcast_object(group.rank) == 0
        assert copy.copy(noted).world_size == 2  # As what holds it may be.
        assert noted.gather_objects(group.rank) == [0, 1]
        noted.barrier()
        noted.close()

    FakeWorld(2).run(work)
    for pulse in read_pulses(tmp_path).values():
        assert (pulse.collectives, pulse.call, pulse.waiting) == (5, "barrier", False)


def test_an_error_leaves_the_rank_in_its_collective(tmp_path):
    class Broken:
        def barrier(self):
            raise RuntimeError("as asked")

    writer = PulseWriter()
    writer.share(pulse_file(tmp_path, 0))
    with pytest.raises(RuntimeError):
        NotedGroup(Broken(), writer).barrier()
    assert read_pulses(tmp_path)[0].waiting
