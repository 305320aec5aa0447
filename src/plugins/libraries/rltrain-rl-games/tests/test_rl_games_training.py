"""Short trainings, most of them on the ranks of a fake world; metrics, limits and checkpoints."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from rl_games.algos_torch.running_mean_std import RunningMeanStd
from rl_games.algos_torch.torch_ext import AverageMeter
from rl_games.torch_runner import Runner
from rl_games_envs import CRITIC, MLP, Changed, making

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld, differing
from rltrain.types import TaskInfo
from rltrain_rl_games.plugin import rltrain_provides
from rltrain_rl_games.run.agents import ContinuousAgent
from rltrain_rl_games.run.metrics import PooledMeter, pool_meters
from rltrain_rl_games.run.normalizers import PendingBatches, PooledMeanStd, pool_pending
from rltrain_rl_games.run.sac import ReplayBuffer

(SPEC,) = rltrain_provides()


def of_config(**options):
    return {"agent": {f"params.config.{name}": value for name, value in options.items()}}


# Ranks


def test_an_update_costs_one_collective_for_everything_that_it_normalizes(train_ranks):
    world = FakeWorld(2)
    options = {"params.config.mini_epochs": 3, "params.config.minibatch_size_per_env": 8}
    train_ranks(world, agent=options)
    moments = [item for item in world.trace if item.callers[0].endswith(" in pool_moments")]
    assert len(moments) == 2
    # Four mini-batches of observations, values, returns and advantages.
    assert moments[0].bytes == 8 * (4 * (1 + 2 * 4) + 3 * (1 + 2 * 1))


@pytest.mark.parametrize("task", ["rltrain/CartPoleContinuous-v1", "rltrain/CartPole-v1"])
@pytest.mark.parametrize(
    ("options", "collectives"),
    [
        ({"lr_schedule": "adaptive", "schedule_type": "standard"}, 1),
        ({"lr_schedule": "adaptive", "schedule_type": "legacy"}, 1),
        ({"lr_schedule": "linear"}, 0),
    ],
)
def test_only_the_last_divergence_of_an_epoch_needs_a_collective(
    train_ranks, task, options, collectives
):
    world, agent = FakeWorld(2), of_config(**options, mini_epochs=3, minibatch_size_per_env=8)
    train_ranks(world, task=task, max_iterations=1, **agent)
    asked = [item for item in world.trace if "deferred_mean.py" in item.callers[0]]
    assert len(asked) == collectives


def test_a_rank_without_an_episode_records_the_others_metrics(train_ranks, scalars):
    options = {"params.config.horizon_length": 8, "params.config.minibatch_size": 8}
    given = {"num_envs": 1, "max_iterations": 5, "observers": [scalars]}
    runs = train_ranks(FakeWorld(4), agent=options, **given)
    assert runs[0].result.episode_return > 0
    values = runs[0].observers[0].values[-1]
    phases = ("time/rollout", "time/rollout (min)", "time/rollout (max)", "time/update")
    assert {*phases, "losses/a_loss", "losses/c_loss", "info/kl", "info/last_lr"} <= set(values)
    assert not any(name.startswith(("performance", "rewards")) for name in values)


@pytest.mark.parametrize("sizes", [(3, 5), (0, 4), (40, 30)], ids=["some", "none on one", "many"])
def test_two_ranks_have_the_same_meter_as_one_with_all_episodes(sizes):
    """Also where more episodes end in an epoch than the meter's window has."""
    generator = torch.Generator().manual_seed(0)
    steps, epochs = 6, []
    for _ in range(3):
        ends = [torch.randint(steps, (size,), generator=generator) for size in sizes]
        values = [torch.randn(size, 1, generator=generator) for size in sizes]
        epochs.append(
            [[values[rank][ends[rank] == step] for rank in (0, 1)] for step in range(steps)]
        )

    def on_rank(group):
        meter = PooledMeter(AverageMeter(1, 32), (1,))
        for epoch in epochs:
            for ended in epoch:
                meter.update(ended[group.rank])
            pool_meters(group, [meter])
        return meter

    alone = AverageMeter(1, 32)
    for epoch in epochs:
        for ended in epoch:
            alone.update(torch.cat(ended))
    world = FakeWorld(2)
    for meter in world.run(on_rank):
        assert torch.allclose(meter.mean, alone.mean, atol=1e-6)
        assert meter.current_size == alone.current_size
    assert len(world.trace) == len(epochs)


def test_an_epoch_without_episodes_changes_nothing():
    def on_rank(group):
        meters = [PooledMeter(AverageMeter(1, 8), (1, 1)), PooledMeter(AverageMeter(1, 8), (1,))]
        meters[0].update(torch.full((2, 1, 1), 3.0))
        meters[1].update(torch.zeros(0, 1))
        pool_meters(group, meters)
        pool_meters(group, meters)
        return [(meter.current_size, meter.get_mean().tolist()) for meter in meters]

    assert FakeWorld(2).run(on_rank) == [[(4, [3.0]), (0, 0.0)]] * 2


