"""What is before a rank works: checks in a child process, scripts imported again, its processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys

import pytest
from messages import check_said

from rltrain.config import Placement
from rltrain.errors import RltrainError
from rltrain.launch.preflight import preflight
from rltrain.ranks.guarded import NO_GUARD, UNGUARDED
from rltrain.ranks.signals import OF_SCHEDULERS
from rltrain.ranks.world import SAFE_PATH
from rltrain.run import worker
from rltrain.run.worker import run_launched
from rltrain.testing import make_config
from rltrain.types import World


@pytest.fixture
def launched():
    """Run a rank here; later tests, and what they start, handle signals as before."""
    numbers = (signal.SIGTERM, *OF_SCHEDULERS)
    before = {number: signal.getsignal(number) for number in numbers}
    yield run_launched
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_task_starts_processes_in_a_rank_as_it_does_alone(launched, monkeypatch, tmp_path):
    """The method that multiprocessing fixed when it started the rank is not the task's."""
    for name, value in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_WORLD_SIZE", 1)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv(*SAFE_PATH)
    found = []

    def work(config, world, log):
        found.append(multiprocessing.get_start_method(allow_none=True))
        found.append(os.environ.get(SAFE_PATH[0]))

    before = multiprocessing.get_start_method(True)
    multiprocessing.set_start_method("forkserver", force=True)
    try:
        launched(Placement(backend="gloo", device_kind="cpu"), str(tmp_path), work)
    finally:
        multiprocessing.set_start_method(before, force=True)
    assert found == [None, None]


@pytest.mark.parametrize(
    ("asked", "shown"), [(None, []), ("all", [0, 1, 2, 3]), ((1,), [1, 3]), ((0, 1), [0, 1, 2, 3])]
)
def test_ranks_that_are_shown_are_counted_on_their_node(asked, shown):
    # With torchrun's --virtual-local-rank, LOCAL_RANK is 0 for all.
    worlds = [World(rank, 0, rank // 2, 4, 2, 2) for rank in range(4)]
    config = make_config(show_ranks=asked)
    assert [world.rank for world in worlds if worker.is_shown(config, world)] == shown


SCRIPT = """
import multiprocessing, sys, rltrain
method, distributed = sys.argv[1:]
if __name__ != "__main__":
    rltrain.train(library="none", distributed=distributed == "True")
process = multiprocessing.get_context(method).Process(target=print, args=("it has started",))
process.start()
process.join()
print(process.exitcode)
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("distributed", [True, False])
def test_a_script_is_not_trained_with_while_it_is_imported_again(tmp_path, method, distributed):
    script = tmp_path / "unguarded.py"
    script.write_text(SCRIPT)
    words = [sys.executable, str(script), method, str(distributed)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if distributed:  # A rank: its launcher says why.
        assert (ran.stdout, ran.stderr) == (f"{UNGUARDED}\n", "")
    else:
        assert ran.stdout == "1\n"
        assert ran.stderr.endswith(f"rltrain.errors.UsageError: {NO_GUARD}\n")


CHECKS = """
from rltrain.errors import RltrainError

def answer(number):
    print("what the check prints is not its answer")
    return {"twice": 2 * number}

def refuse():
    raise RltrainError("there is no driver. On the CPU: --device cpu.")

def fail():
    raise OSError("a fault")
"""


@pytest.fixture
def checks(tmp_path, monkeypatch):
    (tmp_path / "some_checks.py").write_text(CHECKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("in_child", [True, False])
def test_a_check_answers_and_refuses_alike_in_a_child_process(checks, in_child):
    assert preflight("some_checks:answer", 4, in_child=in_child) == {"twice": 8}
    with pytest.raises(RltrainError) as refusal:
        preflight("some_checks:refuse", in_child=in_child)
    check_said(str(refusal.value))


def test_a_fault_of_a_check_is_shown_with_its_traceback(checks):
    with pytest.raises(RltrainError, match=r"some_checks:fail failed:\nTraceback(?s:.*)a fault"):
        preflight("some_checks:fail", in_child=True)
