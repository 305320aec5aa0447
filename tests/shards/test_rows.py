from __future__ import annotations

import pytest
import torch

from rltrain_devkit.as_one.united import Rows, merged


def test_one_block_is_rank_after_rank():
    rows = Rows(ranks=2, envs=3)
    assert [rows.of(rank).tolist() for rank in (0, 1)] == [[0, 1, 2], [3, 4, 5]]


def test_blocks_take_turns():
    rows = Rows(ranks=2, envs=4, blocks=2)
    assert [rows.of(rank).tolist() for rank in (0, 1)] == [[0, 1, 4, 5], [2, 3, 6, 7]]


def test_flat_rows_are_found_in_the_batch_of_all():
    rows = Rows(ranks=2, envs=2)
    whole = torch.arange(3 * 4).reshape(3, 4)  # 3 steps of 4 environments.
    for rank in (0, 1):
        own = whole[:, rows.of(rank)].flatten()
        assert torch.equal(whole.flatten()[rows.in_batch(rank, torch.arange(6))], own)


def test_split_parts_merge_back_to_the_whole():
    rows, batch = Rows(ranks=2, envs=4, blocks=2), torch.rand(8, 3)
    places = rows.parts(8)
    assert torch.equal(merged([batch[place] for place in places], places), batch)


def test_a_mini_batch_has_the_ranks_rows_one_after_the_other():
    places = Rows(ranks=2, envs=4, blocks=2).parts(6)
    assert [place.tolist() for place in places] == [[0, 1, 2], [3, 4, 5]]


def test_rows_that_cannot_be_split_are_an_error():
    with pytest.raises(ValueError, match="cannot be split"):
        Rows(ranks=2, envs=4).parts(7)
    with pytest.raises(ValueError, match="blocks"):
        Rows(ranks=2, envs=4, blocks=3)
