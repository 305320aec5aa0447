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

from rltrain import hookimpl
from rltrain.errors import DivergenceError, UsageError
from rltrain.storage.checkpoint import Checkpoint
from rltrain.testing import FakeWorld, differing
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.agents import SessionAgent
from rltrain_skrl.run.normalizers import MomentPool
from rltrain_skrl.run.torch.algorithms import SharedThreshold
from rltrain_skrl.run.torch.normalizers import PooledScaler
from rltrain_torch.moments import pool_moments

bootstrap.import_skrl()

from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402


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


EARLY = {"kl_threshold": 0.002, "learning_epochs": 8, "mini_batches": 4}
"""Ranks see different data, and alone they would leave epochs at different mini-batches."""


def test_adapted_early_stopping_is_by_all_ranks_or_none(train_ranks, local_gradients):
    iterations = 3
    runs = train_ranks(
        FakeWorld(2, rank_local=PLACE),
        max_iterations=iterations,
        agent={f"agent.{name}": value for name, value in EARLY.items()},
        observers=[local_gradients],
    )
    steps, other = (len(run.observers[0].given) for run in runs)
    assert steps == other
    assert iterations < steps < iterations * EARLY["learning_epochs"] * EARLY["mini_batches"]
    assert not differing(runs)


@pytest.mark.slow
def test_a_run_resumes_on_more_ranks_with_the_learned_state(train_ranks):
    def saved(ranks, iterations, checkpoint=None):
        runs = train_ranks(
            FakeWorld(ranks, rank_local=PLACE),
            max_iterations=iterations,
            checkpoint=checkpoint,
            agent={"agent.rollouts": 3, "agent.learning_rate_scheduler": "KLAdaptiveLR"},
        )
        path = runs[0].result.checkpoint
        return path, torch.load(path, weights_only=False)

    path, first = saved(2, 2)
    _, ended = saved(4, 3, path)
    assert (first["rltrain"]["iteration"], ended["rltrain"]["iteration"]) == (2, 3)
    steps = [x["optimizer"]["state"][0]["step"].item() for x in (first, ended)]
    assert steps[1] == steps[0] * 3 / 2


ALGORITHMS = ("sac", "td3", "ddpg", "dqn", "ddqn")
COLLECTIVES = {"sac": 3, "td3": 1.5, "ddpg": 2, "dqn": 1, "ddqn": 1}
"""In which gradients are averaged, of each gradient step. TD3 skips every other of its policy."""

STEPS = 5
SMALL = {
    "agent.random_timesteps": 1,
    "agent.learning_starts": 2,
    "agent.batch_size": 8,
    "agent.gradient_steps": 2,
    "agent.experiment.write_interval": STEPS,
    "agent.experiment.checkpoint_interval": 0,
    "memory.memory_size": 12,  # So that it wraps around.
}
SAVED = SMALL | {"memory.save_replay_buffer": True}
ORNSTEIN = {
    "agent.exploration_noise": "OrnsteinUhlenbeckNoise",
    "agent.exploration_noise_kwargs.std": 1.0,
    "+agent.exploration_noise_kwargs.theta": 0.1,
    "+agent.exploration_noise_kwargs.sigma": 0.2,
    "+agent.exploration_noise_kwargs.base_scale": 0.5,
}


@pytest.fixture
def train(train_ranks):
    """Train on ranks of a fake world; return the world and its runs."""

    def run(algorithm, ranks=2, agent=SMALL, **options):
        world = FakeWorld(ranks, rank_local=PLACE)
        discrete = algorithm in ("dqn", "ddqn")
        task = "rltrain/CartPole-v1" if discrete else "rltrain/CartPoleContinuous-v1"
        runs = train_ranks(world, algorithm=algorithm, task=task, agent=agent, **options)
        return world, runs

    return run


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_gradient_step_costs_a_collective_for_each_optimizer_and_one(
    train, algorithm, local_gradients
):
    world, runs = train(algorithm, observers=[local_gradients])
    given = runs[0].observers[0].given
    steps = 2 * (2 * STEPS - SMALL["agent.learning_starts"])
    callers = Counter(item.callers[0].rpartition("/")[2].partition(":")[0] for item in world.trace)
    assert len(given) == callers["gradients.py"] == COLLECTIVES[algorithm] * steps
    # Observations and next observations, together.
    assert callers["moments.py"] == (0 if algorithm in ("dqn", "ddqn") else steps)


def test_mixed_precision_and_clipping_keep_ranks_equal(train):
    agent = SMALL | {"agent.mixed_precision": True, "agent.grad_norm_clip": 0.5}
    _, runs = train("sac", agent=agent)
    assert not differing(runs)
    saved = torch.load(runs[0].result.checkpoint, weights_only=False)
    assert saved["rltrain"]["parts"]["scaler"]["scale"] > 0


class Nudge:
    """Changes the entropy coefficient of one rank."""

    def __init__(self, rank):
        self.rank = rank

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, session, role):
        model = yield
        if role == "entropy_coefficient" and session.world.rank == self.rank:
            with torch.no_grad():
                model.log.add_(1e-4)
        return model


def test_a_diverged_entropy_coefficient_is_found(train):
    with pytest.raises(DivergenceError, match=r"entropy_coefficient\.log differs .* rank\(s\) 1"):
        train("sac", observers=[functools.partial(Nudge, 1)])


@pytest.mark.slow
def test_noise_resumes_bit_for_bit(train):
    agent = SAVED | ORNSTEIN | {"agent.experiment.checkpoint_interval": 3 * STEPS}
    _, whole = train("ddpg", agent=agent, max_iterations=5)
    expected = Path(whole[0].result.checkpoint)
    early = expected.with_name(f"agent_{3 * STEPS}.pt")
    _, rest = train("ddpg", agent=agent, max_iterations=5, checkpoint=str(early))
    ended = Path(rest[0].result.checkpoint)
    assert ended.name == expected.name == f"agent_{5 * STEPS}.pt"
    assert ended.read_bytes() == expected.read_bytes()
    assert Checkpoint(ended).state == Checkpoint(expected).state


@pytest.mark.slow
@pytest.mark.parametrize("agent", [SMALL, SAVED], ids=["without", "with"])
def test_another_number_of_ranks_resumes_with_an_empty_buffer(train, agent, capsys):
    _, first = train("td3", agent=agent, max_iterations=2)
    _, rest = train(
        "td3",
        ranks=4,
        num_envs=4,
        agent=agent,
        max_iterations=3,
        checkpoint=first[0].result.checkpoint,
    )
    assert "The replay buffer starts empty" in capsys.readouterr().out
    assert not differing(rest)
    saved = torch.load(rest[0].result.checkpoint, weights_only=False)
    updates = 2 * (2 * STEPS - 2) + 2 * (STEPS - 2)
    assert saved["rltrain"]["parts"]["updates"] == {"updates": updates}


@pytest.mark.slow
def test_a_buffer_of_another_size_does_not_fit(train):
    _, first = train("sac", agent=SAVED, max_iterations=2)
    agent = SAVED | {"memory.memory_size": 7}
    with pytest.raises(UsageError, match=r"memory_size=7 asks for .* as it was"):
        train("sac", agent=agent, max_iterations=3, checkpoint=first[0].result.checkpoint)
