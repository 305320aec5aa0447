from __future__ import annotations

import torch

from rltrain_torch.checkpoints import top_level_keys


def test_keys_are_those_of_the_saved_mapping(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"model": {"weight": torch.ones(2)}, "epoch": 3}, path)
    assert top_level_keys(str(path)) == ["model", "epoch"]


def test_a_file_without_a_mapping_has_no_keys(tmp_path):
    path = tmp_path / "model.pt"
    torch.save([1], path)
    assert top_level_keys(str(path)) == []


def test_the_reason_for_an_unreadable_file_is_one_line(tmp_path):
    path = tmp_path / "text.pt"
    path.write_text("no checkpoint\n")
    for wrong in (top_level_keys(str(path)), top_level_keys(str(tmp_path / "absent.pt"))):
        assert wrong.startswith("it cannot be read as a checkpoint (")
        assert "\n" not in wrong
