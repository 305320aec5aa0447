"""What adapters share to load a policy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rltrain.errors import UsageError, explain_mismatch
from rltrain.types import ArrayInfo
from rltrain_torch.policy import groups_of, read_checkpoint


class OfTheUser:
    """What only a trusted file may name."""


@pytest.fixture
def saved(tmp_path):
    def save(state):
        torch.save(state, tmp_path / "model.pt")
        return tmp_path / "model.pt"

    return save


def test_a_checkpoint_is_read_to_the_device(saved):
    read = read_checkpoint(saved({"model": torch.ones(2)}), "meta")
    assert read["model"].device.type == "meta"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1], "is not a checkpoint: it holds a list"),
        ({"model": OfTheUser()}, "loading it would run code"),
    ],
)
def test_what_is_no_checkpoint_is_named(saved, state, message):
    path = saved(state)
    with pytest.raises(UsageError, match=f"--checkpoint {path}: .*{message}"):
        read_checkpoint(path, "cpu")


def test_a_file_that_the_user_trusts_may_name_classes(saved):
    assert isinstance(read_checkpoint(saved({"it": OfTheUser()}), "cpu", True)["it"], OfTheUser)


def test_damaged_bytes_are_named(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(b"text")
    with pytest.raises(UsageError, match=f"--checkpoint {path}: it cannot be read as"):
        read_checkpoint(path, "cpu")


def test_what_does_not_fit_is_one_line_that_says_what_to_do(tmp_path):
    path, line = tmp_path / "model.pt", r"fit this run \(RuntimeError: a b\)\. Give the task"
    with pytest.raises(UsageError, match=line), explain_mismatch(path):
        raise RuntimeError("a\n\tb")
    with (
        pytest.raises(UsageError, match=f"--checkpoint {path}: is another's"),
        explain_mismatch(path),
    ):
        raise UsageError("is another's")


def test_groups_have_their_shapes_and_dtypes():
    box, image = spaces.Box(-1, 1, (2,)), spaces.Box(0, 255, (4, 4, 1), np.uint8)
    assert groups_of(box) == {"policy": ArrayInfo((2,))}
    assert groups_of(spaces.Dict(policy=box, eye=image)) == {
        "policy": ArrayInfo((2,)),
        "eye": ArrayInfo((4, 4, 1), "uint8"),
    }
