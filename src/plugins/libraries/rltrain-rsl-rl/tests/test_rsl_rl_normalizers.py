"""Normalizers and random network distillation on the ranks of a fake world."""

from __future__ import annotations

import copy
import functools
from types import SimpleNamespace

import pytest
import torch
from messages import says
from rsl_rl.modules import EmpiricalDiscountedVariationNormalization, EmpiricalNormalization
from rsl_rl_stubs import LocalSession, small_agent
from torch import nn

from rltrain.errors import UsageError
from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld
from rltrain_rsl_rl.run.agents import SessionPPO
from rltrain_rsl_rl.run.library import RslRlLibrary
from rltrain_rsl_rl.run.normalizers import NormalizerPool, PooledNormalization
from rltrain_rsl_rl.run.rollouts import IntrinsicRewards, RolloutNormalization
from rltrain_torch.gradients import FlatSync


class Model(nn.Module):
    """A model with a normalizer where rsl_rl's have theirs."""

    def __init__(self, size: int = 3, until: int | None = None):
        super().__init__()
        self.obs_normalizer = EmpiricalNormalization(size, until=until)


def pooled(group, *models: Model) -> NormalizerPool:
    pool = NormalizerPool(group)
    for model in models:
        pool.replace_in(model)
    return pool


def batches(sizes=(64, 64, 32), size: int = 3) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([1.0, 100.0, 1e-2])[:size]
    return [torch.randn(n, size, generator=generator) * scale + 5 * scale for n in sizes]


def learned(data: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return rsl_rl's own normalizer after learning from all data in one process."""
    stock = EmpiricalNormalization(data[0].shape[1])
    for batch in data:
        stock.update(batch)
    return stock.state_dict()


def test_ranks_learn_what_one_rank_learns_from_all_data():
    def on_rank(group):
        model = Model()
        pool = pooled(group, model)
        for batch in batches():
            model.obs_normalizer.update(batch.chunk(group.world_size)[group.rank])
            pool.pool()
        return model.obs_normalizer.state_dict()

    one = learned(batches())
    for state in FakeWorld(4).run(on_rank):
        assert list(state) == list(one)
        for name, value in one.items():
            torch.testing.assert_close(state[name], value, rtol=1e-5, atol=1e-6)


def test_all_normalizers_of_an_update_share_one_collective():
    def on_rank(group):
        models = Model(3), Model(2)
        pool = pooled(group, *models)
        for model in models:
            model.obs_normalizer.update(torch.ones(4, len(model.obs_normalizer.mean)))
        pool.pool()
        pool.pool()

    world = FakeWorld(2)
    world.run(on_rank)
    assert [item.op for item in world.trace] == ["all_reduce(sum)"]


@pytest.mark.parametrize(("until", "seen"), [(7, 8), (8, 8), (9, 16), (16, 16)])
def test_it_stops_learning_when_rsl_rls_does(until, seen):
    def on_rank(group):
        model = Model(until=until)
        pool = pooled(group, model)
        for _ in range(4):
            model.obs_normalizer.update(torch.randn(4, 3))
            pool.pool()
        model.eval()
        model.obs_normalizer.update(torch.randn(4, 3))
        return int(model.obs_normalizer.count), model.obs_normalizer.pending

    # Both ranks together have 8 rows at a time.
    assert FakeWorld(2).run(on_rank) == [(seen, None)] * 2


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_a_replaced_normalizer_keeps_its_state_and_its_methods():
    model = Model()
    model.obs_normalizer.update(batches()[0])
    before = copy.deepcopy(model.obs_normalizer)
    pooled(SingleProcess("cpu"), model)
    after = model.obs_normalizer
    assert type(after) is PooledNormalization
    assert all(torch.equal(after.state_dict()[k], v) for k, v in before.state_dict().items())
    x = torch.randn(5, 3)
    assert torch.equal(after(x), before(x))
    assert torch.equal(torch.jit.script(copy.deepcopy(after))(x), before(x))
    assert torch.equal(after.inverse(x), before.inverse(x))


def test_a_derived_class_is_not_changed():
    class Own(EmpiricalNormalization):
        pass

    model = Model()
    model.obs_normalizer = Own(3)
    pooled(SingleProcess("cpu"), model)
    assert type(model.obs_normalizer) is Own


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


def test_an_environment_without_a_time_step_is_a_usage_error(tmp_path):
    session = LocalSession(tmp_path, small_agent(rnd_cfg={"weight": 1.0}))
    with says(UsageError):
        RslRlLibrary().rltrain_train(session)


def test_padded_rows_are_weighted_by_their_number():
    """A recurrent mini-batch has a padded trajectory for each episode that ended."""
    trajectories, means = [3, 1], [1.0, 5.0]
    rnd = SimpleNamespace(
        get_rnd_state=torch.sqrt,
        state_normalizer=torch.nn.Identity(),
        predictor=torch.nn.Identity(),
        target=torch.zeros_like,
    )

    def on_rank(group):
        count, mean = trajectories[group.rank], means[group.rank]
        parameter = torch.nn.Parameter(torch.zeros(2))
        # The mean over 4 x 3 rows of 1, and over 4 x 1 rows of 5; the loss is the same.
        parameter.grad = torch.full((2,), mean)
        batch = SimpleNamespace(
            masks=torch.ones(4, count, dtype=torch.bool),
            observations=torch.full((4, count, 1), mean),
        )
        rank = SimpleNamespace(
            storage=SimpleNamespace(batch=batch, num_envs=4, num_transitions_per_env=4),
            group=group,
            rnd=rnd,
            rnd_parameters=[parameter],
            rnd_sync=FlatSync(group, [parameter, torch.zeros(())]),
            padded_losses=[],
        )
        rank._scale_predictor = functools.partial(SessionPPO._scale_predictor, rank)
        SessionPPO._average_predictor(rank)
        loss = group.all_reduce(torch.stack(rank.padded_losses), "mean")
        return [*parameter.grad.tolist(), *loss.tolist()]

    assert FakeWorld(2).run(on_rank) == [pytest.approx([2.0, 2.0, 2.0])] * 2


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
