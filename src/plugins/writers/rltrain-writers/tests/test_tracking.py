"""Writers of trackers: training never waits, and what a tracker does not take is tried again."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
import time
from pathlib import Path

import pytest
from messages import check_said
from tracker_runs import ENDED, scalars, started

from rltrain.records import CheckpointSaved, Media, Scalars
from rltrain.types import World
from rltrain_tracking import (
    Refused,
    TrackerWriter,
    checkpoint_files,
    config_of,
    metrics_of,
    outcome,
    remember,
    remembered,
)
from rltrain_tracking import writer as sending
from rltrain_tracking import writer as writing


class Calls:
    """A tracker that notes its calls, and does what a test's `before` does before each."""

    def __init__(self, before=lambda call: None):
        self.before, self.calls = before, []

    def _note(self, name, *what):
        self.before(name)
        self.calls.append((name, *what))

    def connect(self, started):
        self._note("connect", started.task)

    def log(self, rows):
        self._note("log", [row.frames for row in rows])

    def log_media(self, media, frames):
        self._note("media", media.name, frames)

    def log_checkpoint(self, saved, frames):
        self._note("checkpoint", saved.iteration, frames)

    def finish(self, ended):
        self._note("finish", outcome(ended))

    @property
    def frames(self):
        return [frames for name, *what in self.calls if name == "log" for frames in what[0]]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(sending, "PAUSE", 0.0)
    monkeypatch.setattr(sending, "DELAYS", (0.01, 0.02))


def run(tracker, start, *records, then=lambda: None, checkpoints="none", finish_timeout=20.0):
    """Give records to a writer, then do more; return the seconds that its end has taken."""
    writer = TrackerWriter("mine", tracker, checkpoints=checkpoints, finish_timeout=finish_timeout)
    for record in (start, *records, ENDED):
        writer.rltrain_write(record)
    then()
    before = time.monotonic()
    writer.rltrain_shutdown()
    return time.monotonic() - before


def lines(capsys):
    return [line for line in capsys.readouterr().out.splitlines() if "mine" in line]


def without_seconds(line, since):
    """Check the seconds without an answer, which depend on the machine; return the line with N."""
    said = int(re.search(r"no answer for (\d+) s", line)[1])
    assert said <= round(time.monotonic() - since)
    return line.replace(f"answer for {said} s", "answer for N s")


def test_everything_is_sent_in_order_and_rows_together(tmp_path, capsys):
    has_all = threading.Event()
    tracker = Calls(lambda call: has_all.wait(20) if call == "connect" else None)
    records = Media("a.mp4", "a", 2), *map(scalars, (3, 4)), CheckpointSaved("b.pth", 4), scalars(5)
    start = started(tmp_path, frames=1024)
    run(tracker, start, *records, then=has_all.set, checkpoints="all")
    assert tracker.calls == [
        ("connect", "Task-v1"),
        ("media", "a", 1024),
        ("log", [1536, 2048]),
        ("checkpoint", 4, 2048),
        ("log", [2560]),
        ("finish", "finished"),
    ]
    assert lines(capsys) == []


@pytest.mark.parametrize("call", ["connect", "log", "finish"])
def test_a_tracker_that_never_answers_costs_a_bounded_time_and_one_line(call, tmp_path, capsys):
    never = threading.Event()
    tracker = Calls(lambda name: never.wait(30) if name == call else None)
    before = time.monotonic()
    ended_in = run(tracker, started(tmp_path), *map(scalars, range(1, 200)), finish_timeout=0.3)
    whole = time.monotonic() - before
    never.set()
    assert 0.3 <= ended_in < 3
    assert whole < 4
    (line,) = lines(capsys)
    lost = "the end of the run was" if call == "finish" else "199 records were"
    expected = f"rltrain: mine: {lost} not sent (no answer for N s)"
    assert without_seconds(line, before) == expected


def test_a_call_that_takes_long_is_named_while_training_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sending, "PATIENCE", 0.05)
    monkeypatch.setattr(writing, "LAST_WAIT", 0.1)
    called, never = threading.Event(), threading.Event()
    tracker = Calls(lambda call: called.set() or never.wait(30))
    writer = TrackerWriter("mine", tracker, checkpoints="none", finish_timeout=30)
    began = time.monotonic()
    writer.rltrain_write(started(tmp_path))
    assert called.wait(20)
    time.sleep(0.1)
    for iteration in (1, 2, 3):
        writer.rltrain_write(scalars(iteration))
    (line,) = lines(capsys)
    expected = "no answer for N s: training continues, and what is recorded is sent later"
    assert without_seconds(line, began).endswith(expected)
    before = time.monotonic()
    writer.rltrain_shutdown()  # It is known not to answer.
    never.set()
    assert time.monotonic() - before < 5
    (line,) = lines(capsys)
    expected = "rltrain: mine: 3 records were not sent (no answer for N s)"
    assert without_seconds(line, began) == expected


def test_what_failed_is_sent_when_the_tracker_is_back_and_said_once(tmp_path, capsys):
    failures = iter(["connect", "log", "log", "log"])

    def fail(call):
        if call == next(failures, None):
            raise ConnectionError("http://me:secret@host is gone.\nAnd more")

    tracker = Calls(fail)
    writer = TrackerWriter("mine", tracker, checkpoints="none", finish_timeout=20)
    writer.rltrain_write(started(tmp_path))
    for iteration in range(1, 200):
        writer.rltrain_write(scalars(iteration))
        time.sleep(0.001)
    writer.rltrain_write(ENDED)
    writer.rltrain_shutdown()
    assert tracker.frames == [512 * iteration for iteration in range(1, 200)]
    assert tracker.calls[-1] == ("finish", "finished")
    check_said("\n".join(lines(capsys)))


