"""How Isaac Lab 2 is started, and how its environments are wrapped."""

from __future__ import annotations

import importlib
import signal
import sys
import types

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Tuple
from messages import says

from rltrain.errors import UsageError
from rltrain.metrics.environment import check_env
from rltrain.types import World
from rltrain_isaaclab import app
from rltrain_isaaclab.arrays import make_converter
from rltrain_isaaclab.env import IsaacLabEnv
from rltrain_isaaclab.suite import IsaacLabSuite

CARTPOLE = "Isaac-Cartpole-v0"
ASYMMETRIC = "Isaac-Cartpole-Asymmetric-Direct-v0"
CAMERA = "Isaac-Cartpole-RGB-Camera-Direct-v0"
SEEN = "Isaac-Cartpole-Seen-Direct-v0"  # Has a camera, which its name does not show.
DISCRETE = "Isaac-Cartpole-Discrete-Direct-v0"


def make(task=CARTPOLE, num_envs=8, seed=1, world=None, cameras=False, renders=False, **env):
    config = types.SimpleNamespace(
        task=task, num_envs=num_envs, env=env, headless=False, enable_cameras=cameras
    )
    seeds, place = types.SimpleNamespace(environment=seed), world or World()
    session = types.SimpleNamespace(
        config=config, world=place, framework="torch", seeds=seeds, renders=renders
    )
    made = IsaacLabSuite().rltrain_make_env(session)
    check_env(made, num_envs, "isaaclab")
    return made


def started_with():
    return importlib.import_module("isaaclab.app").RUNNING


def pushes(env, count):
    generator = torch.Generator().manual_seed(0)
    return [2 * torch.rand(env.num_envs, 1, generator=generator) - 1 for _ in range(count)]


def test_the_app_is_started_for_this_rank():
    env = make(seed=7)
    arguments = {"device": "cpu", "headless": False, "enable_cameras": False, "distributed": False}
    assert started_with() == arguments
    assert (env.cfg.seed, env.cfg.sim.device, env.cfg.scene.num_envs) == (7, "cpu", 8)
    assert sys.argv[1:] == ["--flag-of-ours"]
    make(num_envs=3)  # The app already runs in this process.


def test_only_the_first_rank_has_a_window():
    make(world=World(rank=1, local_rank=1, world_size=2))
    assert started_with()["headless"]


def test_signal_handlers_are_restored():
    before = signal.getsignal(signal.SIGTERM)
    make()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("task", "flag"), [(CAMERA, False), (SEEN, True)])
def test_cameras_are_enabled_by_name_or_by_flag(task, flag):
    make(task, cameras=flag)
    assert started_with()["enable_cameras"]


def test_cameras_that_are_not_enabled_are_an_error():
    with says(UsageError):
        make(SEEN)


def test_recording_enables_cameras():
    env = make(renders=True)
    assert started_with()["enable_cameras"]
    env.reset(seed=0)
    (frame,) = env.render()
    assert (env.render_mode, frame.dtype, frame.shape) == ("rgb_array", np.uint8, (72, 128, 3))


def test_an_app_started_without_cameras_is_an_error():
    make()
    with says(UsageError):
        make(CAMERA)


def test_wrong_options_and_tasks():
    with says(UsageError):
        make(decimaton=3)
    with says(UsageError):
        make(presets="newton")


def test_the_policys_group_may_have_parts():
    made = make(ASYMMETRIC)._env
    box = Box(-np.inf, np.inf, (2,))
    made.single_observation_space = Dict({"policy": Tuple([box, Dict({"pole": box})])})
    state = torch.ones(8, 2)
    made._get_observations = lambda: {"policy": (state, {"pole": 2 * state})}
    observations, _ = IsaacLabEnv(made, make_converter("torch", "cpu")).reset()
    first, second = observations["policy"]
    assert torch.equal(first, state)
    assert torch.equal(second["pole"], 2 * state)
    assert first is not state


def test_channels_first_images_become_channels_last():
    made = make(CAMERA)._env
    plain = made._get_observations
    made._get_observations = lambda: {"policy": plain()["policy"].movedim(-1, 1)}
    made.single_observation_space = Dict(policy=Box(-1, 1, (3, 36, 36)))
    env = IsaacLabEnv(made, make_converter("torch", "cpu"))
    assert env.single_observation_space == Box(-1, 1, (36, 36, 3))
    image, _ = env.reset(seed=0)
    assert torch.equal(image, plain()["policy"])


def test_returned_arrays_are_not_overwritten():
    env = make(episode_length_s=0.2)
    env.reset(seed=0)
    kept = [env.step(action) for action in pushes(env, 15)]
    copies = [[part.clone() for part in step[:4]] for step in kept]
    for action in pushes(env, 15):
        env.step(action)
    for step, copied in zip(kept, copies, strict=True):
        assert all(torch.equal(part, other) for part, other in zip(step, copied, strict=False))


def test_time_outs_are_truncations_unless_the_horizon_is_finite():
    ends = []
    for finite in (False, True):
        env = make(episode_length_s=0.1, is_finite_horizon=finite)
        env.reset(seed=0)
        ends.append([env.step(action)[2:4] for action in pushes(env, 6)][-1])
    assert [end.tolist() for end in ends[0]] == [[False] * 8, [True] * 8]
    assert [end.tolist() for end in ends[1]] == [[True] * 8, [False] * 8]


def test_lengths_metrics_and_other_attributes():
    env = make(episode_length_s=1)
    assert (env.max_episode_length, env.step_dt) == (60, pytest.approx(1 / 60))
    env.reset(seed=0)
    env.episode_length_buf = torch.full((8,), 59)
    *_, truncations, info = env.step(torch.zeros(8, 1))
    assert truncations.all()
    assert info["log"] == {"Episode/length": 60.0, "Curriculum/level": 1.0}
    assert "final_obs" not in info  # Isaac Lab 2 does not return it.
    assert env.extras["log"]["Curriculum/level"] == 1.0
    assert not hasattr(env, "get_state")


def test_discrete_actions_may_have_any_shape():
    env = make(DISCRETE)
    env.reset(seed=0)
    one = env.step(torch.zeros(8, dtype=torch.long))[0]
    env.reset(seed=0)
    assert torch.equal(env.step(torch.zeros(8, 1, dtype=torch.long))[0], one)


def test_several_agents_act_as_one():
    env = make("Isaac-Cart-Double-Pendulum-Direct-v0")
    assert env.single_observation_space.shape == (4 + 3,)
    assert env.single_action_space.shape == (1 + 1,)
    first, _ = env.reset(seed=0)
    assert torch.equal(first[:, 4:], first[:, :3])
    observations, rewards, *_ = env.step(torch.ones(8, 2))
    assert observations.shape == (8, 7)
    assert torch.allclose(rewards, 2 * env.env.reward_buf)


def test_closing_keeps_the_app_running():
    env = make()
    inner = env._env
    env.close(), env.close()
    assert inner.closed
    assert started_with()


def test_a_process_ends_with_the_status_of_its_last_run(monkeypatch):
    ends = []
    exits = types.SimpleNamespace(
        register=lambda end, status: ends.append(status), unregister=lambda end: ends.clear()
    )
    monkeypatch.setattr(app, "atexit", exits)
    shutdown = IsaacLabSuite().rltrain_shutdown
    stopped = types.SimpleNamespace(result=lambda: types.SimpleNamespace(exit_code=75))
    shutdown(session=stopped, error=None)
    assert not ends  # No app was started.
    make()
    for error, status in ((UsageError("x"), 2), (RuntimeError(), 1), (None, 75)):
        shutdown(session=stopped, error=error)
        assert ends == [status]
