"""Checks in a child process: their answers and their errors are those of the function itself."""

from __future__ import annotations

import pytest

from rltrain.errors import RltrainError
from rltrain.launch.preflight import preflight

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


@pytest.fixture(autouse=True)
def checks(tmp_path, monkeypatch):
    (tmp_path / "some_checks.py").write_text(CHECKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize("in_child", [True, False])
def test_a_check_answers_and_refuses_alike_in_a_child_process(in_child):
    assert preflight("some_checks:answer", 4, in_child=in_child) == {"twice": 8}
    with pytest.raises(RltrainError) as refusal:
        preflight("some_checks:refuse", in_child=in_child)
    assert str(refusal.value) == "there is no driver. On the CPU: --device cpu."


def test_a_fault_of_a_check_is_shown_with_its_traceback():
    with pytest.raises(RltrainError, match=r"some_checks:fail failed:\nTraceback(?s:.*)a fault"):
        preflight("some_checks:fail", in_child=True)
