"""The environments as rsl_rl sees them: actions, groups, and images of bytes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from messages import says
from rsl_rl.models import CNNModel
from rsl_rl.storage import RolloutStorage
from rsl_rl_stubs import LocalSession, PointEnv, small_agent
from tensordict import TensorDict

from rltrain.errors import UsageError
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_rsl_rl.declare.options import default_agent
from rltrain_rsl_rl.run.env import RslRlEnv
from rltrain_rsl_rl.run.library import RslRlLibrary
from rltrain_rsl_rl.run.spaces import Actions, ByteCNNModel, use_byte_models
from rltrain_rsl_rl.run.upstream import keep_dtypes


def sent(space: Box, outputs: list[float], **options) -> list[float]:
    """Return the action sent to the environment for one environment's output."""
    inner = PointEnv(1, space)
    RslRlEnv(inner, "cpu", **options).step(torch.tensor([outputs]))
    assert inner.actions[0].shape == (1, *space.shape)
    return inner.actions[0].reshape(-1).tolist()


FINITE = Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
HALF = Box(np.array([-np.inf, 0.0], np.float32), np.array([np.inf, np.inf], np.float32))


@pytest.mark.parametrize(
    ("space", "options", "outputs", "actions"),
    [
        (FINITE, {}, [0.0, 0.0], [0.0, 5.0]),
        (FINITE, {}, [0.5, -1.0], [1.0, 0.0]),
        (FINITE, {}, [7.0, -7.0], [2.0, 0.0]),
        # They are not scaled if a bound is infinite.
        (HALF, {}, [7.0, 3.0], [7.0, 3.0]),
        (HALF, {}, [-7.0, -3.0], [-7.0, 0.0]),
        (Box(-np.inf, np.inf, (2,)), {"clip_actions": 2.0}, [7.0, -7.0], [2.0, -2.0]),
        (Box(-1, 1, (2, 1)), {}, [0.5, -0.5], [0.5, -0.5]),
    ],
)
def test_outputs_are_mapped_onto_finite_bounds(space, options, outputs, actions):
    assert sent(space, outputs, **options) == actions


class Scripted(PointEnv):
    """Ends environments on a given schedule."""

    terminated = torch.tensor([False, True, False, True])
    truncated = torch.tensor([False, False, True, True])

    def __init__(self):
        super().__init__(4)

    def step(self, actions):
        observations, rewards, *_ = super().step(actions)
        return observations, rewards.double(), self.terminated, self.truncated, {}


def test_time_outs_are_truncations_without_termination():
    env = RslRlEnv(Scripted(), "cpu")
    observations, rewards, dones, extras = env.step(torch.zeros(4, 1))
    assert extras["time_outs"].tolist() == [False, False, True, False]
    assert dones.tolist() == [0, 1, 1, 1]
    assert dones.dtype == torch.long
    assert rewards.dtype == torch.float32
    assert "log" not in extras
    assert observations["policy"].shape == (4, 2)
    assert env.get_observations() is observations


def test_random_lengths_need_an_environment_that_offers_them(tmp_path):
    agent = small_agent()
    agent["init_at_random_ep_len"] = True
    with says(UsageError):
        RslRlLibrary().rltrain_train(LocalSession(tmp_path, agent))


def test_observations_are_copies_outside_inference_mode():
    inner = PointEnv(2)
    env = RslRlEnv(inner, "cpu")
    with torch.inference_mode():
        first, *_ = env.step(torch.zeros(2, 1))
        kept = first["policy"].clone()
        env.step(torch.ones(2, 1))
    assert torch.equal(first["policy"], kept)
    assert not inner.actions[0].is_inference()
    assert not first["policy"].is_inference()


def test_spaces_of_another_kind_are_refused():
    env = PointEnv()
    env.single_action_space = Discrete(3)
    with says(UsageError):
        RslRlEnv(env, "cpu")
    env = PointEnv()
    env.single_observation_space = Dict({"policy": Discrete(3)})
    with says(UsageError):
        RslRlEnv(env, "cpu")


