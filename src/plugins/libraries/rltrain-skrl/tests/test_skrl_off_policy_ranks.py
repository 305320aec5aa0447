"""The agents with a replay buffer on several ranks of a fake world, and from checkpoints."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

import pytest
import torch
from skrl_fakes import PLACE

from rltrain import hookimpl
from rltrain.errors import DivergenceError, UsageError
from rltrain.storage.checkpoint import Checkpoint
from rltrain.testing import FakeWorld, differing

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
def test_an_unsaved_buffer_is_refilled_first(train, local_gradients, capsys):
    agent = SMALL | {"agent.learning_starts": 3}
    _, first = train("sac", agent=agent, max_iterations=2)
    checkpoint = first[0].result.checkpoint
    assert "replay buffer" not in capsys.readouterr().out
    _, rest = train(
        "sac", agent=agent, max_iterations=3, checkpoint=checkpoint, observers=[local_gradients]
    )
    message = "The replay buffer starts empty: learning resumes after 3 steps"
    assert capsys.readouterr().out.count(message) == 1
    assert not differing(rest)
    assert len(rest[0].observers[0].given) == 3 * 2 * (STEPS - 3)
    saved = torch.load(rest[0].result.checkpoint, weights_only=False)
    assert saved["rltrain"]["iteration"] == 3


@pytest.mark.slow
def test_everything_else_resumes_without_the_buffer(train):
    agent = SMALL | {"agent.learning_starts": 3}
    _, first = train("sac", agent=agent, max_iterations=2)
    path = first[0].result.checkpoint
    # Learning would continue after the end.
    late = agent | {"agent.learning_starts": STEPS}
    _, rest = train("sac", agent=late, max_iterations=3, checkpoint=path)
    before, after = (
        torch.load(runs[0].result.checkpoint, weights_only=False) for runs in (first, rest)
    )
    for name in before.keys() - {"rltrain"}:
        assert repr(before[name]) == repr(after[name]), name
    parts = [saved["rltrain"]["parts"]["entropy_coefficient"] for saved in (before, after)]
    assert parts[0] == parts[1]


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
