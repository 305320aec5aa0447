"""Run folders whose files are valid and say nonsense: readers go on, or refuse in a line."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
import time
from pathlib import Path

import pytest
from made_up_runs import begun_run, made_state
from wrong_content import KINDS, changed, put

from rltrain.cli.train import read_options
from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain.policies.trained import find_trained
from rltrain.storage.checkpoint import INDEX, Checkpoint, write_state
from rltrain.storage.resume import resumption
from rltrain.storage.run import Run, find_checkpoint
from rltrain.testing import make_config
from rltrain.types import World


@pytest.fixture
def run(stub, tmp_path) -> Path:
    return begun_run(1, 2, **stub.OPTIONS, log_root=str(tmp_path), run_name="mine")


@pytest.mark.slow
def test_an_index_finds_a_checkpoint_or_none(run, tmp_path):
    entries = [
        {"name": f"{iteration}.txt", "iteration": iteration, "episode_return": 1.0}
        for iteration in (1, 2)
    ]
    found = json.loads((run / "manifest.json").read_text())["config"]
    config = make_config(
        log_root=str(tmp_path), library=found["library"], task=found["task"], checkpoint="latest"
    )
    warnings: list[str] = []
    warn = warnings.append
    ways = [
        lambda: find_checkpoint(config, warn),
        lambda: find_checkpoint(dataclasses.replace(config, checkpoint="best"), warn),
        lambda: Run(run, warn=warn).checkpoint("1"),
        lambda: Run(run, warn=warn).find(),
        lambda: Run(run, warn=warn, trusted=True).checkpoints(),
    ]
    for each in changed(entries):
        (run / INDEX).write_text(json.dumps(each))
        for way in ways:
            with contextlib.suppress(UsageError):  # Any other error fails the test.
                way()
    assert max(map(len, warnings)) < 600


def test_what_a_state_says_is_a_line(stub, run):
    """It forges no line of its own, and fills no screen."""
    config = make_plan({**stub.OPTIONS, "seed": 3}, {}).config
    said = {"task": "x\nrltrain: all is well", "seed": "y" * 10_000, "z\n" * 99: 1}
    said |= {f"env.{n}": n for n in range(1000)}
    (file,) = (run / "checkpoints" / "ranks").glob("2.txt.*")
    for algorithm in (config.algorithm, "z\n" * 1000):
        state = made_state(2, 1.0, circumstances={"algorithm": algorithm, **said})
        write_state(file, state, [])
        summary = resumption(Checkpoint(run / "checkpoints" / "2.txt"), config, World(), {}).summary
        assert "\n" not in summary
        assert len(summary) < 2000


def test_a_return_that_is_no_number_is_never_the_best(run):
    entries = json.loads((run / INDEX).read_text())
    for wrong in (math.nan, math.inf):
        entries[1]["episode_return"] = wrong
        (run / INDEX).write_text(json.dumps(entries))
        assert Run(run, warn=pytest.fail).checkpoint("best").path.name == "1.txt"


FILES = [INDEX, "manifest.json", "config.yaml", "agent.yaml", "checkpoints/2.txt", "checkpoints"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_passed_over_or_refused(run, tmp_path, kind, name):
    put(kind, run / name)
    config = make_config(
        log_root=str(tmp_path), library="stub", task="Stub-v0", checkpoint="latest"
    )
    newest = {"resume": "latest", "log_root": str(tmp_path)}
    named = {**newest, "resume": str(run / "checkpoints" / "2.txt"), "trust": True}
    ways = [
        lambda: make_plan({"resume": str(run)}, {}).config,
        lambda: make_plan(newest, {}).config,
        lambda: make_plan(named, {}).config,
        lambda: find_trained(str(run), None, {}),
        lambda: find_trained(str(run), "best", {"trust": True}),
        lambda: find_trained(str(run / "checkpoints" / "2.txt"), None, {}),
        lambda: find_checkpoint(config, lambda text: None),
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
