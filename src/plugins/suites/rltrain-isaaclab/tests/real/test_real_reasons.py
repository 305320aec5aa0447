"""Why a task cannot be made here: files, packages and renderers that are missing."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest

from rltrain.errors import UsageError

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
    result = subprocess.run(
        [sys.executable, "-c", MAKE],
        env=os.environ | {"ISAACSIM_ASSET_ROOT": root},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stderr
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
