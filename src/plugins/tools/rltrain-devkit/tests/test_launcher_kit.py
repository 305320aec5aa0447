"""The kit of launchers: the template passes, each wrong one fails the test of its fault alone."""

from __future__ import annotations

import pytest

from rltrain_devkit import LauncherConformance

FREE = 'with socket.create_server(("127.0.0.1", 0)) as free:'
FAILS = "raise failure(reports, rank, ranks[rank].exitcode or 1)"
ERROR = FAILS.replace("raise", "error =")
IF = "\n                if"
RECEIVED = "result: TrainResult = receiver.recv()"
ALIVE = "in filter(BaseProcess.is_alive, ranks):"

WRONG = {
    "imports numpy": (
        "from collections.abc import Iterable",
        "import numpy; from collections.abc import Iterable",
        "light",
    ),
    "gives no port that is free": (
        FREE,
        'free = socket.create_server(("127.0.0.1", 0))\n            if True:',
        "every_rank_knows_its_place",
    ),
    "returns another result": (
        RECEIVED,
        "import dataclasses; result = dataclasses.replace(receiver.recv(), iterations=1)",
        "rank_0s_result_is_returned",
    ),
    "hides the error": (
        FAILS,
        f"{ERROR}{IF} 'ValueError' in str(error): error = type(error)('a rank failed')"
        f"{IF} error: raise error",
        "a_rank_that_raises_ends_the_run",
    ),
    "does not say who has died": (
        FAILS,
        FAILS.replace("failure", "RuntimeError('gone') if ranks[rank].exitcode == 3 else failure"),
        "a_rank_that_dies_ends_the_run",
    ),
    "raises another error": (
        FAILS,
        f"{ERROR}; raise RuntimeError(str(error)) if ranks[rank].exitcode == 2 else error",
        "what_a_rank_refuses_is_a_usage_error",
    ),
    "leaves ranks behind": (
        ALIVE,
        ALIVE.replace("in ", "in () if 'raises' in repr(work) else "),
        "no_rank_is_left",
    ),
    "ends well after a signal": (
        "raise ended_by_signal(number)",
        "os._exit(0)",
        "a_signal_ends_the_ranks",
    ),
    "does not look for ranks that hang": ("check()  #", "pass  #", "a_rank_that_hangs_is_named"),
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
    assert judge("launcher") == {}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_launcher_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG[fault]
    (failed,) = judge("launcher", (old, new))
    assert expected in failed
