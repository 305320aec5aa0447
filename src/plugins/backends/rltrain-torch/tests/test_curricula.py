"""What curricula change in an environment with managers, saved and set again."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from messages import says

from rltrain.data import pack_object, unpack_object
from rltrain_torch.curricula import Curricula


@dataclass
class Term:
    func: Any = None
    weight: float = 1.0
    params: dict[str, Any] = field(default_factory=lambda: {"range": (-1.0, 1.0), "names": ["a"]})


class Difficulty:
    """A curriculum that is an object, as `DifficultyScheduler` of Isaac Lab."""

    def __init__(self, num_envs: int) -> None:
        self.levels, self.fraction = torch.zeros(num_envs), 0
        self.scales = torch.tensor([1.0, 2.0])


def make(num_envs=2, rows=9):
    """Make what an environment of Isaac Lab has of a curriculum."""
    origins = torch.zeros(rows, 3, 3)
    terrain = types.SimpleNamespace(
        terrain_levels=torch.zeros(num_envs, dtype=torch.long), terrain_origins=origins
    )
    motion = types.SimpleNamespace(bin_failed_count=torch.zeros(5))
    return types.SimpleNamespace(
        num_envs=num_envs,
        common_step_counter=0,
        obs_buf=torch.zeros(num_envs),
        obstacle_levels=torch.zeros(num_envs),
        scene=types.SimpleNamespace(terrain=terrain),
        curriculum_manager=types.SimpleNamespace(cfg={"adr": Term(Difficulty(num_envs))}),
        reward_manager=types.SimpleNamespace(cfg={"alive": Term()}),
        command_manager=types.SimpleNamespace(
            cfg=None, active_terms=["motion"], get_term=lambda name: motion
        ),
    )


def learn(env):
    """Change what a curriculum changes, and some of the simulation."""
    env.common_step_counter = 7
    env.obs_buf += 1
    env.obstacle_levels += torch.tensor([2.0, 3.0])
    env.scene.terrain.terrain_levels += torch.tensor([4, 8])
    adr = env.curriculum_manager.cfg["adr"].func
    adr.levels, adr.fraction = adr.levels + torch.tensor([1.0, 5.0]), torch.tensor(0.5)
    env.command_manager.get_term("motion").bin_failed_count[3] = 0.25
    alive = env.reward_manager.cfg["alive"]
    alive.weight, alive.params["range"] = 0.5, (-2.0, 2.0)


@pytest.fixture
def state():
    env = make()
    curricula = Curricula(env)
    assert curricula.get_state() == {}
    learn(env)
    return unpack_object(pack_object(curricula.get_state()))


def test_what_has_changed_is_saved_and_the_simulation_is_not(state):
    arrays = ("obstacle_levels", "terrain_levels", "curriculum.adr.levels")
    assert {name: state[name].tolist() for name in arrays} == {
        "obstacle_levels": [2.0, 3.0],
        "terrain_levels": [4, 8],
        "curriculum.adr.levels": [1.0, 5.0],
    }
    assert state["command.motion.bin_failed_count"][3] == 0.25
    numbers = {"common_step_counter", "curriculum.adr.fraction", "reward.alive.weight"}
    assert state.keys() == {
        *arrays,
        *numbers,
        "command.motion.bin_failed_count",
        "reward.alive.params.range",
    }


def test_other_environments_go_on_from_there(state):
    env = make(num_envs=3, rows=6)
    curricula = Curricula(env)
    curricula.set_state(state)
    adr, alive = env.curriculum_manager.cfg["adr"].func, env.reward_manager.cfg["alive"]
    assert env.common_step_counter == 7
    assert env.obstacle_levels.tolist() == [2.0, 3.0, 2.0]
    assert env.scene.terrain.terrain_levels.tolist() == [4, 5, 4]  # It has six rows.
    assert (adr.levels.tolist(), adr.fraction) == ([1.0, 5.0, 1.0], 0.5)
    assert (alive.weight, alive.params["range"]) == (0.5, (-2.0, 2.0))
    again = curricula.get_state()
    assert again.keys() == state.keys()


def test_what_was_set_holds_after_the_first_reset_alone(state):
    env = make()
    curricula = Curricula(env)
    curricula.set_state(state)
    for levels in ([4, 8], [0, 0]):
        env.scene.terrain.terrain_levels[:] = 0  # As a reset may.
        curricula.after_reset()
        assert env.scene.terrain.terrain_levels.tolist() == levels


def test_what_is_not_there_any_more_is_left(state):
    env = make()
    del env.obstacle_levels, env.reward_manager.cfg["alive"]
    env.command_manager.get_term("motion").bin_failed_count = torch.zeros(4)
    Curricula(env).set_state(state)
    assert env.common_step_counter == 7
    assert not env.command_manager.get_term("motion").bin_failed_count.any()


@pytest.mark.parametrize(
    ("name", "value"),
    [("common_step_counter", "x"), ("terrain_levels", 3), ("reward.alive.params.range", "ab")],
)
def test_another_kind_of_value_is_refused(name, value):
    with says(ValueError):
        Curricula(make()).set_state({name: value})
