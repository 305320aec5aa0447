"""`env.` options, applied to configurations of the stand-in."""

from __future__ import annotations

import dataclasses
import functools

import gymnasium
import pytest
from messages import check_said, says

from rltrain.errors import UsageError
from rltrain_isaaclab import compat, options

TASK = "Isaac-Cartpole-v0"
VARIANT = "Isaac-Cartpole-Play-v0"


@pytest.fixture
def cfg():
    compat.start_to_look()
    compat.registered(TASK)
    return compat.load(TASK)[0]


def test_values_at_any_depth(cfg):
    given = {
        "decimation": 4.0,
        "episode_length_s": 7.5,
        "sim": {"dt": 1, "render_interval": 3},
        "rewards": {"alive": {"weight": 2, "params": {"target": 1, "limits": [-2, 2]}}},
        "actions": {"joint_effort": {"joint_names": ["other"]}},
        "is_finite_horizon": True,
    }
    options.change(cfg, given, TASK)
    assert (cfg.decimation, cfg.episode_length_s, cfg.is_finite_horizon) == (4, 7.5, True)
    assert isinstance(cfg.decimation, int)
    assert (cfg.sim.dt, cfg.sim.render_interval) == (1.0, 3)
    assert cfg.rewards.alive.weight == 2.0
    assert cfg.rewards.alive.params == {"target": 1.0, "limits": (-2, 2)}
    assert cfg.rewards.pole_pos.weight == -1.0
    assert cfg.actions.joint_effort.joint_names == ["other"]


def test_items_of_lists_and_functions_by_name(cfg):
    effort = {"joint_names": {"0": "other"}, "class_type": "math:sqrt"}
    options.change(cfg, {"actions": {"joint_effort": effort}}, TASK)
    assert cfg.actions.joint_effort.joint_names == ["other"]
    assert cfg.actions.joint_effort.class_type(4) == 2


def test_null_replaces_any_value(cfg):
    options.change(cfg, {"rewards": {"pole_pos": None}}, TASK)
    assert cfg.rewards.pole_pos is None


@pytest.mark.parametrize(
    "given",
    [
        {"decimaton": 4},
        {"sim": {"dtt": 4}},
        {"sim": {"dt": {"x": 4}}},
        {"decimation": 2.5},
        {"decimation": True},
        {"is_finite_horizon": 1},
        {"rewards": {"alive": 3}},
        {"actions": {"joint_effort": {"class_type": 3}}},
        {"scene": {"num_envs": 3}},
        {"sim": {"device": "cpu"}},
        {"seed": 1},
        {"viz": "rerum"},
    ],
)
def test_values_that_do_not_fit_are_refused(cfg, given):
    with says(UsageError):
        options.change(cfg, given, TASK)


def test_a_preset_may_be_chosen_for_one_part(monkeypatch):
    monkeypatch.setattr(compat, "preset_paths", lambda task: {"sim.physics": ["newton"]})
    given = {"presets": ["a", "b"], "sim": {"physics": "newton", "dt": 1}}
    wanted = {"sim": {"dt": 1}}, ["presets=a,b", "env.sim.physics=newton"]
    assert options.without_presets(given, TASK) == wanted


@dataclasses.dataclass
class Pushes:
    strength: float = 1.0


@dataclasses.dataclass
class Played:
    """A configuration that has `play_mode()`, as those of Isaac Lab 3."""

    noise: bool = True
    episode_length_s: float = 5.0
    speed: float = 1.0
    pushes: Pushes | None = dataclasses.field(default_factory=Pushes)

    def play_mode(self):
        self.noise, self.pushes, self.episode_length_s = False, None, 1e9


@pytest.fixture
def playable(cfg, monkeypatch):
    """Give the task a configuration that has `play_mode()`."""
    del cfg
    monkeypatch.setitem(gymnasium.spec(TASK).kwargs, "env_cfg_entry_point", Played)


def test_a_configuration_for_playing(playable, capsys):
    given = {"play": True, "pushes": {"strength": 2.0}, "speed": 3}
    assert options.configured(TASK, given, []) == Played(noise=False, pushes=None, speed=3.0)
    check_said(capsys.readouterr().err)


def test_a_configuration_for_playing_of_its_own_entry_point(playable, monkeypatch):
    """As unitree_rl_lab registers one with each task."""
    own = functools.partial(Played, noise=False, episode_length_s=99.0)
    monkeypatch.setitem(gymnasium.spec(TASK).kwargs, compat.PLAYED, own)
    assert options.configured(TASK, {"play": True}, []) == Played(noise=False)
    assert compat.cannot_play(TASK, options.configured(TASK, {}, [])) is None


@pytest.mark.parametrize(
    ("task", "other"), [(TASK, "; --task Isaac-Cartpole-Play-v0 is one"), (VARIANT, "")]
)
def test_a_task_without_a_configuration_for_playing_names_its_variant(cfg, task, other):
    told = f"{task} is played as it is trained: it registers no configuration for playing{other}"
    assert compat.cannot_play(task, cfg) == told
    with pytest.raises(UsageError) as refused:
        options.configured(task, {"play": True}, [])
    assert str(refused.value) == f"env.play=true: {told}."
    with says(UsageError):
        options.configured(task, {"play": "yes"}, [])
    assert options.configured(task, {"play": False}, []).decimation == 2
