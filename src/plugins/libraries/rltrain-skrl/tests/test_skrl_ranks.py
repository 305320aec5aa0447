"""Several ranks of a fake world: whole trainings, and pooled statistics."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from gymnasium import spaces
from skrl_fakes import PLACE

from rltrain.testing import FakeWorld, differing
from rltrain_skrl.declare.options import ON_POLICY
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.agents import SessionAgent
from rltrain_skrl.run.normalizers import MomentPool
from rltrain_skrl.run.torch.algorithms import SharedThreshold
from rltrain_skrl.run.torch.memory import RolloutMemory
from rltrain_skrl.run.torch.normalizers import PooledScaler, ValueScaler
from rltrain_torch.moments import pool_moments

bootstrap.import_skrl()

from skrl.agents.torch.ppo.ppo import compute_gae  # noqa: E402
from skrl.memories.torch import RandomMemory  # noqa: E402
from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402

KINDS = ((ValueScaler, 1), (PooledScaler, 2))


@pytest.mark.parametrize("algorithm", ON_POLICY)
def test_every_agent_that_learns_from_rollouts_ends_equal(train_ranks, algorithm, local_gradients):
    world = FakeWorld(2, rank_local=PLACE)
    agent = {"agent.rollouts": 4, "agent.mini_batches": 2}
    iterations = 3
    runs = train_ranks(
        world,
        algorithm=algorithm,
        agent=agent,
        observers=[local_gradients],
        max_iterations=iterations,
    )
    assert not differing(runs)
    first = [run.observers[0].given[0] for run in runs]
    assert not torch.equal(*first)
    callers = Counter(item.callers[0].rpartition("/")[2].partition(":")[0] for item in world.trace)
    assert callers["gradients.py"] == len(runs[0].observers[0].given) >= 2 * iterations
    assert callers["moments.py"] == iterations


def test_a_mini_batch_costs_one_gradient_collective(train_ranks, local_gradients):
    world = FakeWorld(2, rank_local=PLACE)
    iterations, rollouts, epochs, batches = 3, 4, 2, 2
    agent = {"rollouts": rollouts, "learning_epochs": epochs, "mini_batches": batches}
    agent["experiment.checkpoint_interval"] = rollouts
    agent["learning_rate_scheduler"] = "KLAdaptiveLR"
    runs = train_ranks(
        world,
        max_iterations=iterations,
        agent={f"agent.{name}": value for name, value in agent.items()},
        observers=[local_gradients],
    )
    callers = Counter(item.callers[0].rpartition("/")[2].partition(":")[0] for item in world.trace)
    assert callers["gradients.py"] == iterations * epochs * batches
    assert callers["gradients.py"] == len(runs[0].observers[0].given)
    # Observations of the first epoch, values, returns and advantages: all together.
    assert callers["moments.py"] == iterations
    assert callers["ppo.py"] == iterations * epochs, "skrl's own, of the KL divergence"
    saved = Path(runs[0].result.run_dir, "checkpoints")
    assert len(list(saved.glob("*.pt"))) == iterations
    assert runs[1].result.checkpoint is None


def test_pooled_statistics_are_those_of_all_data():
    torch.manual_seed(0)
    spread = torch.tensor([1.0, 0.1, 5.0])
    steps = [offset + torch.randn(40, 10, 3) * spread for offset in (1000.0, 1000.5)]
    x = torch.full((2, 3), 1001.0)

    def on_rank(group):
        scaler = PooledScaler(3, device="cpu", pool=MomentPool(group, pool_moments))
        for data in steps:
            scaler(data.chunk(2)[group.rank], train=True)
        return scaler, scaler(x)

    world = FakeWorld(2, rank_local=PLACE)
    (pooled, standardized), (other, _) = world.run(on_rank)
    assert len(world.trace) == len(steps)
    alone = RunningStandardScaler(3, device="cpu")
    for data in steps:
        alone(data, train=True)
    assert torch.allclose(pooled.running_mean, alone.running_mean, rtol=1e-6)
    assert torch.allclose(pooled.running_variance, alone.running_variance, rtol=1e-4)
    assert pooled.current_count == alone.current_count
    assert pooled.state_dict().keys() == alone.state_dict().keys()
    assert torch.allclose(standardized, alone(x), atol=1e-3)
    equal = zip(pooled.state_dict().values(), other.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in equal)


def rollout():
    """Return rewards, values, last values and observations of 6 steps of 8 environments."""
    generator = torch.Generator().manual_seed(3)
    normal = functools.partial(torch.randn, generator=generator)
    return {
        "rewards": normal(6, 8, 1),
        "values": 50 + 3 * normal(6, 8, 1),
        "last_values": 50 + 3 * normal(8, 1),
        "observations": 100 + normal(6, 8, 2),
    }


def update(memory, values_scaler, scaler, data):
    """Use a memory and its scalers like skrl's PPO in one epoch of two mini-batches."""
    for name, size in {"values": 1, "returns": 1, "advantages": 1, "observations": 2}.items():
        memory.create_tensor(name, size=size, dtype=torch.float32)
    memory.set_tensor_by_name("observations", data["observations"])
    memory.filled = True
    never = torch.zeros_like(data["rewards"], dtype=torch.bool)
    last, values = data["last_values"], data["values"]
    returns, advantages = compute_gae(
        rewards=data["rewards"], terminated=never, truncated=never, values=values, last_values=last
    )
    memory.set_tensor_by_name("values", values_scaler(values, train=True))
    memory.set_tensor_by_name("returns", values_scaler(returns, train=True))
    memory.set_tensor_by_name("advantages", advantages)
    names = ["observations", "advantages", "states", "returns", "values"]
    batches = memory.sample_by_index(names, indexes=range(len(memory)), mini_batches=2)
    return [[scaler(batch[0], train=True), batch[1], *batch[3:]] for batch in batches]