def test_bounds_are_described_if_one_of_them_is_finite():
    def described(low, high):
        return Actions(Box(np.float32(low), np.float32(high))).described()

    endless = np.inf
    assert set(described([-endless, -endless], [endless, endless])) == {"scale", "offset"}
    assert described([-2, -endless], [2, endless]) == {
        "scale": [2, 1],
        "offset": [0, 0],
        "low": [-2, -endless],
        "high": [2, endless],
    }


IMAGE = ArrayInfo((12, 48, 2), "uint8")


class Seeing(PointEnv):
    """The point, as an image of bytes and as an image of floats."""

    def __init__(self):
        super().__init__(2)
        self.single_observation_space = Dict(
            policy=Box(0, 255, (4, 6, 3), np.uint8), floats=Box(0, 1, (4, 6, 1))
        )

    def _observe(self):
        image = torch.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3).to(torch.uint8)
        return {"policy": image, "floats": image[..., :1] / 255}


def test_images_are_copied_with_channels_first():
    inner = Seeing()
    observations = RslRlEnv(inner, "cpu").get_observations()
    image = inner._observe()["policy"]
    assert torch.equal(observations["policy"], image.permute(0, 3, 1, 2))
    assert observations["policy"].dtype == torch.uint8
    assert torch.equal(observations["floats"], image.permute(0, 3, 1, 2)[:, :1] / 255)


def test_the_model_equals_rsl_rls_on_bytes_divided_by_255():
    images = torch.randint(0, 256, (5, 2, 8, 8), dtype=torch.uint8)
    given = TensorDict({"policy": images, "more": torch.rand(5, 3)}, batch_size=[5])
    groups = {"actor": ["policy", "more"]}
    cnn = {"output_channels": [2], "kernel_size": 3}
    ours, rsl_rls = (
        cls(given, groups, "actor", 1, cnn_cfg=cnn) for cls in (ByteCNNModel, CNNModel)
    )
    rsl_rls.load_state_dict(ours.state_dict())
    floats = given.clone().set("policy", images.float() / 255)
    torch.testing.assert_close(ours(given), rsl_rls(floats))
    torch.testing.assert_close(ours(floats), rsl_rls(floats))


@pytest.mark.parametrize("name", ["CNNModel", "rsl_rl.models:CNNModel"])
def test_it_replaces_rsl_rls_model_and_no_other(name):
    options = {"actor": {"class_name": name}, "critic": {"class_name": "MLPModel"}, "seed": 1}
    use_byte_models(options)
    assert options["actor"]["class_name"] is ByteCNNModel
    assert options["critic"]["class_name"] == "MLPModel"


def test_defaults_use_what_the_task_observes():
    sight = TaskInfo("any", "continuous", 64, observations={"policy": IMAGE})
    agent = default_agent(sight, "ppo")
    assert agent["actor"]["class_name"] == agent["critic"]["class_name"] == "CNNModel"
    assert agent["obs_groups"] == {"actor": ["policy"], "critic": ["policy"]}
    assert not agent["actor"]["obs_normalization"]
    pupil = default_agent(sight, "distillation")
    assert pupil["student"]["class_name"] == pupil["teacher"]["class_name"] == "CNNModel"
    groups = {"policy": ArrayInfo((2,)), "wrist": IMAGE, "critic": IMAGE}
    agent = default_agent(TaskInfo("any", "continuous", 8, observations=groups), "ppo")
    assert agent["obs_groups"] == {"actor": ["policy", "wrist"], "critic": ["policy", "wrist"]}
    assert agent["actor"]["obs_normalization"]
    assert agent["num_steps_per_env"] == 256


def test_the_storage_keeps_bytes():
    observations = RslRlEnv(Seeing(), "cpu").get_observations()
    storage = RolloutStorage("rl", 2, 5, observations, [1])
    keep_dtypes(storage, observations)
    assert storage.observations["policy"].dtype == torch.uint8
    assert storage.observations["policy"].nbytes == 5 * 2 * 4 * 6 * 3
