"""Prints which libraries train the tasks of packages that register them with Gymnasium.

python tests/corpus/gymnasium_packages.py [PACKAGE ...]

Needs uv, which puts each package above the environment in which this runs: nothing is installed
there, and packages whose requirements contradict each other do not meet. Each library trains for
two iterations on two fake ranks, as `--task MODULE:NAME` does.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("rl_games", "rsl_rl", "skrl")
SHORT = {
    "rl_games": {"params.config.horizon_length": 16},
    "rsl_rl": {"num_steps_per_env": 16},
    "skrl": {"agent.rollouts": 16},
}
TRAINS = "trains"
PACKAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "ale-py": ("ale_py:ALE/Pong-v5", {}),
    "ap-gym": ("ap_gym:CircleSquare-v0", {}),
    "bbrl-gymnasium": ("bbrl_gymnasium:CartPoleContinuous-v1", {}),
    "bluesky-gym": ("bluesky_gym:DescentEnv-v0", {}),
    "buffalo-gym": ("buffalo_gym:Buffalo-v0", {}),
    "crafter": ("crafter:CrafterReward-v1", {}),
    "evogym-py313": ("evogym.envs:Walker-v0", {}),
    "flappy-bird-gymnasium": ("flappy_bird_gymnasium:FlappyBird-v0", {}),
    "gym-aloha": (
        "gym_aloha:gym_aloha/AlohaTransferCube-v0",
        {"observation_width": 64, "observation_height": 48},
    ),
    "gym-anytrading": ("gym_anytrading:stocks-v0", {}),
    "gym-electric-motor": ("gym_electric_motor:Cont-CC-PMSM-v0", {}),
    "gym-hil": ("gym_hil:gym_hil/PandaPickCubeBase-v0", {}),
    "gym-pusht": ("gym_pusht:gym_pusht/PushT-v0", {}),
    "gym-sailing": ("gym_sailing:Motorboat-v0", {}),
    "gym-simplegrid": ("gym_simplegrid:SimpleGrid-8x8-v0", {}),
    "gym-super-mario-bros": ("gym_super_mario_bros:SuperMarioBros-v0", {}),
    "gym-trading-env": ("gym_trading_env:TradingEnv", {}),
    "gym-xarm": ("gym_xarm:gym_xarm/XarmLift-v0", {}),
    "gymnasium-2048": ("gymnasium_2048:gymnasium_2048/TwentyFortyEight-v0", {}),
    "gymnasium-cartpole-swingup": ("gymnasium_cartpole_swingup:CartPoleSwingUp-v0", {}),
    "gymnasium-hardmaze": ("gymnasium_hardmaze:HardMaze-v0", {}),
    "gymnasium-robotics": ("gymnasium_robotics:FetchReach-v4", {}),
    "gymnasium-search-race": (
        "gymnasium_search_race:gymnasium_search_race/SearchRace-v3",
        {},
    ),
    "gymnasium-snake-game": ("gymnasium_snake_game:Snake-v1", {}),
    "gymnasium-sudoku": ("gymnasium_sudoku:sudoku-v0", {}),
    "highway-env": ("highway_env:highway-fast-v0", {}),
    "lbforaging": ("lbforaging:Foraging-8x8-2p-3f-v3", {}),
    "mazegym": ("mazegym:Maze5x5Fixed-v0", {}),
    "metaworld": ("metaworld:Meta-World/MT1", {"env_name": "reach-v3"}),
    "minigrid": ("minigrid:MiniGrid-Empty-5x5-v0", {}),
    "miniworld": ("miniworld:MiniWorld-Hallway-v0", {}),
    "mo-gymnasium": ("mo_gymnasium:mo-mountaincar-v0", {}),
    "neurogym": ("neurogym:PerceptualDecisionMaking-v0", {}),
    "panda-gym": ("panda_gym:PandaReach-v3", {}),
    "popgym": ("popgym:popgym-RepeatPreviousEasy-v0", {}),
    "pybullet-envs-gymnasium": ("pybullet_envs_gymnasium:AntBulletEnv-v0", {}),
    "PyFlyt": ("PyFlyt.gym_envs:PyFlyt/QuadX-Hover-v4", {}),
    "rware": ("rware:rware-tiny-2ag-v2", {}),
    "safety-gymnasium": ("safety_gymnasium:SafetyPointGoal1Gymnasium-v0", {}),
    "shimmy[dm-control]": ("shimmy:dm_control/cartpole-balance-v0", {}),
    "stable-worldmodel": ("stable_worldmodel:swm/PushT-v1", {}),
    "tetris-gymnasium": ("tetris_gymnasium.envs:tetris_gymnasium/Tetris", {}),
    "vizdoom": ("vizdoom.gymnasium_wrapper:VizdoomBasic-v1", {}),
}
"""A task of each, with options that it needs."""
NEEDS = {"gymnasium-robotics": ["mujoco<3.3"], "shimmy[dm-control]": ["mujoco<3.4"]}
"""What else a package needs, and does not say."""


def outcome(library: str, task: str, env: dict[str, Any], logs: str) -> str:
    """Return that a library trains a task, the reason why it is refused, or how it fails."""
    from rltrain.errors import UsageError
    from rltrain.testing import FakeWorld

    world = FakeWorld(2, rank_local=["skrl:config.torch"] if library == "skrl" else ())
    run = {"library": library, "task": task, "env": env, "agent": SHORT[library], "num_envs": 2}
    try:
        runs = world.train(**run, max_iterations=2, scale_minibatches=True, log_root=logs)
    except UsageError as error:
        return f"refused: {error}".partition("\n")[0]
    except Exception as error:
        traceback.print_exc()
        return f"FAILS: {type(error).__name__}: {error}".partition("\n")[0]
    return (
        TRAINS
        if runs[0].result.iterations == 2
        else f"FAILS: {runs[0].result.iterations} iterations"
    )


def tried(package: str) -> dict[str, str]:
    """Return the package's version, and the outcome by library, from a process of its own."""
    needed = [part for each in (package, *NEEDS.get(package, ())) for part in ("--with", each)]
    with tempfile.TemporaryDirectory(prefix="rltrain-packages-") as folder:
        result, pins = Path(folder, "result"), Path(folder, "pins")
        pins.write_text(f"torch=={version('torch')}\n")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "uv", "run", "--quiet", "--no-project", *needed),
                *("python", __file__, "--try", package, str(result)),
            ],
            env=os.environ
            | {"VIRTUAL_ENV": sys.prefix, "UV_CONSTRAINT": str(pins)}
            | {"MUJOCO_GL": "egl"},  # Without a screen, MuJoCo draws by it.
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
        )
        came = json.loads(result.read_text()) if result.exists() else {}
    lost = f"FAILS: status {done.returncode}" if came else "cannot be installed here"
    return dict.fromkeys(LIBRARIES, lost) | {"version": ""} | came