def test_a_rollout_is_standardized_as_on_one_rank_in_one_collective():
    data = rollout()

    def on_rank(group):
        pool = MomentPool(group, pool_moments)
        memory = RolloutMemory(pool=pool, memory_size=6, num_envs=4, device="cpu")
        scalers = [kind(size, pool=pool, device="cpu") for kind, size in KINDS]
        memory.scalers["observations"] = scalers[1]
        mine = {name: x.chunk(2, dim=-2)[group.rank] for name, x in data.items()}
        return update(memory, *scalers, mine), [scaler.state_dict() for scaler in scalers]

    world = FakeWorld(2, rank_local=PLACE)
    ranks = world.run(on_rank)
    assert len(world.trace) == 1
    memory = RandomMemory(memory_size=6, num_envs=8, device="cpu")
    scalers = [RunningStandardScaler(size, device="cpu") for _, size in KINDS]
    alone = update(memory, *scalers, data)
    for rank, (batches, states) in enumerate(ranks):
        for batch, expected in zip(batches, alone, strict=True):
            for mine, whole in zip(batch, expected, strict=True):
                rows = whole.view(3, 8, -1).chunk(2, dim=1)[rank]
                assert torch.allclose(mine.view(3, 4, -1), rows, atol=1e-5)
        for state, scaler in zip(states, scalers, strict=True):
            for name, value in scaler.state_dict().items():
                assert torch.allclose(state[name], value, rtol=1e-5), name


def test_without_training_nothing_is_reduced():
    def on_rank(group):
        scaler = PooledScaler(3, device="cpu", pool=MomentPool(group, pool_moments))
        scaler(torch.ones(4, 3))
        scaler(torch.ones(4, 3), inverse=True)
        assert scaler(None, train=True) is None

    world = FakeWorld(2, rank_local=PLACE)
    world.run(on_rank)
    assert not world.trace


def test_the_mean_over_ranks_is_compared_with_the_threshold():
    def on_rank(group):
        threshold = SharedThreshold(0.5, group)
        high, low = torch.tensor(0.9), torch.tensor(0.2)
        mixed = high if group.rank else low
        below = torch.tensor(0.7) if group.rank else low  # The worst rank is above.
        return (
            bool(threshold),
            bool(mixed > threshold),
            bool(low > threshold),
            bool(below > threshold),
            bool(high > threshold),
        )

    assert FakeWorld(2, rank_local=PLACE).run(on_rank) == [(True, True, False, False, True)] * 2
    (off,) = FakeWorld(1, rank_local=PLACE).run(lambda group: bool(SharedThreshold(0, group)))
    assert not off


def test_a_metric_is_the_least_the_greatest_or_the_mean_of_an_iteration():
    values = [1.0, 2.0, 6.0]
    agent = SimpleNamespace(
        tracking_data={f"Loss / any{end}": values for end in ("", " (min)", " (max)")},
        numbers=dict,
        learning_rates=dict,
        action_space=spaces.Box(-1.0, 1.0, (1,)),
        _lap=0.0,
        _update_seconds=0.0,
    )
    metrics = SessionAgent._collect_metrics(agent)
    assert [metrics[f"Loss / any{end}"] for end in ("", " (min)", " (max)")] == [3.0, 1.0, 6.0]
    assert not agent.tracking_data
