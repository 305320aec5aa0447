"""Gymnasium's tasks with images, alone and together with vectors; what videos show."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, Sequence, Tuple
from messages import says

from rltrain.errors import UsageError
from rltrain.types import ArrayInfo
from rltrain_devkit import SuiteConformance
from rltrain_gymnasium.plugin import describe
from rltrain_gymnasium.tasks import EMBEDDED, make_task
from rltrain_gymnasium.tasks.base import BLUE, RED

IMAGE, VECTOR = Box(0, 255, (6, 8, 3), np.uint8), Box(-1, 1, (2,))
SEEN, BESIDE = "SeenCount-v0", "SeenCountBesideVector-v0"


class Counting(gymnasium.Env):
    """Shows the number of steps taken in all its observations; ends after eleven."""

    action_space = Discrete(2)

    def __init__(self, space=IMAGE):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = int(self.np_random.integers(5))
        return self._observe(self.observation_space), {}

    def step(self, action):
        self.count += 1 + int(action)
        return self._observe(self.observation_space), float(action), self.count > 11, False, {}

    def _observe(self, space):
        if isinstance(space, Dict):
            return {name: self._observe(part) for name, part in space.spaces.items()}
        return np.full(space.shape, self.count if space.dtype == np.uint8 else 0.5, space.dtype)


GROUPS = Dict(arm=VECTOR, goal=VECTOR, camera=IMAGE)
gymnasium.register(SEEN, Counting, max_episode_steps=7)
gymnasium.register(BESIDE, Counting, max_episode_steps=7, kwargs={"space": GROUPS})


def make(task, renders=False):
    kit = SuiteConformance()
    kit.suite, kit.task, kit.num_envs = "gymnasium", task, 3
    return kit.make({}, renders)


class TestImages(SuiteConformance):
    suite = "gymnasium"
    task = SEEN


class TestImagesBesideVectors(SuiteConformance):
    suite = "gymnasium"
    task = BESIDE


class TestImagesOfJax(SuiteConformance):
    suite = "gymnasium"
    task = BESIDE
    framework = "jax"


def test_an_image_of_floats_becomes_float32():
    space = Box(0.0, 1.0, (6, 8, 3), np.float64)
    assert seen(space) == {"policy": ArrayInfo((6, 8, 3), "float32")}
    gymnasium.register("SeenFloats-v0", Counting, kwargs={"space": space})
    try:
        env = make("SeenFloats-v0")
    finally:
        del gymnasium.registry["SeenFloats-v0"]
    assert env.single_observation_space == Box(0.0, 1.0, (6, 8, 3), np.float32)


def test_everything_but_images_is_flattened_into_the_policy_group():
    described = describe(BESIDE, {}).observations
    assert described == {"policy": ArrayInfo((4,)), "camera": ArrayInfo((6, 8, 3), "uint8")}
    env = make(BESIDE)
    env.reset(seed=0)
    finals = set()
    for _ in range(9):
        observations, _, _, _, info = env.step(torch.ones(3))
        assert observations["policy"].dtype == torch.float32
        assert observations["camera"].dtype == torch.uint8
        ended = info["_final_obs"]
        finals |= set(info["final_obs"]["camera"][ended][:, 0, 0, 0].tolist())
    assert finals
    assert finals <= {12, 13}


def seen(space):
    return describe_space(space).observations


def describe_space(space):
    name = "SeenAnything-v0"
    gymnasium.register(name, Counting, kwargs={"space": space})
    try:
        return describe(name, {})
    finally:
        del gymnasium.registry[name]


def test_the_only_image_of_a_dict_is_the_policy_group():
    assert list(seen(Dict(eye=IMAGE))) == ["policy"]
    assert list(seen(Dict(policy=IMAGE, eye=IMAGE))) == ["eye", "policy"]


SIX = Box(-1, 1, (6,))


@pytest.mark.parametrize(
    ("space", "groups"),
    [
        (Dict(policy=VECTOR, critic=SIX), {"policy": (2,), "critic": (6,)}),
        (Dict(actor=VECTOR, critic=SIX), {"policy": (2,), "critic": (6,)}),
        (Dict(state=VECTOR, privileged_state=SIX), {"policy": (2,), "critic": (6,)}),
        (Dict(arm=VECTOR, goal=Discrete(3), critic_obs=SIX), {"policy": (5,), "critic": (6,)}),
        (
            Dict(policy=VECTOR, critic=Dict(arm=VECTOR, mass=SIX), teacher=SIX),
            {"policy": (2,), "critic": (8,), "teacher": (6,)},
        ),
        (Dict(camera=IMAGE, critic=SIX), {"policy": (6, 8, 3), "critic": (6,)}),
        (
            Dict(camera=IMAGE, arm=VECTOR, critic=IMAGE),
            {"camera": (6, 8, 3), "policy": (2,), "critic": (6, 8, 3)},
        ),
        (Dict(arm=VECTOR, goal=SIX), {"policy": (8,)}),
        (Dict(critic=VECTOR, privileged=SIX), {"policy": (8,)}),  # There is nothing else to see.
    ],
)
def test_what_a_critic_sees_does_not_reach_the_policy(space, groups):
    info = describe_space(space)
    assert {name: group.shape for name, group in info.observations.items()} == groups


def test_observations_go_to_their_groups():
    gymnasium.register("SeenApart-v0", Apart)
    try:
        env = make("SeenApart-v0")
    finally:
        del gymnasium.registry["SeenApart-v0"]
    observations, _ = env.reset(seed=0)
    assert list(observations) == list(env.single_observation_space) == ["critic", "policy"]
    assert observations["policy"].tolist() == [[1, 1]] * 3
    assert observations["critic"].tolist() == [[2, 2, 2, 2, 2, 2]] * 3


class Apart(Counting):
    def __init__(self):
        super().__init__(Dict(state=Box(0, 9, (2,)), privileged_state=Box(0, 9, (6,))))

    def _observe(self, space):
        return {"state": np.ones(2), "privileged_state": np.full(6, 2.0)}


@pytest.mark.parametrize(
    "space",
    [
        Dict(arm=VECTOR, critic=IMAGE, privileged=SIX),
        Dict(left=IMAGE, right=IMAGE),
        Dict(policy=IMAGE, arm=VECTOR),
        Box(0, 255, (6, 8, 3), np.int32),
        Box(0.0, 1.0, (4, 48, 64)),
        Box(0, 255, (3, 48, 64), np.uint8),
        Box(0, 255, (4, 6, 8, 3), np.uint8),
        Tuple([IMAGE, VECTOR]),
        Dict(eye=IMAGE, words=Sequence(VECTOR)),
        Dict(eye=IMAGE, arm=Dict(wrist=IMAGE)),
    ],
)
def test_images_in_an_unsupported_layout_are_refused(space):
    with says(UsageError):
        describe_space(space)


def middle(picture, color):
    """Return the center of all pixels of a color: row and column."""
    return np.argwhere((picture == color).all(-1)).mean(0)


@pytest.mark.parametrize("task", EMBEDDED)
def test_embedded_tasks_are_rendered(task):
    env = make(task, renders=True)
    env.reset(seed=0)
    (picture,) = env.render()
    assert (picture.dtype, picture.shape) == (np.uint8, (320, 480, 3))
    assert (picture == RED).all(-1).any()


def test_the_frame_of_a_cart_pole_shows_its_state():
    task = make_task("rltrain/CartPole-v1", {})
    left, right = (task.picture([x, 0.0, angle, 0.0]) for x, angle in ((-1, 0.2), (1, -0.2)))
    np.testing.assert_array_equal(left, right[:, ::-1])
    row, column = middle(left, BLUE)
    # The cart is left of the center, and the pole leans to the right.
    assert middle(left, RED)[1] - column > 5
    assert column == pytest.approx(240 - 480 / (2.2 * 2.4), abs=1.5)
    assert middle(left, RED)[0] < row


def test_mujoco_tasks_offer_their_scene():
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio", reason="needs gymnasium[mujoco]")
    env = make("InvertedPendulum-v5", renders=True)
    observations, _ = env.reset(seed=0)
    for index in (2, 0):
        model, data = env.mujoco_scene(index)
        assert model.nq == 2
        np.testing.assert_allclose(data.qpos, observations[index, :2], rtol=1e-6)
    assert make("CartPole-v1", renders=True).mujoco_scene is None


def test_only_the_first_gymnasium_environment_is_rendered():
    pytest.importorskip("pygame")
    env = make("CartPole-v1", renders=True)
    assert [one.render_mode for one in env._env.envs] == ["rgb_array", None, None]
    env.reset(seed=0)
    (frame,) = env.render()
    assert (frame.dtype, frame.shape) == (np.uint8, (400, 600, 3))
    env.close()


class Blind(gymnasium.Env):
    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)


class Windowed(Blind):
    metadata = {"render_modes": ["human"]}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode


@pytest.mark.parametrize("kind", [Blind, Windowed])
def test_a_task_that_cannot_render_is_refused(kind):
    gymnasium.register("Undrawn-v0", kind)
    try:
        with says(UsageError):
            make("Undrawn-v0", renders=True)
    finally:
        del gymnasium.registry["Undrawn-v0"]
