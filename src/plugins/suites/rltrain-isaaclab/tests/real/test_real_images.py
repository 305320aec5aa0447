"""Images of the cart-pole's cameras: what the suite makes of them, and that libraries learn."""

from __future__ import annotations

import pytest

from rltrain.testing import FakeWorld
from rltrain.types import ArrayInfo
from rltrain_isaaclab.plugin import describe

DIRECT, MANAGED = "Isaac-Cartpole-Camera-Direct", "Isaac-Cartpole-Camera"


@pytest.mark.parametrize(
    ("task", "preset", "channels"),
    [
        (DIRECT, "default", 2 * 3),
        (DIRECT, "depth", 2 * 1),
        (DIRECT, "semantic_segmentation", 2 * 4),
        (MANAGED, "albedo", 2 * 3),
        (MANAGED, "depth", 2 * 1),
    ],
)
def test_stacked_frames_have_their_channels_last(make, task, preset, channels):
    import torch

    env = make(task, presets=preset)
    assert env.single_observation_space["policy"].shape == (96, 96, channels)
    assert env.single_observation_space["critic"].shape == (4,)
    env.reset(seed=1)
    image = env.step(torch.zeros(env.action_space.shape))[0]["policy"]
    assert image.shape == (4, 96, 96, channels)
    raw = env.obs_buf["policy"]
    assert raw.shape == (4, channels, 96, 96)
    assert torch.equal(image, raw.movedim(1, -1))
    assert image.std() > 0


@pytest.mark.parametrize("task", [DIRECT, MANAGED])
def test_images_are_described(task):
    assert describe(task, {}).observations == {"policy": ArrayInfo((96, 96, 6))}
    depth = {"presets": "depth", "scene": {"tiled_camera": {"width": 64}}}
    assert describe(task, depth).observations == {"policy": ArrayInfo((96, 64, 2))}


@pytest.mark.slow
@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
@pytest.mark.parametrize(
    ("task", "preset"),
    [
        (DIRECT, "default"),
        (DIRECT, "depth"),
        (DIRECT, "semantic_segmentation"),
        (MANAGED, "default"),
        (MANAGED, "albedo"),
    ],
)
def test_libraries_learn_from_cameras(library, task, preset, short, tmp_path):
    pytest.importorskip(library)
    (run,) = FakeWorld(1).train(
        library=library,
        task=task,
        env={"presets": preset},
        num_envs=4,
        max_iterations=1,
        agent=short[library],
        log_root=str(tmp_path),
    )
    assert run.result.iterations == 1
    channels = 2 * {"depth": 1, "semantic_segmentation": 4}.get(preset, 3)
    assert any(x.dim() == 4 and x.shape[1] == channels for x in run.state().values())
