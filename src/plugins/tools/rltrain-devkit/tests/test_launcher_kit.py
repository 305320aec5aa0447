"""The kit of launchers: a correct one passes, each wrong one fails the test of its fault alone."""

from __future__ import annotations

import pytest

from rltrain_devkit import LauncherConformance

LAUNCHER = """
import multiprocessing, os, socket
from multiprocessing.connection import wait
from rltrain import hookimpl
from rltrain.launch import ask_to_end, ended_by_signal, failure, hang_watch, private_folder
from rltrain.specs import LauncherSpec
from rltrain.nodes import caught_signals


@hookimpl
def rltrain_provides():
    factory = f"{__name__}:Launcher"
    return [LauncherSpec(name="judged", factory=factory, frameworks=("torch",))]


class Launcher:
    def launch(self, config, work):
        # This process imports no framework: forks of it will do.
        fork, size = multiprocessing.get_context("fork"), config.nproc_per_node
        receiver, sender = fork.Pipe(duplex=False)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with private_folder() as reports, caught_signals() as signals:
            ranks = [
                fork.Process(target=run, args=(rank, size, port, sender, config, work, reports))
                for rank in range(size)
            ]
            for rank in ranks:
                rank.start()
            try:
                self.watch(ranks, reports, signals, hang_watch(config, reports))
            finally:
                for rank in ranks:
                    rank.kill()
                    rank.join()
        return receiver.recv()

    def watch(self, ranks, reports, signals, look):
        running = {rank.sentinel: number for number, rank in enumerate(ranks)}
        while running:
            ready = wait([*running, signals.wakeup], 0.5)
            look()
            for number in signals.take():
                if not ask_to_end(reports, number):
                    raise ended_by_signal(number)
            for number in [running.pop(each) for each in ready if isinstance(each, int)]:
                ranks[number].join()
                if code := ranks[number].exitcode:
                    raise failure(reports, number, code)


def run(rank, size, port, sender, config, work, reports):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
    os.environ.update(LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    result = work(config, reports)
    if result is not None:
        sender.send(result)
"""

OF_LAUNCHER = """
from rltrain_devkit import LauncherConformance


class TestJudged(LauncherConformance):
    launcher = "judged"
"""

WRONG = {
    "imports numpy": ("import multiprocessing, os", "import numpy, multiprocessing, os", "light"),
    "gives no port that is free": (
        "return receiver.recv()",
        "del self.busy; return receiver.recv()",
        "every_rank_knows_its_place",
    ),
    "returns another result": (
        "if result is not None:",
        "import dataclasses; result = result and dataclasses.replace(result, iterations=1)\n"
        "    if result is not None:",
        "rank_0s_result_is_returned",
    ),
    "hides the error": (
        "raise failure(reports, number, code)",
        "error = failure(reports, number, code)\n"
        "                    if 'ValueError' in str(error): error = type(error)('a rank failed')\n"
        "                    raise error",
        "a_rank_that_raises_ends_the_run",
    ),
    "does not say who has died": (
        "raise failure(reports, number, code)",
        "raise RuntimeError('gone') if code == 3 else failure(reports, number, code)",
        "a_rank_that_dies_ends_the_run",
    ),
    "raises another error": (
        "raise failure(reports, number, code)",
        "error = failure(reports, number, code)\n"
        "                    raise RuntimeError(str(error)) if code == 2 else error",
        "what_a_rank_refuses_is_a_usage_error",
    ),
    "leaves ranks behind": (
        "for rank in ranks:\n                    rank.kill()",
        "for rank in ranks if 'raises' not in repr(work) else ():\n                    rank.kill()",
        "no_rank_is_left",
    ),
    "ends well after a signal": (
        "raise ended_by_signal(number)",
        "os._exit(0)",
        "a_signal_ends_the_ranks",
    ),
    "does not look for ranks that hang": ("look()", "pass", "a_rank_that_hangs_is_named"),
    "ends ranks at once after a signal": (
        "if not ask_to_end(reports, number):",
        "if True:",
        "sigterm_saves_a_checkpoint",
    ),
}

pytestmark = pytest.mark.slow


class TestProcesses(LauncherConformance):
    launcher = "processes"


def test_a_correct_launcher_passes(judge):
    assert judge.source(LAUNCHER, OF_LAUNCHER) == {}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_launcher_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG[fault]
    assert LAUNCHER.count(old) == 1
    source = LAUNCHER.replace(old, new)
    if "busy" in new:
        source = source.replace(
            'with socket.create_server(("127.0.0.1", 0)) as free:\n            port = free',
            'self.busy = socket.create_server(("127.0.0.1", 0))\n        port = self.busy',
        )
    (failed,) = judge.source(source, OF_LAUNCHER)
    assert expected in failed
