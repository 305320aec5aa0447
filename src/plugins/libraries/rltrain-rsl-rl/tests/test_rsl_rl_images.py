"""Byte images: stored unchanged by rsl_rl, divided by 255 where a network reads them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from rsl_rl.models import CNNModel
from rsl_rl.storage import RolloutStorage
from rsl_rl_stubs import PointEnv
from tensordict import TensorDict

from rltrain.types import ArrayInfo, TaskInfo
from rltrain_rsl_rl.declare.options import default_agent
from rltrain_rsl_rl.run.env import RslRlEnv
from rltrain_rsl_rl.run.spaces import ByteCNNModel, use_byte_models
from rltrain_rsl_rl.run.upstream import keep_dtypes

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
