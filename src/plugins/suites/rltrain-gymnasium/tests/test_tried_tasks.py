"""A user's task is reset and stepped once when it is described: its mistakes are named then."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from messages import check_said

from rltrain.errors import UsageError
from rltrain_gymnasium import single
from rltrain_gymnasium.plugin import describe

SPACE = Box(-1.0, 1.0, (2,), np.float32)
HERE = np.zeros(2, np.float32)
NUMPYS = np.bool_(True)
IMAGE = Box(0, 255, (8, 8, 3), np.uint8)


class Task(gymnasium.Env):
    """Returns from its reset and its step what a test gives it."""

    closed = 0

    def __init__(self, space, first, then, action):
        self.observation_space, self.action_space = space, action or Discrete(2)
        self.first, self.then = first, then

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.first

    def step(self, action):
        return self.then

    def close(self):
        Task.closed += 1


class Raising(Task):
    def step(self, action):
        return 1 / 0


class Leaving(Task):
    def step(self, action):
        sys.exit(0)


class Unseeded(Task):
    def reset(self):
        return self.first


class Keeping(Task):
    """Keeps its actions."""

    actions: list = []

    def step(self, action):
        Keeping.actions.append(float(action[0]))
        return self.then


class Unmade(Task):
    def __init__(self, **given):
        raise KeyError("robot.xml")


def line(task):
    return f"{__file__}:{task.step.__code__.co_firstlineno + 1}"


@pytest.fixture
def tried():
    """Describe a task with a trial: a correct one, but for what the test gives."""

    def describe_it(
        task=Task,
        space=SPACE,
        here=HERE,
        first=None,
        then=None,
        action=None,
        reward=1.0,
        terminated=False,
        truncated=NUMPYS,
        info=None,
    ):
        kwargs = {
            "space": space,
            "first": (here, {}) if first is None else first,
            "then": (here, reward, terminated, truncated, {} if info is None else info)
            if then is None
            else then,
            "action": action,
        }
        gymnasium.register("Tried-v0", entry_point=task, kwargs=kwargs, max_episode_steps=9)
        return describe("Tried-v0", {})

    yield describe_it
    gymnasium.registry.pop("Tried-v0", None)


def refusal(tried, **given):
    with pytest.raises(UsageError) as refused:
        tried(**given)
    message = str(refused.value)
    assert "\n" not in message
    assert message.startswith("The task 'Tried-v0': ")
    return message.removeprefix("The task 'Tried-v0': ")


@pytest.mark.parametrize(
    "fine",
    [
        {},
        {"here": np.zeros(2)},  # float64: cast to the space's float32.
        {"here": [0.0, 0.0]},
        {"here": HERE + 7},  # Bounds are not looked at.
        {"reward": np.float64(1)},
        {"reward": 1, "info": {"contacts": np.zeros(3)}},
        {"reward": torch.tensor(1.0)},
        {"terminated": 0, "truncated": np.int64(1)},
        {"space": Dict(arm=SPACE, speed=Box(-1, 1, (1,))), "here": {"arm": HERE, "speed": 0.5}},
        {"reward": np.array(1.0), "terminated": np.array(True)},
        {"space": Discrete(3), "here": np.int64(2)},
        {"space": IMAGE, "here": np.zeros((8, 8, 3), np.uint8)},
        {
            "space": Dict(arm=SPACE, goal=Tuple([Discrete(2), SPACE])),
            "here": {"arm": HERE, "goal": (1, HERE), "more": None},
        },
    ],
)
def test_a_correct_task_is_described(tried, fine):
    before = Task.closed
    assert tried(**fine).max_episode_length == 9
    assert Task.closed == before + 1


TWO = Dict(arm=SPACE, goal=Discrete(2))


@pytest.mark.parametrize(
    "given",
    [
        {"then": (HERE, 1.0, False, {})},
        {"then": HERE},
        {"first": HERE},
        {"task": Unseeded},
        {"first": (np.zeros(3), {})},
        {"then": (np.zeros((1, 2)), 1.0, False, False, {})},
        {"space": IMAGE, "here": np.zeros((8, 8, 3))},
        {"here": [[0.0], [0.0, 1.0]]},
        {"space": TWO, "here": {"arm": HERE}},
        {"space": TWO, "here": {"arm": HERE, "goal": 2}},
        {"space": Tuple([SPACE, SPACE]), "here": (HERE,)},
        {"reward": np.ones(1)},
        {"reward": None},
        {"terminated": None},
        {"truncated": np.zeros(1, bool)},
        {"info": [1]},
        {"task": Leaving},
        {"task": Raising},
    ],
)
def test_a_mistake_is_named_in_a_line(tried, given):
    before = Task.closed
    check_said(refusal(tried, **given))
    assert Task.closed == before + 1


def test_a_trial_is_the_same_each_time_and_leaves_the_spaces_generator_as_it_was(tried):
    action = Box(-1.0, 1.0, (1,))
    action.seed(3)
    before = action.np_random.bit_generator.state
    for _ in range(2):
        tried(task=Keeping, action=action)
        del gymnasium.registry["Tried-v0"]
    assert Keeping.actions[0] == Keeping.actions[1]
    assert action.np_random.bit_generator.state == before


def test_only_tasks_that_are_not_gymnasiums_own_are_tried(monkeypatch):
    names = []
    monkeypatch.setattr(single, "try_out", lambda task, env: names.append(task))
    for task in ("CartPole-v1", "gymnasium.envs:Pendulum-v1"):
        describe(task, {})
    assert names == []
    gymnasium.register("Ours-v0", "gymnasium.envs.classic_control:CartPoleEnv")
    gymnasium.register("Ours-v1", lambda: gymnasium.make("CartPole-v1"))
    try:
        describe("Ours-v0", {})  # A class of Gymnasium's, whatever its name.
        describe("Ours-v1", {})
    finally:
        del gymnasium.registry["Ours-v0"], gymnasium.registry["Ours-v1"]
    assert names == ["Ours-v1"]


def test_a_task_that_cannot_be_made_is_named_with_its_line(tried):
    with pytest.raises(UsageError, match=r"^The task 'Tried-v0' cannot be made: ") as refused:
        tried(task=Unmade)
    place = f"{__file__}:{Unmade.__init__.__code__.co_firstlineno + 1}"
    assert str(refused.value).endswith(f": KeyError: 'robot.xml' ({place})")
