"""The `env.` options, applied to mjlab's configuration of a task."""

from __future__ import annotations

import pytest

from rltrain.errors import UsageError
from rltrain_mjlab.config import with_options
from rltrain_mjlab.tasks import BUNDLED

BALANCE, GO1 = "Mjlab-Cartpole-Balance", "Mjlab-Velocity-Flat-Unitree-Go1"


def test_values_are_replaced_at_any_depth():
    config = with_options(
        GO1,
        {
            "decimation": 2,
            "episode_length_s": 10,
            "sim": {"mujoco": {"timestep": 0.004, "gravity": [0, 0, -1.6], "solver": "cg"}},
            "rewards": {"track_linear_velocity": {"weight": 3, "params": {"std": 0.3}}},
            "events": {"push_robot": None},
            "observations": {"actor": {"enable_corruption": False}},
            "commands": {"twist": {"ranges": {"lin_vel_x": [0, 2]}}},
        },
    )
    assert config.decimation == 2
    assert isinstance(config.episode_length_s, float)
    assert config.sim.mujoco.gravity == (0.0, 0.0, -1.6)
    assert config.sim.mujoco.solver == "cg"
    assert config.rewards["track_linear_velocity"].weight == 3.0
    assert config.rewards["track_linear_velocity"].params["std"] == 0.3
    assert config.events["push_robot"] is None
    assert config.observations["actor"].enable_corruption is False
    assert config.commands["twist"].ranges.lin_vel_x == (0.0, 2.0)
    assert with_options(GO1, {}).decimation != 2  # The registry's configuration did not change.


def test_tuple_items_are_set_by_index():
    config = with_options(GO1, {"scene": {"sensors": {"0": {"debug_vis": True}}}})
    assert config.scene.sensors[0].debug_vis is True
    assert isinstance(config.scene.sensors, tuple)


@pytest.mark.parametrize("task", [name for name in BUNDLED if "Tracking" not in name])
def test_a_task_is_played_without_noise_for_as_long_as_in_training(task):
    played, training = with_options(task, {"play": True}), with_options(task, {})
    assert played.episode_length_s == training.episode_length_s
    assert not played.observations["actor"].enable_corruption
    assert with_options(task, {"play": True, "episode_length_s": 7}).episode_length_s == 7.0


def test_options_of_what_only_training_has_are_left_out(capsys):
    of_training = {
        "events": {"push_robot": {"interval_range_s": [1.0, 2.0]}, "reset_base": {"params": {}}},
        "curriculum": {"command_vel": None},
        "decimation": 2,
    }
    assert with_options(GO1, of_training).events["push_robot"].interval_range_s == (1.0, 2.0)
    assert capsys.readouterr().err == ""
    played = with_options(GO1, {"play": True, **of_training})
    assert played.decimation == 2
    assert "push_robot" not in played.events
    assert capsys.readouterr().err == (
        "rltrain: env.events.push_robot: is left out: the task has no such part as it is played\n"
    )
    with pytest.raises(UsageError, match=r"env\.events\.push_robt: "):
        with_options(GO1, {"play": True, "events": {"push_robt": None}})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decimatoin": 2}, r"env\.decimatoin: .* no such option\. Did you mean 'decimation'\?"),
        (
            {"sim": {"mujoco": {"time_step": 1}}},
            r"env\.sim\.mujoco\.time_step: .* 'sim\.mujoco\.timestep'\?",
        ),
        ({"rewards": {"smooth": None}}, r"env\.rewards\.smooth: .* 'rewards\.smooth_reward'\?"),
        ({"decimation": 2.5}, r"env\.decimation=2\.5 \(task Mjlab-.*: must be a whole number"),
        ({"decimation": True}, "must be a whole number"),
        ({"decimation": None}, "must be a whole number"),
        ({"auto_reset": "no"}, "must be true or false"),
        ({"sim": {"mujoco": {"solver": "fast"}}}, "must be one of newton, cg, pgs"),
        ({"sim": {"mujoco": {"gravity": 9.81}}}, r"must be a list, such as \[0\.0, 0\.0, -9\.81"),
        ({"sim": 1}, "must be set part by part: nconmax, "),
        ({"rewards": {"smooth_reward": {"func": "mine"}}}, "code .* only Python can set"),
        ({"scene": {"num_envs": 4}}, r"env\.scene\.num_envs: .* --num-envs"),
        ({"seed": 4}, r"env\.seed: .* --seed"),
        ({"play": "yes"}, r"env\.play='yes': must be true or false"),
        ({"episode_length_s": -1}, "must be above 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        with_options(BALANCE, options)


def test_a_tracking_task_requires_a_motion(tmp_path):
    motion, task = tmp_path / "motion.npz", "Mjlab-Tracking-Flat-Unitree-G1"
    with pytest.raises(UsageError, match=r"env\.commands\.motion\.motion_file='': "):
        with_options(task, {})
    motion.touch()
    options = {"commands": {"motion": {"motion_file": str(motion)}}}
    assert with_options(task, options).commands["motion"].motion_file == str(motion)
