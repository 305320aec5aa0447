"""The options of the writer in a run, and that it holds no more in a long one."""

from __future__ import annotations

import pytest
from made_up_plugins import hidden_variables, plain_environment, site, stub
from test_long_runs import hold_no_more

import rltrain
from rltrain.cli.main import main
from rltrain.options import RunOptions, load_yaml
from rltrain_tensorboard.plugin import TensorBoardOptions

pytest.importorskip("tensorboard")

from rltrain_tensorboard.writer import TensorBoardWriter

__all__ = ["hidden_variables", "plain_environment", "site", "stub"]


def test_a_run_writes_plugin_options_to_its_config(tmp_path):
    pytest.importorskip("rl_games")
    options = {"max_iterations": 1, "num_envs": 8, "device": "cpu", "log_root": str(tmp_path)}
    result = rltrain.train(writers=["tensorboard"], tensorboard={"flush": 4}, **options)
    config = load_yaml(f"{result.run_dir}/config.yaml", "--config")
    assert config["tensorboard"] == {"flush": 4}
    assert RunOptions.from_mapping(config).plugins == {"tensorboard": {"flush": 4}}


def test_plugins_name_lists_a_plugins_options(capsys):
    assert main(["plugins", "tensorboard"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("writer tensorboard, from rltrain-writers ")
    assert "\n  tensorboard.flush=1  (int)\n      Iterations between two flushes" in shown
    assert main(["plugins", "tensorbord"]) == 2
    assert "Did you mean 'tensorboard'?" in capsys.readouterr().err


@pytest.mark.long
def test_a_long_run_holds_no_more_than_a_short_one(stub, tmp_path):
    hold_no_more(TensorBoardWriter(TensorBoardOptions()), tmp_path, files=6)