def test_a_tracker_that_is_gone_ends_with_the_run(tmp_path, capsys):
    def fail(call):
        if call == "log":
            raise ConnectionError("gone")

    assert run(Calls(fail), started(tmp_path), *map(scalars, (1, 2, 3))) < 5
    check_said(lines(capsys)[-1])


def test_records_beyond_what_is_held_are_counted(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sending, "HELD", 10)
    go = threading.Event()
    tracker = Calls(lambda call: go.wait(20) if call == "connect" else None)
    run(tracker, started(tmp_path), *map(scalars, range(1, 26)), then=go.set)
    assert len(tracker.frames) == 10
    check_said("\n".join(lines(capsys)))


def test_what_is_refused_or_cannot_be_uploaded_does_not_hold_up_the_rest(tmp_path, capsys):
    refused = iter([True])

    def fail(call):
        if call == "media":
            raise FileNotFoundError("no such file")
        if call == "log" and next(refused, False):
            raise Refused("a name")

    tracker = Calls(fail)
    run(tracker, started(tmp_path), scalars(1), Media("a.mp4", "a", 1), scalars(2))
    assert tracker.calls[1:] == [("log", [1024]), ("finish", "finished")]
    check_said(lines(capsys)[-1])


def test_a_warning_of_the_tracker_is_shown(tmp_path, capsys):
    tracker = Calls()
    tracker.connect = lambda started: "offline"
    run(tracker, started(tmp_path), scalars(1))
    assert lines(capsys) == ["rltrain: mine: offline"]


@pytest.mark.parametrize(("choice", "sent"), [("none", []), ("last", [3]), ("best", [2])])
def test_the_last_or_the_best_checkpoint_is_sent_when_the_run_ends(choice, sent, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    entries, records, tracker = [], [], Calls()
    for number, mean in ((1, None), (2, 50.0), (3, 9.0)):
        (path := tmp_path / "checkpoints" / f"{number}.pt").touch()
        entries.append({"name": path.name, "iteration": number, "episode_return": mean})
        records.append(CheckpointSaved(str(path), number))
    (tmp_path / "checkpoints.json").write_text(json.dumps(entries))
    run(tracker, started(tmp_path), scalars(3), *records, checkpoints=choice)
    found = [call[1:] for call in tracker.calls if call[0] == "checkpoint"]
    assert found == [(iteration, 1536) for iteration in sent]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "finished"),
        ({"solved": True}, "solved"),
        ({"asked": True}, "stopped"),
        ({"error": "KeyboardInterrupt"}, "stopped"),
        ({"error": "ValueError: no"}, "failed"),
    ],
)
def test_outcome(changes, expected):
    assert outcome(dataclasses.replace(ENDED, **changes)) == expected


def test_metrics_have_the_same_names_for_every_library():
    record = Scalars(
        3,
        {"loss": 1},
        fps=(2.0, 3.0),
        episode_return=5.0,
        episode_length=6.0,
        success_rate=0.5,
        rollout=(1.0, 3.0),
        update=(1.0, 1.0),
        collectives=(3.0, 1.0),
    )
    assert metrics_of(record) == {
        "loss": 1.0,
        "episode/return": 5.0,
        "episode/length": 6.0,
        "episode/success": 0.5,
        "performance/fps": 5.0,
        "performance/fps_rank_min": 2.0,
        "performance/fps_rank_max": 3.0,
        "performance/waiting_share": 0.2,
        "iteration": 3.0,
    }


def test_the_config_says_where_the_ranks_are(tmp_path):
    record = started(tmp_path, config={"task": "Task-v1", "run_dir": None})
    world = World(world_size=4, local_world_size=2, num_nodes=2)
    assert config_of(dataclasses.replace(record, world=world)) == {
        "task": "Task-v1",
        "run_dir": str(tmp_path),
        "world_size": 4,
        "num_nodes": 2,
    }


def test_a_run_that_goes_on_remembers_its_tracker(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    checkpoint = str(first / "checkpoints" / "1.pt")
    resumed = started(second, config={"checkpoint": checkpoint}, frames=32)
    assert remembered(started(first), "mine") == {}
    remember(started(first), "mine", {"id": 1})
    assert remembered(started(first), "mine") == {"id": 1}  # Its ranks were started again.
    assert remembered(started(first), "other") == {}
    assert remembered(resumed, "mine") == {"id": 1}
    assert remembered(resumed, "mine", resume=False) == {}
    # A student that starts from its teacher does not go on with the teacher's run.
    assert remembered(dataclasses.replace(resumed, frames=0), "mine") == {}
    remember(resumed, "mine", {"id": 2})
    assert remembered(resumed, "mine") == {"id": 2}
    (second / "mine.json").write_text("{")
    assert remembered(resumed, "mine") == {"id": 1}
    remember(started(tmp_path / "gone"), "mine", {"id": 3})


def test_a_checkpoint_is_sent_with_what_resuming_it_needs(tmp_path):
    expected = {
        *("checkpoints/1.pt", "checkpoints/ranks/1.pt.0123456789abcdef.state"),
        *("config.yaml", "agent.yaml", "checkpoints.json"),
    }
    others = {"checkpoints/2.pt", "checkpoints/ranks/2.pt.0123456789abcdef.state", "rank_0.log"}
    for name in expected | others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    files = checkpoint_files(Path(tmp_path, "checkpoints", "1.pt"))
    assert files == {name: tmp_path / name for name in expected}
