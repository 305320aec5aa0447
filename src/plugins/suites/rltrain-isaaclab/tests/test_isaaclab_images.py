"""Which images have their channels first, and what is known of them before a task is made."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Tuple

from rltrain_isaaclab.images import observed, with_channels_last, with_channels_moved


def task(*sizes, **given):
    cameras = {
        f"camera_{i}": SimpleNamespace(data_types=["rgb"], height=height, width=width)
        for i, (height, width) in enumerate(sizes)
    }
    return SimpleNamespace(scene=SimpleNamespace(num_envs=2, **cameras), **given)


def box(*shape):
    return Box(-np.inf, np.inf, shape)


@pytest.mark.parametrize(
    ("shape", "sizes", "last"),
    [
        ((3, 36, 48), [(36, 48)], (36, 48, 3)),
        ((36, 48, 3), [(36, 48)], (36, 48, 3)),
        ((64, 16, 24), [(48, 48), (16, 24)], (16, 24, 64)),  # More channels than pixels in a row.
        ((16, 24, 64), [(16, 24)], (16, 24, 64)),
        ((6, 40, 40), [(96, 96)], (40, 40, 6)),  # Cut out of the camera's image.
        ((40, 40, 8), [], (40, 40, 8)),
        ((48,), [(36, 48)], (48,)),
    ],
)
def test_channels_are_found_by_the_size_of_cameras(shape, sizes, last):
    assert with_channels_last(box(*shape), task(*sizes)).shape == last


def test_the_camera_may_stand_beside_the_scene_or_cast_rays():
    rays = SimpleNamespace(height=16, width=24)
    caster = SimpleNamespace(data_types=["depth"], pattern_cfg=rays)
    assert with_channels_last(box(64, 16, 24), task(caster=caster)).shape == (16, 24, 64)


def test_images_are_moved_wherever_they_are():
    given = Dict(policy=Tuple([box(6, 9, 12), box(2)]), critic=box(4), depth=box(9, 12, 1))
    wanted = with_channels_last(given, task((9, 12)))
    image, vector, depth = torch.rand(2, 6, 9, 12), torch.rand(2, 2), torch.rand(2, 9, 12, 1)
    observations = {"policy": (image, vector), "critic": vector, "depth": depth, "other": vector}
    moved = with_channels_moved(observations, given, wanted)
    assert torch.equal(moved["policy"][0], image.permute(0, 2, 3, 1))
    assert moved["policy"][1] is vector
    assert moved["depth"] is depth
    assert set(moved) == set(given)


def test_what_is_known_before_a_task_is_made():
    assert observed(task((96, 64), observation_space=[96, 64, 3])) == {"policy": (96, 64, 3)}
    stacked = task((96, 64), observation_space=[3, 96, 96], frame_stack=2, state_space=4)
    assert observed(stacked) == {"policy": (96, 64, 6)}
    # A space is taken as it is; only a list is one frame's.
    whole = task((96, 64), observation_space=box(96, 64, 3), frame_stack=2, state_space=0)
    assert observed(whole) == {"policy": (96, 64, 3)}
    for space in (48, [48], {3}, box(48), Dict(policy=box(96, 64, 3)), {"camera": [96, 64, 3]}):
        assert observed(task((96, 64), observation_space=space)) is None
    assert observed(task((96, 64))) is None


class ImageTerm:
    default_data_type = "rgb"


@pytest.mark.parametrize(
    ("func", "params", "shape"),
    [
        (ImageTerm, {}, (96, 64, 3)),
        (ImageTerm, {"frame_stack": 2, "channel_first": True}, (96, 64, 6)),
        (ImageTerm, {"data_type": "depth"}, (96, 64, 1)),
        (ImageTerm, {"data_type": "distance_to_camera", "frame_stack": 3}, (96, 64, 3)),
        (ImageTerm, {"data_type": "semantic_segmentation"}, (96, 64, 4)),
        (ImageTerm, {"data_type": "instance_segmentation"}, (96, 64, 1)),
        (print, {"data_type": "rgb"}, None),  # Computes features of the image.
    ],
)
def test_groups_of_one_image_are_known(func, params, shape):
    renderer = SimpleNamespace(colorize_instance_segmentation=False)
    camera = SimpleNamespace(data_types=["rgb"], height=96, width=64, renderer_cfg=renderer)
    term = SimpleNamespace(func=func, params={"sensor_cfg": SimpleNamespace(name="eye"), **params})
    group = SimpleNamespace(image=term, concatenate_terms=True, history_length=None)
    both = SimpleNamespace(image=term, joints=term, concatenate_terms=True, history_length=None)
    cfg = SimpleNamespace(
        scene=SimpleNamespace(eye=camera), observations=SimpleNamespace(front=group, policy=both)
    )
    assert observed(cfg) == (shape and {"front": shape})
