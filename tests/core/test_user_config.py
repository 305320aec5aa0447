"""The user config: settings for all of a user's runs."""

from __future__ import annotations

import os

import pytest

from rltrain.errors import UsageError
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


def test_saved_values_are_read_and_other_content_is_kept(tmp_path):
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert user_config.saved_variables("nccl", environ) == {}
    user_config.save_variables("gloo", {"GLOO_SOCKET_IFNAME": "eth0"}, environ)
    user_config.save_variables("nccl", {"NCCL_P2P_DISABLE": "1", "OTHER": "x"}, environ)
    file = user_config.save_variables("nccl", {"NCCL_ALGO": "Ring"}, environ)
    assert user_config.saved_variables("nccl", environ) == {"NCCL_ALGO": "Ring"}
    assert user_config.saved_variables("gloo", environ) == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert [path.name for path in file.parent.iterdir()] == ["config.yaml"]
    assert file.read_text().startswith("# Applied to every run")


def test_numbers_that_a_user_writes_are_text_to_ranks(tmp_path):
    file = tmp_path / "rltrain" / "config.yaml"
    file.parent.mkdir()
    file.write_text("environment: {nccl: {NCCL_P2P_DISABLE: 1}}\n")
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert user_config.saved_variables("nccl", environ) == {"NCCL_P2P_DISABLE": "1"}


@pytest.mark.parametrize("content", ["environment: 3", "environment: {nccl: [a]}", "a: [1", "- a"])
def test_a_file_that_holds_something_else_is_named_and_not_overwritten(tmp_path, content):
    file = tmp_path / "rltrain" / "config.yaml"
    file.parent.mkdir()
    file.write_text(content)
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    for use in (user_config.saved_variables, lambda x, e: user_config.save_variables(x, {}, e)):
        with pytest.raises(UsageError, match=r"config\.yaml"):
            use("nccl", environ)
    assert file.read_text() == content


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "rltrain").write_text("not a folder")
    with pytest.raises(UsageError, match=r"config\.yaml: cannot be written"):
        user_config.save_variables("nccl", {}, {"XDG_CONFIG_HOME": str(tmp_path)})


RUN = make_config(backend="nccl", distributed=True)


def test_a_run_applies_it_and_reports_it(capsys):
    file = user_config.save_variables("nccl", {"NCCL_P2P_DISABLE": "1", "NCCL_ALGO": "Ring"})
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
def test_only_ranks_of_its_backend_get_it_and_rank_0_reports_it(capsys, config, world, set_):
    user_config.save_variables("nccl", {"NCCL_P2P_DISABLE": "1"})
    start.apply_saved_variables(config, world)
    assert ("NCCL_P2P_DISABLE" in os.environ) is set_
    assert bool(capsys.readouterr().out) is (set_ and world.is_root)
