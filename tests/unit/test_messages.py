"""Messages are kept whole, of tests that are there, and another one fails its test."""

from __future__ import annotations

from pathlib import Path

import messages
import pytest
from messages import check_said, says


def test_each_kept_message_is_of_a_test_that_is_there():
    assert [test for test in messages.kept() if not messages.is_there(test)] == []
    assert list(messages.kept()) == sorted(messages.kept(), reverse=True)


def test_what_differs_between_machines_is_named_instead(tmp_path):
    with says(ValueError, PORT=4321) as caught:
        raise ValueError(f"{tmp_path}/2026-01-02_03-04-05_2 at 4321")
    assert str(caught.value).startswith(str(tmp_path))
    check_said("said twice")
    check_said("said twice")


def test_another_message_fails_and_can_be_taken(tmp_path, monkeypatch):
    test = f"tests/unit/{Path(__file__).name}::test_another_message_fails_and_can_be_taken"
    kept = {test: "old", f"{test}[b]": "new", "gone": "x"}
    with monkeypatch.context() as patch:
        patch.setattr(messages, "FILE", tmp_path / "messages.txt")
        patch.setattr(messages, "NEW", tmp_path / "new")
        patch.setattr(messages, "kept", lambda: kept)
        with pytest.raises(pytest.fail.Exception, match="- old"):
            messages.check_messages(test, tmp_path)
        patch.setattr(messages, "said", ["new"])
        with pytest.raises(pytest.fail.Exception, match=r"(?s)- old\n.*\+ new\n"):
            messages.check_messages(test, tmp_path)
        messages.take()
        assert messages.FILE.read_text() == f"[{test}]\n[{test}[b]]\nnew\n"
