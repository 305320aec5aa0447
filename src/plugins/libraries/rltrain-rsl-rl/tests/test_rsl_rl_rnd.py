"""Random network distillation on the ranks of a fake world."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from rsl_rl.modules import EmpiricalDiscountedVariationNormalization
from rsl_rl_stubs import CURIOUS, LocalSession, small_agent

from rltrain.errors import UsageError
from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld
from rltrain_rsl_rl.run.library import RslRlLibrary
from rltrain_rsl_rl.run.rollouts import IntrinsicRewards, RolloutNormalization

SHORT = {"num_steps_per_env": 16, "algorithm.num_learning_epochs": 2}


def stock(until=None) -> EmpiricalDiscountedVariationNormalization:
    """Return rsl_rl's normalizer as its RND makes it."""
    return EmpiricalDiscountedVariationNormalization(shape=[], until=until)


def rollouts(num_envs: int = 8, steps: int = 5) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(steps, num_envs, generator=generator) for _ in range(3)]


def stepped(normalizer, steps: torch.Tensor) -> torch.Tensor:
    """Return rsl_rl's result for a rollout, step by step."""
    return torch.stack([normalizer(rewards) for rewards in steps])


def settled(normalizer, steps: torch.Tensor, group) -> torch.Tensor:
    for rewards in steps:
        assert not normalizer(rewards).any()
    return normalizer.normalize_rollout(group)


@pytest.mark.parametrize("until", [None, 60])
def test_ranks_normalize_as_rsl_rl_does_in_one_process(until):
    whole = stock(until)
    expected = [stepped(whole, steps) for steps in rollouts()]

    def on_rank(group):
        own = RolloutNormalization(stock(until))
        part = slice(group.rank * 2, group.rank * 2 + 2)
        return [settled(own, steps[:, part], group) for steps in rollouts()], own.state_dict()

    world = FakeWorld(4)
    runs = world.run(on_rank)
    for index, rewards in enumerate(expected):
        together = torch.cat([given[index] for given, _ in runs], dim=1)
        torch.testing.assert_close(together, rewards, rtol=1e-5, atol=1e-6)
    for _, state in runs:
        torch.testing.assert_close(state, dict(whole.state_dict()), rtol=1e-5, atol=1e-6)
    # One per rollout, not three per step; none after it has seen the maximum number of rows.
    assert len(world.trace) == (3 if until is None else 2)


def test_a_reward_normalizer_that_does_not_learn_only_normalizes():
    whole = stock()
    stepped(whole, rollouts()[0])
    whole.eval()
    own = RolloutNormalization(whole)
    rewards = rollouts()[1]
    torch.testing.assert_close(settled(own, rewards, SingleProcess("cpu")), stepped(whole, rewards))
    assert own.emp_norm.count == whole.emp_norm.count


@pytest.mark.slow
def test_no_collective_is_made_in_an_environment_step(train_ranks):
    def collectives(steps):
        world = FakeWorld(2)
        train_ranks(world, agent={**SHORT, **CURIOUS, "num_steps_per_env": steps})
        return len(world.trace)

    assert collectives(16) == collectives(32)


def test_intrinsic_returns_are_means_over_the_episodes_of_all_ranks(train_ranks, scalars):
    runs = train_ranks(
        FakeWorld(2),
        agent={**SHORT, **CURIOUS},
        env={"max_episode_length": 12},
        observers=[scalars],
    )
    for values in runs[0].observers[0].values:
        assert 0 < values["Rnd/mean_intrinsic_reward"] < float("inf")
        assert values["Rnd/weight"] == pytest.approx(5.0 * 0.02)
        assert values["Loss/rnd"] > 0


def test_an_environment_without_a_time_step_is_a_usage_error(tmp_path):
    session = LocalSession(tmp_path, small_agent(rnd_cfg={"weight": 1.0}))
    with pytest.raises(UsageError, match=r"agent\.algorithm\.rnd_cfg: .* step_dt"):
        RslRlLibrary().rltrain_train(session)


def test_the_intrinsic_return_is_that_of_episodes_that_have_ended():
    rnd = SimpleNamespace(weight=0.5, reward_normalization=False)
    rewards = IntrinsicRewards(rnd, SingleProcess("cpu"))
    for added, done, total in (([1.0, 2.0], [0, 1], (2.0, 1.0)), ([3.0, 4.0], [1, 1], (8.0, 2.0))):
        rewards.step(torch.tensor(added))
        rewards.finish_rollout(torch.zeros(1, 2, 1), torch.tensor(done).reshape(1, 2, 1))
        assert rewards.metrics() == {"Rnd/mean_intrinsic_reward": total, "Rnd/weight": 0.5}


def test_each_steps_normalized_reward_has_the_weight_of_its_time():
    """As rsl_rl has it: a schedule may change the weight within a rollout."""
    rnd = SimpleNamespace(weight=0.0, reward_normalization=True, reward_normalizer=stock())
    intrinsic = IntrinsicRewards(rnd, SingleProcess("cpu"))
    steps, weights = rollouts()[0], torch.arange(1.0, 6.0)
    for rewards, weight in zip(steps, weights.tolist(), strict=True):
        rnd.weight = weight
        intrinsic.step(rnd.reward_normalizer(rewards) * weight)
    added = torch.zeros(5, 8, 1)
    intrinsic.finish_rollout(added, torch.zeros(5, 8, 1))
    torch.testing.assert_close(added.squeeze(-1), stepped(stock(), steps) * weights.unsqueeze(1))
