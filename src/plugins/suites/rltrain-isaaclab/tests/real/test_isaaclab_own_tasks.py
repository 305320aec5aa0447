"""Presets, `--agent`, and tasks of projects that Isaac Lab's own generator writes."""

from __future__ import annotations

import importlib
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

DIRECT = "Isaac-Cartpole-Direct"
LEFT_OUT = (
    *(".gitattributes", ".gitignore", ".pre-commit-config.yaml"),
    *(".vscode/tasks.json", ".vscode/tools/launch.template.json"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("Isaac-Reach-Franka", "presets=hold"), ["rsl_rl, ppo", "task's authors", " 3000 "]),
        (("Isaac-Reach-Franka",), [" 1000 "]),
        (
            ("Isaac-Cartpole", "--agent", "rsl_rl_with_symmetry_cfg_entry_point"),
            ["those rsl_rl_with_symmetry of", "symmetry:compute_symmetric_states"],
        ),
        (("IsaacContrib-Cartpole-Showcase-Direct", "presets=box_discrete"), ["(discrete actions)"]),
    ],
)
def test_the_plan_follows(rltrain, words, told):
    plan = rltrain("--task", *words, "--device", "cpu", "--dry-run").stdout
    for text in told:
        assert text in plan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            (DIRECT, "physics=isaacsim_physx"),
            "needs the package isaacsim. Install it, or give physics=newton_mjwarp.",
        ),
        (
            (DIRECT, "presets=netwon"),
            "env.presets=netwon (task Isaac-Cartpole-Direct): Unknown preset(s): netwon. "
            "The task has physics=isaacsim_physx or newton_kamino or newton_mjwarp",
        ),
        (
            (DIRECT, "env.sim.physics=isaacsim_physx"),
            "needs the package isaacsim. Install it, or give physics=newton_mjwarp.",
        ),
        ((DIRECT, "--agent", "rsl_rl_symmetry"), "There are: rl_games, rsl_rl, torchrl, skrl"),
        (("Isaac-Cartpole-Dirct",), "Did you mean 'Isaac-Cartpole-Direct'?"),
    ],
)
def test_what_cannot_work_is_refused_before_ranks_start(rltrain, words, reason):
    refused = rltrain("--task", *words, "--device", "cpu", status=2)
    assert reason in refused.stderr
    assert "starting" not in refused.stdout


@pytest.fixture
def generate(tmp_path, monkeypatch):
    """Isaac Lab's generator, in a folder laid out as its repository."""
    import isaaclab

    template = tmp_path / "tools" / "template"
    shutil.copytree(Path(isaaclab.__file__).parent / "tools" / "template", template)
    for name in LEFT_OUT:  # Of the wheel of 3.0.0: the repository has them.
        file = template / "templates" / "external" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.syspath_prepend(str(template))
    for name in ("generator", "common"):  # They know the folder that they lie in.
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("generator").generate


@pytest.fixture
def project(generate, tmp_path, monkeypatch):
    """A project by Isaac Lab's generator, installed as `pip install -e` would."""
    generate(
        {
            "external": True,
            "path": str(tmp_path),
            "name": "vials",
            "authors": ["Someone"],
            "initial_content": "cartpole",
            "isaaclab_version": "3.0.0",
            "isaaclab_optional_extras": [],
            "task_name": "balance",
            "robot_name": "cart",
            "include_ui_extension": False,
            "workflows": [{"name": "direct", "type": "single-agent"}],
            "rl_libraries": [{"name": "rsl_rl", "algorithms": ["ppo"]}],
        }
    )
    declared = tomllib.loads((tmp_path / "vials" / "pyproject.toml").read_text())["project"]
    (package,) = {path.parent for path in (tmp_path / "vials").rglob("vials/__init__.py")}
    info = tmp_path / "installed" / "vials-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vials\nVersion: 0\n")
    points = declared["entry-points"]["isaaclab.tasks"]
    lines = "\n".join(f"{name} = {module}" for name, module in points.items())
    (info / "entry_points.txt").write_text(f"[isaaclab.tasks]\n{lines}\n")
    path = ":".join([str(info.parent), str(package.parent), *sys.path[1:]])
    monkeypatch.setenv("PYTHONPATH", path)


@pytest.mark.slow
def test_a_generated_project_is_trained_by_its_name(project, rltrain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = rltrain(
        *("--task", "Vials-Balance-Cart-Direct", "--device", "cpu", "--num-envs", 8),
        *("--max-iterations", 2),
    )
    assert "2/2" in trained.stdout


@pytest.fixture
def internal(generate, tmp_path, monkeypatch):
    """Tasks that Isaac Lab's generator writes among its own, one of them with two agents."""
    import isaaclab_tasks

    sources = tmp_path / "source" / "isaaclab_tasks"
    shutil.copytree(Path(isaaclab_tasks.__file__).parent, sources / "isaaclab_tasks")
    generate(
        {
            "external": False,
            "name": "vials",
            "workflows": [
                {"name": "direct", "type": "single-agent"},
                {"name": "direct", "type": "multi-agent"},
            ],
            "rl_libraries": [
                {"name": "rsl_rl", "algorithms": ["ppo"]},
                {"name": "skrl", "algorithms": ["mappo"]},
            ],
        }
    )
    monkeypatch.setenv("PYTHONPATH", ":".join([str(sources), *sys.path[1:]]))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["Isaac-Vials-Direct", "Isaac-Vials-Marl-Direct"])
def test_an_internal_task_of_the_generator_is_trained(internal, task, rltrain, tmp_path):
    # Several agents are trained as one.
    trained = rltrain(
        *("--task", task, "--library", "rsl_rl", "--device", "cpu", "--num-envs", 8),
        *("--max-iterations", 2),
    )
    assert "2/2" in trained.stdout