def test_the_entropy_coefficient_is_that_of_the_checkpoint():
    agent = object.__new__(ContinuousAgent)
    agent.entropy_coef, agent._central = 0.01, None
    agent.set_common_state({"meters": {}, "entropy_coef": 0.003})
    assert agent.entropy_coef == 0.003


@pytest.mark.parametrize("option", [{"bounds_loss_coef": None}, {"use_diagnostics": True}], ids=str)
def test_runs_that_fail_in_plain_rl_games_train(train_ranks, option):
    assert not differing(train_ranks(FakeWorld(2), **of_config(**option)))


def test_a_rank_keeps_the_threads_that_its_backend_has_set(train_ranks, monkeypatch):
    # rl_games itself takes up to four cores of the machine, on every rank.
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    seen = set()

    class Seeing(Changed):
        def observe(self, state):
            seen.add(torch.get_num_threads())
            return state

    train_ranks(FakeWorld(1), observers=[making(Seeing)])
    assert seen == {1}
    train_ranks(FakeWorld(1), agent={"params.torch_threads": 2}, observers=[making(Seeing)])
    assert 2 in seen


@pytest.mark.parametrize("clips", [True, False])
def test_the_central_value_clips_as_its_options_say(train_ranks, norms, clips):
    critic = {**CRITIC, "truncate_grads": clips, "grad_norm": 1e-3}
    critic["network"] = {**CRITIC["network"], "mlp": {**MLP, "units": [256, 256]}}
    train_ranks(FakeWorld(2), agent={"+params.config.central_value_config": critic})
    assert (norms[max(norms)] < 1.01e-3) == clips


# Files, limits and checkpoints


def test_rl_games_itself_loads_the_checkpoint(train, tmp_path):
    result = train()
    assert SPEC.checkpoint.keys <= set(torch.load(result.checkpoint, weights_only=False))
    params = copy.deepcopy(SPEC.default_agent(TaskInfo("any", "continuous", 512), "ppo"))["params"]
    spaces = {
        "observation_space": gymnasium.spaces.Box(-np.inf, np.inf, (4,)),
        "action_space": gymnasium.spaces.Box(-1, 1, (1,)),
    }
    here = {"name": "stock", "env_name": "any", "device_name": "cpu", "device": "cpu"}
    params["config"].update(here, num_actors=4, env_info=spaces)
    runner = Runner()
    runner.load({"params": params})
    player = runner.create_player()
    player.restore(result.checkpoint)
    saved = torch.load(result.checkpoint, weights_only=False)["model"]
    loaded = player.model.state_dict()
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)


@pytest.fixture
def file(tmp_path):
    """Write the default options, changed, as a user's own file."""

    def write(**config):
        options = copy.deepcopy(dict(SPEC.default_agent(TaskInfo("any", "continuous", 512), "ppo")))
        options["params"]["config"].update(config)
        OmegaConf.save(OmegaConf.create(options), tmp_path / "agent.yaml")
        return str(tmp_path / "agent.yaml")

    return write


def test_a_users_own_file_is_accepted_unchanged(train, file):
    stock = {"name": "mine", "env_name": "rlgpu", "multi_gpu": True, "device": "cuda:0"}
    path = file(num_actors=8, max_epochs=1, train_dir="runs", torch_compile=False, **stock)
    result = train(agent_config=path, num_envs=None, max_iterations=None)
    assert (result.iterations, result.frames) == (1, 8 * 32)
    assert "mine" in Path(result.checkpoint).name


def test_minus_one_in_a_file_leaves_the_choice_to_the_command_line(train, file):
    path = file(num_actors=-1, max_epochs=-1, max_frames=1024)
    assert train(agent_config=path, max_iterations=1).frames == 16 * 32
    assert train(agent_config=path, max_iterations=None).frames == 1024


