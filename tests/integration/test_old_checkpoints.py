"""Checkpoints that version 0.1 wrote, before the core was divided into packages, still resume.

`checkpoints_0.1` holds the end of a run of 2 iterations on 2 ranks for each library, with a network
of 4 units; `resumed.json` is the result of resuming to iteration 4 with the version that wrote it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from observers import RANK_LOCAL

from rltrain.options import load_yaml
from rltrain.testing import FakeWorld

FOLDER = Path(__file__).with_name("checkpoints_0.1")


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_a_run_of_version_0_1_resumes_exactly(name, tmp_path, monkeypatch):
    run = shutil.copytree(FOLDER / name, tmp_path / "run")
    monkeypatch.chdir(run)
    options = load_yaml("config.yaml", "--config")
    (checkpoint,) = (path for path in Path("checkpoints").iterdir() if path.is_file())
    options |= {"checkpoint": str(checkpoint), "max_iterations": 4, "log_root": str(tmp_path)}
    options |= {"writers": [], "launcher": None, "nnodes": None, "nproc_per_node": None}
    options |= {"trust": True}  # Its states have no digest.
    local = RANK_LOCAL.get(options["library"], ())
    world = FakeWorld(2, torch=options["framework"] == "torch", rank_local=local)
    result = world.train(**options)[0].result
    expected = json.loads(Path("resumed.json").read_text())
    assert (result.iterations, result.frames) == (expected["iterations"], expected["frames"])
    # Only a few numbers of a float may differ between processors.
    assert result.episode_return == pytest.approx(expected["episode_return"], rel=1e-3)
    assert result.episode_length == pytest.approx(expected["episode_length"], rel=1e-3)
