"""Isaac Lab's own tasks as the suite describes and makes them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout == f"{not starts_ranks}\n", done.stdout + done.stderr
