"""A copy of a rank that its task makes by `os.fork` does nothing that is the rank's own."""

from __future__ import annotations

import os

import pytest

from rltrain.ranks.folders import private_folder
from rltrain.ranks.processes import without_copies
from rltrain.ranks.pulse import PulseWriter


def during():
    return PulseWriter().during("stepping the environment")


@pytest.mark.parametrize("context", [without_copies, during])
@pytest.mark.parametrize(
    ("leave", "status"),
    [
        (lambda: exit(3), 3),
        (lambda: exit(0), 0),
        (lambda: exit("text"), 1),
        (lambda: 1 / 0, 1),
        (lambda: None, 0),
    ],
)
def test_a_copy_ends_where_it_would_leave(context, leave, status, capfd):
    try:
        with private_folder() as folder:
            with context():
                pid = os.fork()
                if pid == 0:
                    leave()
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status
            assert folder.exists()
    except BaseException:
        if pid == 0:
            os._exit(99)
        raise
    assert status or "Traceback" not in capfd.readouterr().err


def test_a_copy_that_leaves_a_private_folder_keeps_it():
    with private_folder() as folder:
        pid = 0
        try:
            with private_folder() as inner:
                pid = os.fork()
        finally:
            if pid == 0:
                os._exit(7)
        os.waitpid(pid, 0)
        assert folder.exists()
    assert not inner.exists()
