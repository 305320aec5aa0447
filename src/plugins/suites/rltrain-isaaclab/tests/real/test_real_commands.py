"""What was trained on Isaac Lab is resumed, evaluated, played and exported."""

from __future__ import annotations

import json

import pytest

import rltrain as package
from rltrain.cli import main
from rltrain_isaaclab import compat
from rltrain_play.metadata import plain

pytestmark = pytest.mark.slow

TASK = "Isaac-Cartpole-Direct"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The result of a short run in this process."""
    return package.train(
        library="rsl_rl",
        task=TASK,
        num_envs=8,
        max_iterations=2,
        device="cpu",
        agent={"num_steps_per_env": 4},
        log_root=str(tmp_path_factory.mktemp("logs")),
    )


def test_a_run_is_resumed_evaluated_and_played(trained, capsys):
    package.train(resume=trained.run_dir, max_iterations=3)
    assert "finished  iteration 3/3 " in capsys.readouterr().out
    assert main(["evaluate", trained.run_dir, "--episodes", "4", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["episodes"] == 4
    assert main(["play", trained.run_dir, "--steps", "3"]) == 0
    assert "3" in capsys.readouterr().out


BOTS = """

import gymnasium
import isaaclab_tasks
from isaaclab_tasks.utils import load_cfg_from_registry


def played():
    cfg = load_cfg_from_registry("Isaac-Cartpole-Direct", "env_cfg_entry_point")
    cfg.max_cart_pos = 0.0  # An episode ends with its first step.
    return cfg


spec = gymnasium.spec("Isaac-Cartpole-Direct")
kwargs = {**spec.kwargs, "play_env_cfg_entry_point": played}
gymnasium.register("Bot-Balance", spec.entry_point, disable_env_checker=True, kwargs=kwargs)
"""


@pytest.mark.parametrize(("words", "short"), [((), True), (("env.play=false",), False)])
def test_another_task_is_played_by_its_own_configuration_for_it(
    words, short, trained, capsys, tmp_path, monkeypatch
):
    (tmp_path / "played_bots.py").write_text(BOTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    task = ("--task", "played_bots:Bot-Balance", "physics=newton_mjwarp")
    assert main(["evaluate", trained.run_dir, *task, *words, "--episodes", "2", "--json"]) == 0
    printed = capsys.readouterr()
    (told,) = json.loads(printed.out)
    assert (told["length"]["mean"] == 1) == short
    assert "played_bots:Bot-Balance, with the policy and the env. options of" in printed.err


def test_a_policy_is_exported_and_checked(trained, tmp_path):
    file = tmp_path / "policy.pt"
    assert main(["export", trained.run_dir, "--format", "jit", "--output", str(file)]) == 0
    assert file.is_file()
    told = json.loads(file.with_suffix(".json").read_text())["isaaclab"]
    assert told["scene"] == {"decimation": 2, "physics_dt": pytest.approx(1 / 120)}
    (robot,) = told["articulations"].values()
    assert robot["joint_names"] == ["slider_to_cart", "cart_to_pole"]
    assert robot["default_joint_pos"] == [0.0, 0.0]


def test_what_a_robot_needs_is_told_of_a_task_with_managers(make):
    """As JSON has it: actions with scale and offset, and observation terms in their order."""
    told = plain(compat.described(make("Isaac-Cartpole").unwrapped))
    json.dumps(told)
    (action,) = told["actions"]
    assert (action["joint_names"], action["scale"]) == (["slider_to_cart"], 100.0)
    assert [term["name"] for term in told["observations"]["policy"]]
    assert told["scene"]["decimation"] == 2
    assert {"default_joint_stiffness", "default_joint_pos"} <= set(*told["articulations"].values())
