"""Run folders whose files are valid and say nonsense: readers go on, or refuse in a line."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import time
from pathlib import Path

import pytest
from made_up_runs import made_state

from rltrain.cli.train import read_options
from rltrain.data import pack_state
from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain.policies.finding import find_trained
from rltrain.run.agreement import agree
from rltrain.run.group import SingleProcess
from rltrain.storage.checkpoints import INDEX, DamagedCheckpoint, read_state, save_with_state
from rltrain.storage.finding import (
    all_checkpoints,
    checkpoint_of_run,
    find_checkpoint,
    newest_of_run,
)
from rltrain.storage.manifest import write_config
from rltrain.storage.resume import resumption
from rltrain.storage.run_folder import create_run_folder
from rltrain.types import World
from rltrain_report.scale.experiment import RESULT, Experiment, Job

WRONG = [
    *(None, True, "", "x", "1.txt", "..", "a/b", "a" * 300, "\ud800", "\x1b[2J", "a\0b"),
    *(0, -1, 10**400, -(10**400), 2**63, 0.5, math.nan, math.inf, [], {}, [1], {"a": "b"}),
]


@pytest.fixture
def run(stub, tmp_path) -> Path:
    """The folder of a run that has saved two checkpoints."""
    config = make_plan({**stub.OPTIONS, "log_root": str(tmp_path), "run_name": "mine"}, {}).config
    folder = create_run_folder(config.log_root, config.library, config.task, config.run_name)
    folder.write_manifest({"config": dict(vars(config)), "folder": os.getcwd()})
    write_config(folder, config)
    for iteration in (1, 2):
        state = made_state(iteration, 1.0, circumstances={"algorithm": config.algorithm})
        save_with_state(folder, f"{iteration}.txt", lambda path: path.write_text("stub"), state)
    return folder.path


def changed(value):
    """Yield a value once with each of its parts exchanged for each of the wrong ones, or gone."""
    yield from WRONG
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        for other in changed(value[key]):
            copied = value.copy()
            copied[key] = other
            yield copied
        copied = value.copy()
        del copied[key]
        yield copied


def test_an_index_finds_a_checkpoint_or_none(run, tmp_path):
    entries = [
        {"name": f"{iteration}.txt", "iteration": iteration, "episode_return": 1.0}
        for iteration in (1, 2)
    ]
    found = json.loads((run / "manifest.json").read_text())["config"]
    place = str(tmp_path), found["library"], found["task"]
    warnings: list[str] = []
    ways = [
        lambda: find_checkpoint("latest", *place, warnings.append),
        lambda: find_checkpoint("best", *place, warnings.append),
        lambda: checkpoint_of_run(run, "1", warnings.append),
        lambda: newest_of_run(run, warnings.append),
        lambda: all_checkpoints(run, warnings.append, trusted=True),
    ]
    for each in changed(entries):
        (run / INDEX).write_text(json.dumps(each))
        for way in ways:
            with contextlib.suppress(UsageError):  # Any other error fails the test.
                way()
    assert max(map(len, warnings)) < 400


def test_a_return_that_is_no_number_is_never_the_best(run):
    entries = json.loads((run / INDEX).read_text())
    for wrong in (math.nan, math.inf):
        entries[1]["episode_return"] = wrong
        (run / INDEX).write_text(json.dumps(entries))
        assert checkpoint_of_run(run, "best", pytest.fail).name == "1.txt"


def test_a_state_is_damaged_or_gone_on_from(stub, run):
    state = made_state(
        2,
        1.0,
        circumstances={"algorithm": "ppo", "framework": "torch", "seed": 3, "env.mass": 1.5},
        progress={"iteration": 2, "frames": 9, "window": [(1.0, 2.0, 1.0, 0.0, 0.0)]},
        ranks=[pack_state({"plugins": {}, "env": None, "library": None}, {})],
        curricula=[{"level": 2}],
    )
    checkpoint = run / "checkpoints" / "2.txt"
    (file,) = (run / "checkpoints" / "ranks").glob("2.txt.*")
    options = {**stub.OPTIONS, "checkpoint": str(checkpoint), "seed": -1}
    config = make_plan(options, {}).config
    accepted = 0
    for each in changed(state):
        packed = pack_state(each, {})
        file.write_bytes(b"rltrain state 1\n" + hashlib.sha256(packed).digest() + packed)
        try:
            read_state(checkpoint)
        except DamagedCheckpoint:
            continue
        accepted += 1
        with contextlib.suppress(UsageError):  # Any other error fails the test.
            make_plan(options, {})
        assert agree(SingleProcess("cpu"), config, None).config.seed >= 0
        with contextlib.suppress(UsageError):
            assert resumption(checkpoint, config, World(), {}).summary
    assert accepted > 50


FILES = [INDEX, "manifest.json", "config.yaml", "agent.yaml", "checkpoints/2.txt", "checkpoints"]


def put(kind, path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    {
        "fifo": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "zero": lambda: path.symlink_to("/dev/zero"),
        "loop": lambda: path.symlink_to(path.name),
        "huge": lambda: (path.touch(), os.truncate(path, 1 << 42)),
    }[kind]()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["fifo", "folder", "zero", "loop", "huge"])
def test_what_is_no_file_is_passed_over_or_refused(run, tmp_path, kind, name):
    put(kind, run / name)
    found = tmp_path, "stub", "Stub-v0"
    newest = {"resume": "latest", "log_root": str(tmp_path)}
    named = {**newest, "resume": str(run / "checkpoints" / "2.txt"), "trust_run": True}
    ways = [
        lambda: make_plan({"resume": str(run)}, {}).config,
        lambda: make_plan(newest, {}).config,
        lambda: make_plan(named, {}).config,
        lambda: find_trained(str(run), None, {}),
        lambda: find_trained(str(run), "best", {"trust_run": True}),
        lambda: find_trained(str(run / "checkpoints" / "2.txt"), None, {}),
        lambda: find_checkpoint("latest", *map(str, found), lambda text: None),
        lambda: make_plan(read_options({"config": str(run / "config.yaml")}, []), {}),
    ]
    begun = time.process_time()
    for way in ways:
        with contextlib.suppress(UsageError):  # Any other error fails the test.
            way()
    assert time.process_time() - begun < 20


@pytest.mark.parametrize("log_root", ["~nobody-here/x", "a\0b", "\ud800", "x" * 5000])
def test_a_place_that_a_run_folder_cannot_have(run, log_root):
    text = (run / "config.yaml").read_text()
    quoted = json.dumps(log_root)
    (run / "config.yaml").write_text(re.sub("log_root: .*", lambda _: f"log_root: {quoted}", text))
    with contextlib.suppress(UsageError):  # Any other error fails the test.
        make_plan({"resume": str(run)}, {})


def test_an_experiment_of_somebody_else(run, tmp_path):
    folder = tmp_path / "experiment"
    folder.mkdir()
    (job,) = jobs = (Job(1, 1, ()),)
    experiment = Experiment(folder, "weak", (), jobs)
    (run / "metrics.jsonl").touch()
    saved = {"mode": "weak", "words": [], "runs": {job.name: str(run)}}
    for each in changed(saved):
        (folder / RESULT).write_text(json.dumps(each))
        with contextlib.suppress(UsageError):  # Any other error fails the test.
            assert experiment.finished() == {}
    for kind in ("fifo", "folder", "zero", "loop", "huge"):
        put(kind, folder / RESULT)
        with pytest.raises(UsageError, match="cannot be read"):
            experiment.finished()
