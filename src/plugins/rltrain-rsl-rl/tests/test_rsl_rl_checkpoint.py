from __future__ import annotations

import pytest
import torch
from rsl_rl_stubs import LocalSession

from rltrain_rsl_rl.adapter import RslRlLibrary
from rltrain_rsl_rl.checkpoint import check


def test_a_checkpoint_of_the_adapter_is_right(tmp_path):
    RslRlLibrary().rltrain_train(LocalSession(tmp_path, max_iterations=1))
    assert check(str(tmp_path / "checkpoints/model_0.pt")) is None


@pytest.mark.parametrize(
    ("keys", "origin"),
    [
        (["model", "optimizer", "epoch", "frame"], "rl_games"),
        (["policy", "value", "optimizer"], "skrl"),
        (["model_state_dict", "optimizer_state_dict", "iter"], "rsl_rl before 4.0"),
        (["student_state_dict", "teacher_state_dict", "iter"], "rsl_rl's Distillation"),
    ],
)
def test_it_says_of_which_library_a_checkpoint_looks(tmp_path, keys, origin):
    path = tmp_path / "other.pt"
    torch.save(dict.fromkeys(keys, 0), path)
    wrong = check(path)
    assert "actor_state_dict" in wrong
    assert f"looks like one of {origin}." in wrong


def test_it_says_what_is_missing_where_the_origin_is_unknown(tmp_path):
    path = tmp_path / "other.pt"
    torch.save([1], path)
    assert "looks like" not in check(path)
    assert "optimizer_state_dict" in check(path)


def test_it_says_that_a_file_cannot_be_read(tmp_path):
    path = tmp_path / "text.pt"
    path.write_text("no checkpoint")
    assert check(path).startswith("It cannot be read")
    assert check(tmp_path / "absent.pt").startswith("It cannot be read")
