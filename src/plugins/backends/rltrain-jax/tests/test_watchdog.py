"""The watchdog of a waiting rank, with the others' lines in a table in memory."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict

import numpy as np
import pytest

from rltrain_jax.watchdog import RankState, Times, Watchdog

FAST = Times(period=0.01, patience=0.05, limit=0.4, farewell=0.1)
LONG = 10.0
"""Seconds: only against hanging."""


class Table(dict):
    """Lines by rank; it can be set not to answer."""

    gone = False

    def write(self, rank, line):
        if self.gone:
            raise RuntimeError("no coordinator")
        self[rank] = line

    def read(self):
        return dict(self)


class Watched:
    """A watchdog whose messages are kept, and which ends no process."""

    def __init__(self, others=(), times=FAST):
        self.table, self.messages, self.ended = Table(), [], threading.Event()
        for place in others:
            self.table.write(len(self.table) + 1, json.dumps(asdict(place)))
        self.dog = Watchdog(self.table, 0, times, self.messages.append, self.end)

    def end(self):
        self.ended.set()
        self.dog._stop.set()

    def own(self):
        return RankState(**json.loads(self.table[0]))


@pytest.fixture
def watched():
    """Makes watchdogs, and stops them."""
    made = []

    def make(*arguments, **options):
        made.append(Watched(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.dog.close()


def until(condition):
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_waiting_rank_names_the_missing_ones(watched):
    here = RankState(1, "barrier", "a.py:1 in f")
    one = watched([here, RankState(0, "none", "b.py:7 in step")])
    one.dog.enter("all_reduce(sum)", np.zeros((2, 3), "float32"))
    assert one.ended.wait(LONG)
    first = one.messages[0]
    assert first.startswith("Rank 0 has waited 0 s in collective 1 (all_reduce(sum) of float32[2,")
    assert "threading.py:" in first, "where this test stands, innermost"
    assert "rank 2 was last seen after collective 0 (none), at b.py:7 in step" in first
    assert "rank 1" not in first
    assert one.messages[-1] == "Rank 0 stops waiting and exits."
    assert 2 <= len(one.messages) - 1 <= 5, "after 1, 2, 4, ... times its patience, and at the end"


def test_a_rank_that_has_left_is_not_waited_for(watched):
    one = watched([RankState(5, "barrier", "", "ValueError: boom")])
    for _ in range(6):
        one.dog.enter("barrier")
    assert one.ended.wait(LONG)
    assert "rank 1 has left with ValueError: boom" in one.messages[-2]
    assert len(one.messages) <= 3


def test_a_rank_with_finished_collectives_reports_nothing(watched):
    class Result:
        def is_ready(self):
            return True

    one = watched()
    for _ in range(20):
        one.dog.enter("barrier")
        one.dog.leave(Result())
        time.sleep(0.01)
    assert one.messages == []
    assert not one.ended.is_set()


def test_a_result_that_never_arrives_triggers_the_watchdog(watched):
    class Result:
        def is_ready(self):
            return False

    one = watched([RankState(0, "none", "")])
    one.dog.enter("barrier")
    one.dog.leave(Result())
    assert one.ended.wait(LONG)


def test_each_rank_reports_where_it_is(watched):
    one = watched()
    one.dog.enter("broadcast(src=0)", np.zeros(3, "float32"))
    until(lambda: 0 in one.table and one.own().number == 1)
    assert one.own().call == "broadcast(src=0) of float32[3]"
    assert "in test_each_rank_reports_where_it_is" in one.own().line or "in until" in one.own().line


def test_a_leaving_rank_reports_why(watched):
    one = watched(times=Times())
    one.dog.close(ValueError("boom\nand more"))
    assert one.own().error == "ValueError: boom"


def test_without_a_table_nothing_is_reported(watched):
    one = watched()
    one.table.gone = True
    one.dog.enter("barrier")
    until(lambda: not one.dog._thread.is_alive())
    one.dog.close(ValueError("boom"))
    assert one.messages == []
