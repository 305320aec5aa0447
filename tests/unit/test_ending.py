"""Requests to end a run after its iteration."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from messages import check_said

from rltrain import train
from rltrain.ranks.folders import Notes
from rltrain.ranks.signals import Requests, ask_to_end
from rltrain.run.worker import run_here
from rltrain.testing import make_config
from rltrain.types import World


def asked(folder):
    return Notes(folder).asked[0]


def test_ranks_that_train_are_asked_once(tmp_path, capsys, monkeypatch):
    assert not ask_to_end(tmp_path, signal.SIGTERM)  # They do not train yet.
    Notes(tmp_path).set_training()
    assert asked(tmp_path) == 0
    assert not ask_to_end(tmp_path, signal.SIGQUIT)  # It is no request, and ends at once.
    assert ask_to_end(tmp_path, signal.SIGTERM)
    assert asked(tmp_path) == signal.SIGTERM
    assert not ask_to_end(tmp_path, signal.SIGINT)
    assert asked(tmp_path) == signal.SIGTERM
    # A scheduler sends it to each process of a job, and some of these pass it on.
    assert ask_to_end(tmp_path, signal.SIGTERM)
    monkeypatch.setattr("rltrain.ranks.signals.SAME", 0.0)
    assert not ask_to_end(tmp_path, signal.SIGTERM)
    check_said(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("number", "votes", "code"),
    [
        (signal.SIGINT, (True, False, False), 130),
        *(
            (number, (False, True, False), 75)
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
        ),
    ],
)
def test_a_request_is_a_vote_and_a_status(tmp_path, monkeypatch, number, votes, code):
    handled = {}
    monkeypatch.setattr("signal.signal", handled.__setitem__)
    requests = Requests(None, is_root=False)
    requests.read_from(tmp_path, has_launcher=code == 75)
    requests.start()
    assert handled == ({signal.SIGINT: signal.SIG_IGN} if code == 75 else {})
    assert requests.votes(1) == (False, False, False)
    assert ask_to_end(tmp_path, number, quiet=True)
    assert requests.votes(2) == votes
    assert requests.count([float(vote) for vote in votes]) == (True, False)
    assert requests.exit_code == code


def test_checkpoints_are_due_every_so_many_iterations():
    requests = Requests(3, is_root=False)
    assert [n for n in range(1, 10) if requests.votes(n)[2]] == [3, 6, 9]


def test_checkpoints_are_due_when_the_time_of_rank_0_has_passed(monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    root, other = Requests("600s", is_root=True), Requests("600s", is_root=False)
    due = []
    for minute in range(1, 32):
        now = 60.0 * minute
        assert not other.votes(minute)[2]
        if root.votes(minute)[2]:
            due.append(minute)
            root.saved()
    assert due == [10, 20, 30]


def here(run, world=None):
    return run_here(make_config(), world or World(), run)


def test_a_signal_to_one_process_is_a_request():
    def run(config, world, log):
        Notes(log.path.parent).set_training()
        os.kill(os.getpid(), signal.SIGTERM)
        return asked(log.path.parent)

    before = signal.getsignal(signal.SIGTERM)
    assert here(run) == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("times", [1, 2])
def test_the_second_signal_ends_one_process_and_before_training_the_first(times, monkeypatch):
    monkeypatch.setattr("rltrain.ranks.signals.SAME", 0.0)
    folders = []

    def run(config, world, log):
        folders.append(log.path.parent)
        if times == 2:
            Notes(log.path.parent).set_training()
        for _ in range(times):
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        here(run)
    assert not folders[0].exists()


def test_a_process_in_a_thread_handles_no_signals():
    ended = []
    thread = threading.Thread(target=lambda: ended.append(here(lambda *arguments: 7)))
    thread.start()
    thread.join(timeout=10)
    assert ended == [7]


@pytest.mark.parametrize(
    ("number", "error", "code"),
    [
        (signal.SIGINT, KeyboardInterrupt, None),
        (signal.SIGTERM, SystemExit, 75),
        (signal.SIGUSR2, SystemExit, 75),
    ],
)
def test_a_request_reaches_the_caller_once_the_run_has_ended(
    stub, tmp_path, monkeypatch, number, error, code
):
    votes = Requests.votes

    def signaled(self, at):
        if at == 2:
            os.kill(os.getpid(), number)
        return votes(self, at)

    monkeypatch.setattr(Requests, "votes", signaled)
    with pytest.raises(error) as caught:
        train(**{**stub.OPTIONS, "max_iterations": 3})
    assert getattr(caught.value, "code", None) == code
