"""The suite's environments: groups, ends of episodes, lengths, seeds."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import torch

from rltrain.errors import UsageError
from rltrain.types import ArrayInfo
from rltrain_devkit import SuiteConformance
from rltrain_mjlab.plugin import describe
from rltrain_mjlab.tasks import BUNDLED

BALANCE, GO1 = "Mjlab-Cartpole-Balance", "Mjlab-Velocity-Flat-Unitree-Go1"
ROUGH = "Mjlab-Velocity-Rough-Unitree-Go1"
CAMERA = "Mjlab-Lift-Cube-Yam-Rgb"
SHORT = {"episode_length_s": 0.15}  # 3 steps.


def make(task=BALANCE, num_envs=3, **env):
    kit = SuiteConformance()
    kit.suite, kit.task, kit.num_envs = "mjlab", task, num_envs
    return closing(kit.make(env))


def still(env):
    return env.step(torch.zeros(env.action_space.shape))


def test_a_finite_horizon_terminates_episodes():
    with make(is_finite_horizon=True, **SHORT) as env:
        env.reset(seed=0)
        *_, (_, _, terminated, truncated, _) = [still(env) for _ in range(3)]
    assert terminated.all()
    assert not truncated.any()


def test_returned_arrays_are_not_overwritten():
    with make(**SHORT) as env:
        env.reset(seed=0)
        given = [still(env) for _ in range(3)]
        kept = [(o["policy"].clone(), r.clone(), t.clone()) for o, r, _, t, _ in given]
        still(env)
    for (observations, rewards, _, truncated, _), copies in zip(given, kept, strict=True):
        for now, before in zip((observations["policy"], rewards, truncated), copies, strict=True):
            assert torch.equal(now, before)


def test_final_observations_without_auto_reset():
    options = {"auto_reset": False, "observations": {"actor": {"enable_corruption": False}}}
    with make(**options) as env, make(**options) as uncut:
        env.reset(seed=0), uncut.reset(seed=0)
        env.episode_length_buf = torch.tensor([998, 5, 998])
        assert not still(env)[4]["_final_obs"].any()
        still(uncut)
        observations, _, _, truncated, info = still(env)
        assert info["_final_obs"].tolist() == truncated.tolist() == [True, False, True]
        final = info["final_obs"]["policy"]
        assert torch.equal(final, still(uncut)[0]["policy"])
        assert torch.equal(final[1], observations["policy"][1])
        assert not torch.equal(final[0], observations["policy"][0])
        assert env.episode_length_buf.tolist() == [0, 7, 0]
        assert "Episode_Reward/smooth_reward" in info["log"]


def test_lengths_that_are_set_are_copied():
    with make() as env:
        env.reset(seed=0)
        lengths = torch.tensor([998, 0, 3])
        env.episode_length_buf = lengths
        assert not still(env)[3].any()
        assert still(env)[3].tolist() == [True, False, False]
        assert lengths.tolist() == [998, 0, 3]


def test_random_numbers_are_separate():
    def play(env, between):
        env.reset(seed=1)
        seen = []
        for _ in range(3):
            between()
            seen.append(still(env)[0]["policy"])
        return torch.stack(seen)

    with make() as env, make() as other:
        torch.manual_seed(0)
        expected = torch.rand(1)
        torch.manual_seed(0)
        alone = play(env, lambda: None)
        assert torch.equal(torch.rand(1), expected)
        assert torch.equal(play(env, lambda: torch.rand(1)), alone)
        other.reset(seed=2)
        assert torch.equal(play(env, lambda: still(other)), alone)


def test_images_have_their_channels_last():
    with make(CAMERA, num_envs=2) as env:
        image = env.reset(seed=0)[0]["camera"]
        (given,) = [x for x in env._env.observation_manager.compute().values() if x.ndim == 4]
        assert env.single_observation_space["camera"].shape == (32, 32, 3)
        assert describe(CAMERA, {}).observations["camera"] == ArrayInfo((32, 32, 3), "float32")
    assert (image.dtype, image.shape, given.shape) == (
        torch.float32,
        (2, 32, 32, 3),
        (2, 3, 32, 32),
    )
    assert torch.equal(image, given.permute(0, 2, 3, 1))
    assert image.std() > 0.05


def test_wrong_use():
    with pytest.raises(UsageError, match=r"env\.observations\.actor\.concatenate_terms=true"):
        make(observations={"actor": {"concatenate_terms": False}})
    with pytest.raises(UsageError, match=r"mjlab cannot make the task .* disable flag 'contcat'"):
        make(sim={"mujoco": {"disableflags": ["contcat"]}})


def test_the_scene_is_where_the_simulation_is():
    with make() as env:
        env.reset(seed=0)
        env.step(torch.ones(env.action_space.shape))
        for index in (2, 0):
            _, data = env.mujoco_scene(index)
            there = env.simulation.sim.data.xpos[index].cpu()
            torch.testing.assert_close(torch.tensor(data.xpos, dtype=torch.float32), there)


STAGES = [
    {"step": 0, "lin_vel_x": [-1.0, 1.0]},
    {"step": 4, "lin_vel_x": [-2.0, 2.0]},
    {"step": 8, "lin_vel_x": [-3.0, 3.0]},
]


def stages(env, steps):
    """Step, and return the range of commands and the counter in each."""
    twist = env.simulation.command_manager.get_term("twist").cfg
    found = []
    for _ in range(steps):
        still(env)
        found.append((twist.ranges.lin_vel_x, env.simulation.common_step_counter))
    return found


def test_a_curriculum_goes_on_where_it_was():
    """Its stages depend on a counter, and are looked at only where an episode ends."""
    options = {"episode_length_s": 0.06, "curriculum": {"command_vel": {"params": {}}}}
    options["curriculum"]["command_vel"]["params"]["velocity_stages"] = STAGES
    with make(GO1, 2, **options) as whole, make(GO1, 3, **options) as again:
        whole.reset(seed=0)
        stages(whole, 6)  # Two episodes: those of both batches end in the same steps.
        again.set_curricula(whole.get_curricula())
        again.reset(seed=1)
        drawn = again.simulation.command_manager.get_command("twist")[:, 0].clone()
        after = stages(whole, 7)
        assert stages(again, 7) == after
        assert len({tuple(limits) for limits, _ in after}) == 2
        assert again.get_curricula() == whole.get_curricula()
    with make(GO1, 3, **options) as fresh:
        fresh.reset(seed=1)
        first = fresh.simulation.command_manager.get_command("twist")[:, 0]
    torch.testing.assert_close(drawn, 2 * first)  # Of the range that is twice as wide.


def test_levels_of_a_terrain_go_on_with_any_number_of_environments():
    with make(ROUGH, 2) as whole, make(ROUGH, 3) as again:
        whole.reset(seed=0)
        whole.simulation.scene.terrain.terrain_levels[:] = torch.tensor([3, 4])
        still(whole)
        again.set_curricula(whole.get_curricula())
        again.reset(seed=1)
        assert again.simulation.scene.terrain.terrain_levels.tolist() == [3, 4, 3]


@pytest.mark.slow
@pytest.mark.parametrize("task", BUNDLED)
def test_a_task_has_the_same_spaces_where_it_is_played(task, tmp_path):
    env = {"commands": {"motion": {"motion_file": motion(tmp_path)}}} if "Tracking" in task else {}
    with make(task, num_envs=1, play=True, **env) as played:
        info = describe(task, {})
        parts = played.single_observation_space.spaces
        assert {n: ArrayInfo(p.shape, str(p.dtype)) for n, p in parts.items()} == info.observations
        assert played.single_action_space.shape == info.actions
        assert played.max_episode_length == info.max_episode_length


def motion(folder):
    """Write a motion of the G1 that stands still."""
    joints, bodies = np.zeros((9, 29), np.float32), np.zeros((9, 30, 3), np.float32)
    turned = np.tile(np.float32([1, 0, 0, 0]), (9, 30, 1))
    arrays = {"joint_pos": joints, "joint_vel": joints, "body_quat_w": turned}
    arrays |= dict.fromkeys(("body_pos_w", "body_lin_vel_w", "body_ang_vel_w"), bodies)
    np.savez(folder / "motion.npz", **arrays)
    return str(folder / "motion.npz")
