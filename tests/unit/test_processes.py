"""The launcher `processes`: ranks' places, results, failures, signals, and cleanup."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import processes_work as works
import pytest
from helpers import wait_for

from rltrain.builtin import processes
from rltrain.builtin.processes import ProcessesLauncher
from rltrain.errors import RankFailed, UsageError
from rltrain.testing import make_config

pytestmark = pytest.mark.slow

LIMIT = 30
"""Seconds: only against hanging, on a machine that does other things."""


@pytest.fixture
def launch(tmp_path, monkeypatch):
    """Launch two ranks, or as many as requested, in the test's own folder."""
    for name in works.NAMES:
        monkeypatch.delenv(name, raising=False)

    def launch(work, **options):
        options = {"nproc_per_node": 2, **options}
        config = make_config(distributed=True, framework="jax", log_root=str(tmp_path), **options)
        return ProcessesLauncher().launch(config, work)

    return launch


def places(tmp_path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(tmp_path.glob("rank_*.json"))]


def running(tmp_path) -> list[int]:
    pids = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_each_rank_gets_its_place_and_rank_0s_result_is_returned(launch, tmp_path):
    result = launch(works.tell_place)
    assert (result.iterations, result.run_dir) == (3, "here")
    first, second = places(tmp_path)
    assert first["MASTER_ADDR"] == "127.0.0.1"
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    for rank, place in enumerate((first, second)):
        assert (place["RANK"], place["LOCAL_RANK"]) == (str(rank), str(rank))
        assert (place["WORLD_SIZE"], place["LOCAL_WORLD_SIZE"]) == ("2", "2")
        assert (place["GROUP_RANK"], place["GROUP_WORLD_SIZE"]) == ("0", "1")


def test_a_node_of_several_starts_its_own_ranks(launch, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "connected_nodes", lambda *of_node: contextlib.nullcontext(int))
    result = launch(works.tell_place, nnodes=2, node_rank=1, master_addr="::1", master_port=2345)
    assert result.run_dir == ""
    first, second = places(tmp_path)
    assert (first["RANK"], second["RANK"], second["LOCAL_RANK"]) == ("2", "3", "1")
    assert (first["WORLD_SIZE"], first["LOCAL_WORLD_SIZE"]) == ("4", "2")
    assert (first["GROUP_RANK"], first["GROUP_WORLD_SIZE"]) == ("1", "2")
    assert (first["MASTER_ADDR"], first["MASTER_PORT"]) == ("::1", "2345")


def test_the_environment_is_restored_and_user_variables_are_kept(launch, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("WORLD_SIZE", "16")
    before = dict(os.environ)
    launch(works.tell_place, nproc_per_node=1)
    assert dict(os.environ) == before
    (place,) = places(tmp_path)
    assert (place["OMP_NUM_THREADS"], place["WORLD_SIZE"]) == ("7", "1")


def test_neither_the_launcher_nor_a_rank_imports_a_framework_for_it(tmp_path):
    code = f"""
import sys
import processes_work
from rltrain.config import Placement
from rltrain.builtin.processes import ProcessesLauncher
if __name__ == "__main__":
    folder = {str(tmp_path)!r}
    place = dict(backend="jax", framework="jax", distributed=True, nproc_per_node=1)
    config = Placement(**place, log_root=folder)
    ProcessesLauncher().launch(config, processes_work.tell_place)
    print(sorted({{"jax", "torch", "numpy"}} & set(sys.modules)))
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "PYTHONPATH": paths}
    words = [sys.executable, str(script)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=LIMIT)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    assert places(tmp_path)[0]["heavy"] == []


@pytest.mark.parametrize(
    ("work", "code", "message"),
    [
        (works.raise_, 1, "ValueError: planted"),
        (works.exit_0, 1, "Rank 1 exited with code 0 without an exception."),
        (works.kill_with_helper, 137, "Rank 1 was killed by SIGKILL."),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_first_failing_rank_stops_the_others(launch, tmp_path, work, code, message):
    began = time.monotonic()
    with pytest.raises(RankFailed) as caught:
        launch(work, nproc_per_node=3)
    assert (caught.value.rank, caught.value.exit_code) == (1, code)
    assert message in str(caught.value)
    assert running(tmp_path) == []
    assert work is not works.kill_with_helper or time.monotonic() - began < 19


def test_what_a_rank_refuses_is_a_usage_error(launch):
    with pytest.raises(UsageError, match=r"--num-envs 3: must be even\."):
        launch(works.refuse)


def signal_when_running(tmp_path, *numbers):
    """Signal this process once both ranks run, from a thread: the main one waits in `launch`."""

    def send():
        wait_for(lambda: len(list(tmp_path.glob("*.pid"))) == 2, LIMIT)
        for number in numbers:
            os.kill(os.getpid(), number)
            time.sleep(0.3)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("number", "error", "code"),
    [
        (signal.SIGTERM, RankFailed, 143),
        (signal.SIGHUP, RankFailed, 75),
        (signal.SIGINT, KeyboardInterrupt, None),
    ],
)
def test_a_signal_to_the_launcher_ends_the_ranks(launch, tmp_path, number, error, code):
    before = [signal.getsignal(number) for number in signal.valid_signals()]
    sender = signal_when_running(tmp_path, number)
    with pytest.raises(error) as caught:
        launch(works.wait)
    sender.join()
    assert getattr(caught.value, "exit_code", None) == code
    assert running(tmp_path) == []
    assert [signal.getsignal(number) for number in signal.valid_signals()] == before


@pytest.mark.parametrize(("seconds", "signals"), [(0.5, 1), (10 * LIMIT, 2)])
def test_a_rank_that_does_not_listen_is_killed_and_a_second_signal_kills_at_once(
    launch, tmp_path, monkeypatch, seconds, signals
):
    monkeypatch.setattr("rltrain.builtin.processes.SHUTDOWN_TIMEOUT", seconds)
    sender = signal_when_running(tmp_path, *[signal.SIGTERM] * signals)
    with pytest.raises(RankFailed):
        launch(works.wait_deaf)
    sender.join()
    assert running(tmp_path) == []


def test_an_ignored_signal_stays_ignored(launch, tmp_path, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        sender = signal_when_running(tmp_path, signal.SIGHUP, signal.SIGTERM)
        with pytest.raises(RankFailed) as caught:
            launch(works.wait)
        sender.join()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert caught.value.exit_code == 128 + signal.SIGTERM


def test_it_launches_from_a_thread_too(launch, tmp_path):
    results = []
    thread = threading.Thread(target=lambda: results.append(launch(works.tell_place)))
    thread.start()
    thread.join(LIMIT)
    assert [result.iterations for result in results] == [3]