@pytest.mark.slow
def test_another_number_of_ranks_resumes_with_what_rl_games_omits(train_ranks):
    schedule = {"lr_schedule": "linear", "schedule_entropy": True, "entropy_coef": 0.01}
    options = of_config(**schedule, save_best_after=1)
    checkpoint = train_ranks(FakeWorld(2), max_iterations=2, **options)[0].result.checkpoint
    runs = train_ranks(FakeWorld(4), max_iterations=3, checkpoint=checkpoint, **options)
    state = torch.load(runs[0].result.checkpoint, weights_only=False)
    assert (state["epoch"], state["frame"]) == (3, (2 * 2 + 4) * 8 * 32)
    assert state["last_mean_rewards"] > 0
    assert 0 < state["rltrain"]["entropy_coef"] < 0.01
    assert state["rltrain"]["meters"]["game_rewards"][1] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "options"),
    [
        ("max_frames=1024", {"max_epochs": -1, "max_frames": 1024}),
        ("score_to_win=5", {"max_epochs": 9, "save_best_after": 1, "score_to_win": 5}),
    ],
)
def test_a_limit_of_rl_games_that_has_ended_a_run_is_named(train_ranks, limit, options):
    result = train_ranks(FakeWorld(2), max_iterations=None, **of_config(**options))[0].result
    assert result.limit == f"agent.params.config.{limit}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "options", "more"),
    [
        ("--max-iterations 2", {"max_iterations": 2}, {"max_iterations": 3}),
        (
            "--target-return 9",
            {**of_config(horizon_length=128), "target_return": 9.0, "max_iterations": 8},
            {**of_config(horizon_length=128), "max_iterations": 8},
        ),
    ],
)
def test_a_run_that_has_reached_its_limit_is_over(train_ranks, limit, options, more, capsys):
    named = {"run_name": "mine", "max_iterations": None}
    first = train_ranks(FakeWorld(2), **named | options)[0].result
    assert first.limit == ("" if "iterations" in limit else limit)
    # As a loop starts it that goes on until the status is 0.
    for run in train_ranks(FakeWorld(2), auto_resume=True, **named | options):
        assert (run.result.limit, run.result.iterations, run.result.exit_code) == (limit, 0, 0)
        assert (run.result.run_dir, run.result.checkpoint) == (first.run_dir, first.checkpoint)
    assert f"is over: {limit} has ended it" in capsys.readouterr().out
    with pytest.raises(UsageError, match=re.escape(limit)):
        train_ranks(FakeWorld(2), checkpoint="latest", **named | options)
    later = train_ranks(FakeWorld(2), auto_resume=True, **named | more)[0].result
    assert later.iterations > 0
    assert later.run_dir != first.run_dir


# SAC

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


def pooled(shape, **settings):
    return PooledMeanStd(torch.jit.script(RunningMeanStd(shape, **settings)))


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 4, 4)])
def test_one_collective_gives_two_ranks_the_moments_of_all_data(shape):
    torch.manual_seed(0)
    steps = [1e3 + 2 * torch.randn(2, 8, *shape) for _ in range(3)]

    def on_rank(group):
        normalizer, mine = pooled(shape), [step[group.rank] for step in steps]
        pool_pending(group, [PendingBatches(normalizer, mine, repeats=2)])
        return normalizer, [normalizer(batch) for batch in [*mine, *mine]]

    world = FakeWorld(2)
    (first, mine), (second, theirs) = world.run(on_rank)
    assert len(world.trace) == 1

    alone = RunningMeanStd(shape)
    for step, *outputs in zip([*steps, *steps], mine, theirs, strict=True):
        assert torch.allclose(torch.cat(outputs), alone(step.flatten(0, 1)), atol=1e-3)
    assert torch.allclose(first.running_mean, alone.running_mean, rtol=1e-7)
    assert torch.allclose(first.running_var, alone.running_var, rtol=1e-4)
    assert first.count == alone.count == 1 + 6 * 16
    equal = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in equal)


def test_uint8_images_are_pooled_unchanged_and_passed_as_floats_from_0_to_1():
    images = torch.randint(0, 256, (6, 2, 2, 3), dtype=torch.uint8)

    def on_rank(group):
        normalizer = pooled((2, 2, 3))
        pool_pending(group, [PendingBatches(normalizer, [images])])
        normalizer(images.float() / 255)
        return normalizer

    alone = RunningMeanStd((2, 2, 3))
    alone(images.float() / 255)
    (normalizer,) = FakeWorld(1).run(on_rank)
    assert torch.allclose(normalizer.running_mean, alone.running_mean, atol=1e-6)
    assert torch.allclose(normalizer.running_var, alone.running_var, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 2), (3, 2)], ids=["another batch", "another shape"])
def test_normalizing_data_that_was_not_pooled_is_an_error(shape):
    def on_rank(group):
        normalizer = pooled((2,))
        pool_pending(group, [PendingBatches(normalizer, [torch.randn(4, 2)])])
        with pytest.raises(RuntimeError, match="not pooled"):
            normalizer(torch.randn(shape))

    FakeWorld(1).run(on_rank)


def test_evaluation_updates_nothing_and_needs_no_pooling():
    def on_rank(group):
        normalizer = pooled((2,))
        normalizer.eval()
        before = {name: value.clone() for name, value in normalizer.state_dict().items()}
        normalizer(torch.randn(4, 2))
        normalizer(torch.randn(4, 2), denorm=True)
        after = normalizer.state_dict()
        return normalizer.training, all(torch.equal(before[name], after[name]) for name in after)

    world = FakeWorld(1)
    assert world.run(on_rank) == [(False, True)]
    assert not world.trace
