"""SAC on ranks of a fake world."""

from __future__ import annotations

import pytest
import torch

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld, differing
from rltrain_rl_games.run.sac import ReplayBuffer

SMALL = {
    "params.network.mlp.units": [16, 16],
    "params.config.num_steps_per_episode": 4,
    "params.config.num_updates_per_step": 3,
    "params.config.num_warmup_frames": 64,
    "params.config.batch_size": 16,
    "params.config.replay_buffer_size": 512,
}
ITERATIONS = 5


@pytest.fixture
def train_sac(train_ranks):
    def run(world, agent=(), **options):
        options = {"max_iterations": ITERATIONS, **options}
        return train_ranks(world, algorithm="sac", agent=SMALL | dict(agent), **options)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("clip", [1e-3, 0])
def test_the_critics_gradients_are_clipped_as_the_options_say(train_sac, norms, clip):
    train_sac(FakeWorld(2), {"params.config.critic_grad_clip": clip})
    (_, critic), *others = sorted(norms.items(), reverse=True)
    assert (critic < 1.01e-3) == bool(clip)
    assert all(norm > 2e-3 for _, norm in others)


@pytest.mark.slow
@pytest.mark.parametrize(("frames", "without"), [(64, 0), (65, 1)])
def test_frames_and_the_warm_up_are_counted_over_all_ranks(train_sac, frames, without):
    # An epoch has 4 steps of 2 x 8 environments: 64 frames of the warm-up are over after one.
    runs = train_sac(FakeWorld(2), {"params.config.num_warmup_frames": frames})
    assert {run.result.frames for run in runs} == {ITERATIONS * 64}
    state = torch.load(runs[0].result.checkpoint, weights_only=False)
    assert (state["epoch"], state["frame"]) == (ITERATIONS, ITERATIONS * 64)
    assert state["rltrain"]["update_counter"] == (ITERATIONS - without) * 4 * 3


def test_an_update_costs_one_collective_for_moments_and_one_per_optimizer(train_sac):
    world = FakeWorld(2)
    train_sac(world)
    callers = [item.callers[0] for item in world.trace]
    updates = ITERATIONS * 4 * 3
    assert sum(caller.endswith(" in pool_moments") for caller in callers) == updates
    # Every second update steps actor and temperature too.
    assert sum(caller.endswith(" in reduce") for caller in callers) == updates * 2


@pytest.mark.parametrize("options", [{"params.config.learnable_temperature": False}, {}])
def test_metrics_are_recorded_even_if_the_actor_is_not_updated(train_sac, options, scalars):
    runs = train_sac(FakeWorld(2), options, observers=[scalars])
    recorded = runs[0].observers[0].values[-1]
    assert {"losses/a_loss", "losses/c1_loss", "info/alpha", "time/rollout"} <= set(recorded)
    assert ("losses/alpha_loss" in recorded) == (not options)


def test_training_ends_even_if_no_episode_does(train_sac):
    env = {"max_episode_length": 10_000}
    runs = train_sac(FakeWorld(2), task="rltrain/Pendulum-v1", env=env, max_iterations=2)
    assert [run.result.iterations for run in runs] == [2, 2]
    assert runs[0].result.checkpoint


@pytest.mark.slow
def test_an_empty_replay_buffer_is_reported(train_sac, capsys):
    first = train_sac(FakeWorld(2), max_iterations=3)
    resumed = train_sac(FakeWorld(2), max_iterations=4, checkpoint=first[0].result.checkpoint)
    assert capsys.readouterr().out.count("it starts empty") == 1
    assert not differing(resumed)


def test_checkpoints_of_the_other_algorithm_are_refused(train_sac, train_ranks):
    sac, ppo = train_sac(FakeWorld(1)), train_ranks(FakeWorld(1))
    with pytest.raises(UsageError, match=r"of another algorithm .* it lacks actor, critic"):
        train_sac(FakeWorld(1), checkpoint=ppo[0].result.checkpoint)
    with pytest.raises(UsageError, match=r"of another algorithm .* it lacks model, optim"):
        train_ranks(FakeWorld(1), checkpoint=sac[0].result.checkpoint)


@pytest.mark.parametrize("rows", [3, 8, 11])
def test_a_replay_buffer_is_restored_exactly(rows):
    buffer = filled(rows)
    again = ReplayBuffer((2,), (1,), 8, "cpu")
    again.set_state(buffer.get_state())
    assert len(again) == len(buffer) == min(rows, 8)
    assert again.idx == buffer.idx
    torch.manual_seed(0)
    expected = buffer.sample(4)
    torch.manual_seed(0)
    assert all(torch.equal(a, b) for a, b in zip(expected, again.sample(4), strict=True))


def test_a_replay_buffer_of_another_capacity_is_ignored():
    again = ReplayBuffer((2,), (1,), 16, "cpu")
    again.set_state(filled(8).get_state())
    assert len(again) == 0


def filled(rows):
    buffer = ReplayBuffer((2,), (1,), 8, "cpu")
    for row in torch.arange(rows, dtype=torch.float32).view(-1, 1):
        done = torch.zeros(1, 1, dtype=torch.bool)
        buffer.add(row.expand(1, 2), row.view(1, 1), row.view(1, 1), row.expand(1, 2) + 1, done)
    return buffer
