"""A rank's last collectives, asked for by another process while it hangs."""

from __future__ import annotations

import threading
import time

from rltrain.ranks import stacks
from rltrain.ranks.pulse import pulse_file
from rltrain.ranks.stacks import describing, last_collectives


def listeners():
    return {thread for thread in threading.enumerate() if thread.name == "rltrain-answers"}


def test_ranks_answer_as_often_as_they_are_asked(tmp_path):
    pulses = {rank: pulse_file(tmp_path, rank) for rank in range(3)}
    answers = iter(["1: all_reduce", "2: barrier"])
    with describing(pulses[0], lambda: next(answers)), describing(pulses[1], lambda: ""):
        assert last_collectives(pulses) == {0: "1: all_reduce"}
        assert last_collectives(pulses) == {0: "2: barrier"}


def test_an_error_is_the_answer(tmp_path):
    pulse = pulse_file(tmp_path, 0)

    def fail():
        raise RuntimeError("no recorder")

    with describing(pulse, fail):
        found = last_collectives({0: pulse})
    assert found == {0: "They could not be read: RuntimeError: no recorder"}


def test_a_rank_that_does_not_answer_is_not_waited_for_long(tmp_path):
    pulse, ended = pulse_file(tmp_path, 0), threading.Event()
    began = time.monotonic()
    with describing(pulse, lambda: str(ended.wait(60))):
        assert last_collectives({0: pulse}) == {}
        assert time.monotonic() - began >= stacks._COLLECTIVES_TIMEOUT
        ended.set()


def test_a_rank_that_has_ended_leaves_no_thread(tmp_path):
    pulse = pulse_file(tmp_path, 0)
    ending = listeners()  # Another test's may not have ended yet.
    with describing(pulse, lambda: "1: all_reduce"):
        [thread] = listeners() - ending
    thread.join(10)
    assert not thread.is_alive()
    assert last_collectives({0: pulse}) == {}


def test_a_rank_that_starts_again_in_the_same_folder_can_be_asked(tmp_path):
    pulse = pulse_file(tmp_path, 0)
    for attempt in ("first", "second"):
        with describing(pulse, lambda attempt=attempt: attempt):
            assert last_collectives({0: pulse}) == {0: attempt}
