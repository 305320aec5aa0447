"""What rltrain answers to lines of other programs that it refuses, and to slips in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import check_answers


@pytest.mark.parametrize("program", ["isaaclab", "mjlab"])
def test_mistakes_are_answered_as_written(typed, program):
    check_answers(Path(__file__).with_name(f"answers-{program}.txt"), typed)
