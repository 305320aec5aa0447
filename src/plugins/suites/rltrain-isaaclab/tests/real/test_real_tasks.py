"""Isaac Lab's own tasks: described, made, shown; why one cannot be made here."""

from __future__ import annotations

import importlib.util
import re
import signal
import sys

import pytest
from helpers import python

from rltrain.errors import UsageError
from rltrain_isaaclab import drawing
from rltrain_isaaclab.plugin import describe, tuned

TASK = "Isaac-Cartpole-Direct"


def test_a_task_is_described():
    info = describe(TASK, {})
    assert (info.action, info.actions, info.num_envs) == ("continuous", (1,), 4096)
    assert info.max_episode_length == 300
    options = tuned(info, "rsl_rl", "ppo")
    assert options["actor"]["distribution_cfg"]["init_std"] == 1.0
    assert "policy" not in options


def test_the_command_line_and_signal_handlers_are_as_before(make):
    handler = signal.getsignal(signal.SIGTERM)
    env = make(TASK, num_envs=3)
    assert (env.cfg.sim.device, env.cfg.scene.num_envs) == ("cpu", 3)
    assert sys.argv[1:] == ["--flag-of-ours"]
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.slow
@pytest.mark.parametrize("starts_ranks", [True, False])
def test_only_a_process_that_makes_the_environments_imports_isaac_lab(starts_ranks):
    code = (
        "import sys; from rltrain.plan.resolve import make_plan; "
        f"make_plan(dict(task={TASK!r}, library='rsl_rl', device='cpu', nproc_per_node=2, "
        f"distributed=True) if {starts_ranks} else dict(task={TASK!r}, device='cpu')); "
        "print('isaaclab' in sys.modules)"
    )
    assert python(code).stdout == f"{not starts_ranks}\n"


def test_a_visualizer_draws_without_a_window(make):
    import torch

    if drawing.lacking("newton_gl"):
        pytest.skip(drawing.lacking("newton_gl"))
    env = make("Isaac-Cartpole-Direct", renders=True)
    env.reset(seed=1)
    frames = []
    for _ in range(2):
        for _ in range(5):
            env.step(torch.ones(env.action_space.shape))
        frames.append(env.render()[0])
    assert {frame.shape for frame in frames} == {(720, 1280, 3)}
    assert frames[0].std() > 1
    assert (frames[0] != frames[1]).any()
    assert [each.headless for each in env.cfg.sim.visualizer_cfgs] == [True]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"viz": "newton_gl,no"}, r"env\.viz=no: must be one or more of kit, newton_gl"),
        ({"viz": "kit"}, r"env\.viz=kit: Isaac Lab's visualizer kit needs isaacsim, which is not"),
        ({"video_source": "eye"}, r"env\.video_source='eye': must be visualizer:TYPE"),
    ],
)
def test_what_cannot_be_shown_is_refused(options, reason):
    with pytest.raises(UsageError, match=reason):
        drawing.check(options)


@pytest.mark.parametrize(
    ("name", "port", "readers"),
    # rerun's servers take no interface.
    [("viser", "port", "for this machine"), ("rerun", "web_port", "for all who reach this")],
)
def test_the_address_of_a_page_is_shown_and_who_may_read_it(capsys, name, port, readers):
    class Settings:
        sim = type("Sim", (), {"visualizer_cfgs": []})

    pytest.importorskip("viser")
    drawing.prepare(Settings(), [name], None, windows=False)
    [page] = Settings.sim.visualizer_cfgs
    assert (page.visualizer_type, page.bind_address) == (name, "127.0.0.1")
    assert f"http://127.0.0.1:{getattr(page, port)}, {readers}" in capsys.readouterr().out


MAKE = """
from rltrain.errors import UsageError
from rltrain_devkit import SuiteConformance
kit = SuiteConformance()
kit.suite, kit.task = "isaaclab", "Isaac-Cartpole-Direct"
try:
    kit.make({})
except UsageError as error:
    print(f"refused: {error}")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("/nowhere/at/all", r"needs a file that is not there: .*/nowhere/at/all/Isaac/IsaacLab/"),
        ("http://127.0.0.1:9/assets", r"(omni\.client|a file)"),
    ],
)
def test_a_missing_file_is_named(root, reason):
    result = python(MAKE, timeout=280, ISAACSIM_ASSET_ROOT=root)
    (told,) = [line for line in result.stdout.splitlines() if line.startswith("refused: ")]
    assert re.search(reason, told)
    assert "set it to a folder" in told
    assert root in told


@pytest.mark.parametrize(
    ("preset", "reason"),
    [
        ("simple_shading_full_mdl", r"NewtonWarpRendererCfg only supports data types"),
        pytest.param(
            *("resnet18", r"needs the package torchvision|libGL"),
            marks=pytest.mark.skipif(
                importlib.util.find_spec("torchvision") is not None,
                reason="for sets without torchvision",
            ),
        ),
    ],
)
def test_cameras_that_cannot_work_here_are_refused(make, preset, reason):
    with pytest.raises(UsageError, match=reason):
        make("Isaac-Cartpole-Camera", presets=preset)
