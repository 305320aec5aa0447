"""The user config: settings for all of a user's runs."""

from __future__ import annotations

import os

import pytest
import yaml

from rltrain.options import user_config
from rltrain.run import start
from rltrain.testing import make_config
from rltrain.types import World


@pytest.fixture(autouse=True)
def own_variables(monkeypatch):
    """Remove what a run sets in this process after the test."""
    monkeypatch.setattr(os, "environ", os.environ.copy())


def test_the_file_is_in_the_users_config_folder():
    assert str(user_config.user_config_file({"XDG_CONFIG_HOME": "/x"})) == "/x/rltrain/config.yaml"
    for folder in ("", "relative"):
        at_home = user_config.user_config_file({"XDG_CONFIG_HOME": folder})
        assert at_home == user_config.user_config_file({})
        assert str(at_home).startswith(os.path.expanduser("~/.config/rltrain"))


def test_numbers_that_a_user_writes_are_text_to_ranks(tmp_path):
    file = tmp_path / "rltrain" / "config.yaml"
    file.parent.mkdir()
    file.write_text("environment: {nccl: {NCCL_P2P_DISABLE: 1}}\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert user_config.saved_variables("nccl", environ) == {"NCCL_P2P_DISABLE": "1"}


RUN = make_config(backend="nccl", distributed=True)


def saved(tmp_path, variables):
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path)
    file = user_config.user_config_file()
    file.parent.mkdir()
    file.write_text(yaml.safe_dump({"environment": {"nccl": variables}}))
    return file


def test_a_run_applies_it_and_reports_it(capsys, tmp_path):
    file = saved(tmp_path, {"NCCL_P2P_DISABLE": "1", "NCCL_ALGO": "Ring"})
    os.environ["NCCL_ALGO"] = "Tree"  # A variable set by the user wins.
    start.apply_saved_variables(RUN, None)
    assert (os.environ["NCCL_P2P_DISABLE"], os.environ["NCCL_ALGO"]) == ("1", "Tree")
    assert capsys.readouterr().out == f"with NCCL_P2P_DISABLE=1, saved for nccl in {file}\n"


@pytest.mark.parametrize(
    ("config", "world", "set_"),
    [
        (RUN, World(0, world_size=2), True),
        (RUN, World(1, world_size=2), True),
        (make_config(backend="gloo", distributed=True), None, False),
        (make_config(backend="nccl"), World(), False),
    ],
)
def test_only_ranks_of_its_backend_get_it_and_rank_0_reports_it(
    capsys, tmp_path, config, world, set_
):
    saved(tmp_path, {"NCCL_P2P_DISABLE": "1"})
    start.apply_saved_variables(config, world)
    assert ("NCCL_P2P_DISABLE" in os.environ) is set_
    assert bool(capsys.readouterr().out) is (set_ and world.is_root)
