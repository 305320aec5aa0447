from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rltrain
from rltrain.cli.main import main
from rltrain_devkit import CommandConformance


class TestLeague(CommandConformance):
    command = "league"
    refuses = ["--log-root", "missing"]


def test_a_folder_without_runs_is_named(tmp_path, capsys):
    assert main(["league", "--log-root", str(tmp_path)]) == 2
    assert "has no runs. Name another folder." in capsys.readouterr().err


def test_each_run_is_evaluated_on_two_ranks(tmp_path, capfd):
    pytest.importorskip("scipy")  # Of rltrain-tools[evaluate].
    options = {"library": "rsl_rl", "device": "cpu", "writers": (), "num_envs": 8}
    whole = rltrain.train(**options, max_iterations=1, log_root=str(tmp_path), run_name="whole")
    bare = rltrain.train(**options, max_iterations=1, log_root=str(tmp_path), run_name="bare")
    shutil.rmtree(Path(bare.run_dir, "checkpoints"))
    capfd.readouterr()
    assert main(["league", "--log-root", str(tmp_path), "--episodes", "10"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert any(Path(bare.run_dir).name in line and "checkpoint" in line for line in lines)
    (row,) = (line for line in lines if line.endswith("finished"))
    assert Path(whole.run_dir).name in row
    assert float(row.split()[0]) > 0
