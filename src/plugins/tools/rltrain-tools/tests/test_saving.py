"""What the doctor saves for all runs of a user."""

from __future__ import annotations

import pytest

from rltrain.errors import UsageError
from rltrain.options import saved_variables
from rltrain_doctor.ranks import save_variables


def test_saved_values_are_read_and_other_content_is_kept(tmp_path):
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert saved_variables("nccl", environ) == {}
    save_variables("gloo", {"GLOO_SOCKET_IFNAME": "eth0"}, environ)
    save_variables("nccl", {"NCCL_P2P_DISABLE": "1", "OTHER": "x"}, environ)
    file = save_variables("nccl", {"NCCL_ALGO": "Ring"}, environ)
    assert saved_variables("nccl", environ) == {"NCCL_ALGO": "Ring"}
    assert saved_variables("gloo", environ) == {"GLOO_SOCKET_IFNAME": "eth0"}
    assert [path.name for path in file.parent.iterdir()] == ["config.yaml"]
    assert file.read_text().startswith("# Applied to every run")


@pytest.mark.parametrize("content", ["environment: 3", "environment: {nccl: [a]}", "a: [1", "- a"])
def test_a_file_that_holds_something_else_is_named_and_not_overwritten(tmp_path, content):
    file = tmp_path / "rltrain" / "config.yaml"
    file.parent.mkdir()
    file.write_text(content)
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    for use in (saved_variables, lambda x, e: save_variables(x, {}, e)):
        with pytest.raises(UsageError, match=r"config\.yaml"):
            use("nccl", environ)
    assert file.read_text() == content


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "rltrain").write_text("not a folder")
    with pytest.raises(UsageError, match=r"config\.yaml: cannot be written"):
        save_variables("nccl", {}, {"XDG_CONFIG_HOME": str(tmp_path)})
