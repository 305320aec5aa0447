"""The names of Playground's tasks, without importing Playground, which takes seconds."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

BUNDLED: Mapping[str, int] = dict.fromkeys(
    (
        "CartpoleBalance",
        "CartpoleBalanceSparse",
        "CartpoleSwingup",
        "CartpoleSwingupSparse",
        "AcrobotSwingup",
        "AcrobotSwingupSparse",
        "BallInCup",
        "CheetahRun",
        "FingerSpin",
        "FingerTurnEasy",
        "FingerTurnHard",
        "FishSwim",
        "HopperHop",
        "HopperStand",
        "HumanoidRun",
        "HumanoidStand",
        "HumanoidWalk",
        "PendulumSwingup",
        "PointMass",
        "ReacherEasy",
        "ReacherHard",
        "SwimmerSwimmer6",
        "WalkerRun",
        "WalkerStand",
        "WalkerWalk",
    ),
    1000,
)
"""The tasks that need no download, with the length of their episodes in steps."""

MENAGERIE: Mapping[str, int] = {
    "AeroCubeRotateZAxis": 500,
    "AlohaHandOver": 250,
    "AlohaSinglePegInsertion": 500,
    "ApolloJoystickFlatTerrain": 1000,
    "BarkourJoystick": 1000,
    "BerkeleyHumanoidJoystickFlatTerrain": 1000,
    "BerkeleyHumanoidJoystickRoughTerrain": 1000,
    "G1JoystickFlatTerrain": 1000,
    "G1JoystickRoughTerrain": 1000,
    "Go1Footstand": 500,
    "Go1Getup": 300,
    "Go1Handstand": 500,
    "Go1JoystickFlatTerrain": 1000,
    "Go1JoystickRoughTerrain": 1000,
    "H1InplaceGaitTracking": 1000,
    "H1JoystickGaitTracking": 1000,
    "LeapCubeReorient": 1000,
    "LeapCubeRotateZAxis": 500,
    "Op3Joystick": 1000,
    "PandaOpenCabinet": 150,
    "PandaPickCube": 150,
    "PandaPickCubeCartesian": 200,
    "PandaPickCubeOrientation": 150,
    "PandaRobotiqPushCube": 750,
    "SpotFlatTerrainJoystick": 1000,
    "SpotGetup": 300,
    "SpotJoystickGaitTracking": 1000,
    "T1JoystickFlatTerrain": 1000,
    "T1JoystickRoughTerrain": 1000,
}
"""The tasks with robots of MuJoCo Menagerie, which Playground downloads, with their lengths."""


def has_menagerie() -> bool:
    """Return whether Playground has downloaded MuJoCo Menagerie."""
    found = importlib.util.find_spec("mujoco_playground")
    folders = (found.submodule_search_locations if found else None) or []
    return any(Path(folder, "external_deps", "mujoco_menagerie").is_dir() for folder in folders)