def _try(package: str, result: str) -> None:
    task, env = PACKAGES[package]
    came = {"version": version(package.partition("[")[0])}
    for library in LIBRARIES:
        Path(result).write_text(json.dumps(came))
        came[library] = outcome(library, task, env, "logs")
    Path(result).write_text(json.dumps(came))
    os._exit(0)  # Simulators end a process in their own way.


def short(came: str, task: str) -> str:
    """Return an outcome in the same words for each task and machine."""
    of_task = came.replace(task, "TASK").partition(" Suites searched")[0]
    unmet = re.search(r" gymnasium \(unmet: [^)]*\)", came)
    return re.sub(r"\(/\S*site-packages/", "(", of_task) + (unmet[0] if unmet else "")


def main(packages: list[str]) -> None:
    reasons: dict[str, int] = {}
    print(f"| package | task | {' | '.join(LIBRARIES)} |\n|---|---|{'---|' * len(LIBRARIES)}")
    for package in packages:
        task, _ = PACKAGES[package]
        came = tried(package)
        cells = [
            came[library]
            if came[library] == TRAINS
            else f"({reasons.setdefault(short(came[library], task), len(reasons) + 1)})"
            for library in LIBRARIES
        ]
        print(f"| {package} {came['version']} | `{task}` | {' | '.join(cells)} |", flush=True)
    print("", *(f"({number}) {reason}" for reason, number in reasons.items()), sep="\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--try"]:
        _try(*sys.argv[2:])
    else:
        main(sys.argv[1:] or list(PACKAGES))
