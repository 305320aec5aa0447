"""Every element of every tensor is compared, by the tensor's own scale."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from judged import MULTIPLE, TOLERANCE, check_as_one

from rltrain_devkit.as_one.alike import NOT_COMPARED, OF_ONES, beyond, differences, is_compared

PAGE = Path(__file__).parents[2] / "docs" / "learning-as-one.md"
DRAW = np.random.default_rng(3)
RUN = [
    {
        "weight": DRAW.normal(size=(50, 20)),
        "bias": DRAW.normal(size=20) * 3e-4,
        "optimizer 0 exp_avg_sq 0": DRAW.random((50, 20)) * 1e-9,
        "optimizer 0 learning rate 0": np.float64(1e-5 * 1.5**iteration),
        "optimizer 0 step 0": np.float32(3 * iteration),
        "normalizer.running_mean": DRAW.normal(size=4) * (iteration - 1),
        "normalizer.current_count": np.float64(1e7 * iteration),
        "recorded frames": np.float64(1e9 * iteration),
        "recorded info/last_lr": np.float64(2e-4),
        "recorded losses/a_loss": np.float64(2e-3),
        "recorded losses/c_loss": np.float64(0.02),
    }
    for iteration in (1, 2, 3)
]
RATE = "optimizer 0 learning rate 0"
ONE_ELEMENT = np.zeros((50, 20))
ONE_ELEMENT[7, 11] = 1e-3


class Known:
    def __init__(self, states):
        self.states, self.last = states, states[-1]


def changed(name, change, at=-1):
    states = [dict(state) for state in RUN]
    states[at][name] = change(states[at][name])
    return Known(states)


FAULTS = {
    "a second moment that is 1 % off": ("optimizer 0 exp_avg_sq 0", lambda x: x * 1.01),
    "a learning rate one adaptive step off": ("optimizer 0 learning rate 0", lambda x: x * 1.5),
    "a learning rate in its last bit": ("optimizer 0 learning rate 0", lambda x: x * (1 + 3e-16)),
    "one more step": ("optimizer 0 step 0", lambda x: x + 1),
    "one more row": ("normalizer.current_count", lambda x: x + 1),
    "one more frame": ("recorded frames", lambda x: x + 1),
    "a recorded learning rate": ("recorded info/last_lr", lambda x: x * (1 + 1e-6)),
    "one element of a thousand": ("weight", lambda x: x + ONE_ELEMENT),
    "a bias that began at 0": ("bias", lambda x: x * 1.01),
    "a loss": ("recorded losses/c_loss", lambda x: x * 1.0001),
    "a loss of terms that cancel": ("recorded losses/a_loss", lambda x: x * 1.01),
    "no number": ("weight", lambda x: x + np.where(ONE_ELEMENT, np.nan, 0)),
}


@pytest.mark.parametrize("at", [0, -1], ids=["first iteration", "last"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_in_every_iteration(fault, at):
    name, change = FAULTS[fault]
    found = differences(changed(name, change, at).states, RUN)
    assert set(beyond(found, TOLERANCE)) == {name}


@pytest.mark.parametrize("name", [name for name in RUN[0] if "weight" in name or "loss" in name])
def test_rounding_is_not_a_fault(name):
    check_as_one([changed(name, lambda x: x + 1e-7)] * 2, Known(RUN))


class Drifts:
    """Controls that drift so far, in one tensor."""

    def __init__(self, name, by, *, rate=1.0, float64=None):
        self.name, self.by, self.rate, self.float64 = name, by, rate, float64

    def control(self, seed):
        states = changed(self.name, lambda x: x + self.by).states
        states[-1][RATE] = RUN[-1][RATE] * self.rate
        return Known(states)

    def in_float64(self):
        return self.float64


def judged(by, again, name="weight"):
    check_as_one([changed(name, lambda x: x + by)] * 2, Known(RUN), again=again)


GONE = Drifts("bias", 0.0, float64=([Known(RUN)], Known(RUN)))
STAYS = Drifts("bias", 0.0, float64=([changed("weight", lambda x: x + 1e-8)], Known(RUN)))


def test_ranks_may_be_as_far_off_as_a_control_and_what_is_gone_in_float64_was_rounding():
    judged(2 * ONE_ELEMENT, Drifts("weight", ONE_ELEMENT))
    judged(ONE_ELEMENT, GONE)


@pytest.mark.parametrize(
    ("name", "by", "again"),
    [
        ("weight", ONE_ELEMENT, None),
        ("weight", ONE_ELEMENT, Drifts("weight", ONE_ELEMENT / 10)),  # Ten times its drift.
        ("weight", ONE_ELEMENT, Drifts("bias", 1.0)),
        ("weight", ONE_ELEMENT, Drifts("weight", ONE_ELEMENT, rate=1.5)),
        ("weight", ONE_ELEMENT, STAYS),
        ("weight", 10 * ONE_ELEMENT, GONE),
        (RATE, RUN[-1][RATE] / 2, Drifts("weight", 1.0, rate=1.5)),  # It has no control.
    ],
)
def test_nothing_else_excuses(name, by, again):
    assert MULTIPLE < 10
    with pytest.raises(AssertionError, match=name):
        judged(by, again, name)


def test_missing_tensors_and_iterations_are_found():
    less = [{name: x for name, x in state.items() if name != "bias"} for state in RUN]
    for states in (less, RUN[:-1]):
        with pytest.raises(AssertionError):
            differences(states, RUN)


def test_the_page_lists_what_is_not_compared_and_what_has_another_scale():
    page = PAGE.read_text()
    listed = dict(re.findall(r"^\| `([^`]+)` \| not compared: (.+) \|$", page, re.MULTILINE))
    assert listed == NOT_COMPARED
    (others,) = re.findall(r"^\| (.+) \| compared by a scale of at least 1: ", page, re.MULTILINE)
    assert tuple(re.findall(r"`([^`]+)`", others)) == OF_ONES
    assert not is_compared("time/fps")
    assert not is_compared("Performance / update (ms)")
    assert is_compared("losses/c_loss")
