"""A run that goes on says which versions are others than those of the run before."""

from __future__ import annotations

import json
import platform

import pytest
from made_up_runs import made_state

from rltrain import __version__
from rltrain.plan.resolve import make_plan
from rltrain.storage.checkpoints import save_with_state
from rltrain.storage.manifest import versions, write_config
from rltrain.storage.run_folder import create_run_folder


@pytest.fixture
def told(stub, site, tmp_path, capsys):
    """Go on with a run whose manifest has these versions; return what is said."""
    site.install("rltrain-other", point="other", module="unused", source="", version="3.0")
    versions.cache_clear()
    yield lambda found, how="resume": _told(found, how, stub, tmp_path, capsys)
    versions.cache_clear()


def _told(found, how, stub, tmp_path, capsys):
    options = {**stub.OPTIONS, "log_root": str(tmp_path / "logs")}
    config = make_plan(options, {}).config
    folder = create_run_folder(config.log_root, config.library, config.task, config.run_name)
    folder.write_manifest({"config": dict(vars(config)), "folder": "", "versions": found})
    write_config(folder, config)
    state = made_state(1, circumstances={"algorithm": config.algorithm})
    save_with_state(folder, "1.txt", lambda path: path.write_text("stub"), state)
    capsys.readouterr()
    checkpoint = folder.path / "checkpoints" / "1.txt"
    make_plan(
        {"resume": str(folder.path)} if how == "resume" else {**options, "checkpoint": how}, {}
    )
    return capsys.readouterr().err.replace(str(checkpoint), "FILE")


NOTE = "rltrain: FILE: was written with other versions: {}. The run goes on, but may not end as "
OLD = {"python": "3.9.1", "rltrain": "0.0.3", "rltrain-stub": "0.9"}


def test_python_rltrain_and_the_plugins_of_the_run_are_compared(told):
    now = versions()
    changed = (
        f"python 3.9.1 -> {platform.python_version()}, rltrain 0.0.3 -> {__version__}, "
        f"rltrain-stub 0.9 -> {now['rltrain-stub']}"
    )
    assert told({**now, **OLD}) == NOTE.format(changed) + "one that never stopped.\n"


def test_a_checkpoint_that_was_named_is_as_one_of_a_run_that_goes_on(told):
    assert "rltrain-stub 0.9 -> " in told({**versions(), **OLD}, "latest")


def test_what_is_no_part_of_the_run_is_not_compared(told):
    now = versions()
    assert now["rltrain-other"] == "3.0"
    others = {name: "0.0.1" for name in now if name not in OLD}
    assert told({**others, **{name: now[name] for name in OLD}}) == ""


@pytest.mark.parametrize(
    "found", [None, [], {}, {"python": None}, {"python": 3}, {"python": "\x1b[31m" * 9, "x": 1}]
)
def test_a_manifest_that_does_not_say_is_passed_over(told, found):
    assert told(json.loads(json.dumps(found))) == ""
