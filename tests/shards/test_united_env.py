"""The united environments go through the same states as the ranks' own."""

from __future__ import annotations

import pytest
import torch
from shard_envs import WithCritic, WithImages, WithTwoChoices

from rltrain_devkit.as_one.united import Rows, UnitedEnv

ROWS = Rows(ranks=2, envs=4, blocks=2)
SEEDS = [3, 4]


def flat(observations):
    if isinstance(observations, dict):
        return torch.cat([flat(group) for group in observations.values()], dim=1)
    return observations.flatten(1)


@pytest.mark.parametrize("make", [WithCritic, WithImages])
def test_rows_are_those_of_the_ranks(make):
    united = UnitedEnv([make(4), make(4)], ROWS, SEEDS)
    own = [make(4), make(4)]
    first, _ = united.reset(seed=7)
    for rank, env in enumerate(own):
        assert torch.equal(flat(first)[ROWS.of(rank)], flat(env.reset(seed=SEEDS[rank])[0]))
    for step in range(15):
        actions = torch.linspace(-1, 1, 8)[:, None] * (-1) ** step
        observations, rewards, terminations, truncations, info = united.step(actions)
        for rank, env in enumerate(own):
            at = ROWS.of(rank)
            expected = env.step(actions[at])
            assert torch.equal(flat(observations)[at], flat(expected[0]))
            whole = (rewards, terminations, truncations)
            for mine, theirs in zip(whole, expected[1:4], strict=True):
                assert torch.equal(mine[at], theirs)
            assert torch.equal(flat(info["final_obs"])[at], flat(expected[4]["final_obs"]))
            assert torch.equal(united.episode_length_buf[at], env.unwrapped.episode_length_buf)


def test_episode_lengths_are_set_on_the_ranks_rows():
    united = UnitedEnv([WithTwoChoices(4), WithTwoChoices(4)], ROWS, SEEDS)
    united.reset(seed=7)
    united.episode_length_buf = torch.arange(8)
    assert torch.equal(united.episode_length_buf, torch.arange(8))
    assert torch.equal(united.envs[1].unwrapped.episode_length_buf, ROWS.of(1))
