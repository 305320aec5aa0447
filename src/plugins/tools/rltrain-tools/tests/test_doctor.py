"""The real check of `rltrain doctor`, and its search for a working fallback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import flaky_plugin
import pytest
from helpers import wait_for
from messages import check_said

from rltrain.cli.main import main
from rltrain.plugins.registry import discover
from rltrain.testing import FakeWorld, make_config
from rltrain.types import World
from rltrain_doctor import ranks as ranks_module
from rltrain_doctor.child import Outcome, measure
from rltrain_doctor.ranks import ranks

CONFIG = make_config(
    distributed=True, nproc_per_node=2, backend="raises", framework="numpy", launcher="one"
)
FIRST, SECOND, THIRD = flaky_plugin.FALLBACKS


def test_the_measured_collective_is_a_sum_over_ranks():
    for result in FakeWorld(3).run(measure):
        assert result["expected"] == 6
        assert result["found"] == [[6, 6], [6, 6]]
        assert [(rank["rank"], rank["right"]) for rank in result["ranks"]] == [
            (rank, True) for rank in range(3)
        ]
        assert 0 < result["latency_ms"] < result["large_ms"]
        assert result["bandwidth_gb_s"] > 0


@pytest.fixture
def flaky(site, monkeypatch):
    site.install("rltrain-flaky", point="flaky", module="flaky_plugin")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)


def result(**more):
    own = [{"rank": rank, "host": "h", "device": "cpu", "right": True} for rank in range(2)]
    return {
        "expected": 3.0,
        "found": [[3, 3]],
        "ranks": own,
        "latency_ms": 0.1,
        "large_bytes": 2**22,
        "large_ms": 2.0,
        "bandwidth_gb_s": 2.1,
        **more,
    }


class Tries:
    """Stands in for started ranks: they communicate with any of the sets of variables."""

    def __init__(self, *working, **failed):
        self.working, self.seen = working, []
        self.failed = {"error": "Rank 1 failed.\n\nRuntimeError: no way", **failed}

    def __call__(self, config, world, variables, timeout):
        self.seen.append(dict(variables))
        if variables in self.working:
            return Outcome(variables, result())
        return Outcome(variables, **self.failed)


@pytest.fixture
def check(flaky, monkeypatch):
    """Return the findings of a check whose tries have planted results."""

    def run(tries, environ=None, config=CONFIG, world=None):
        monkeypatch.setattr(ranks_module, "try_ranks", tries)
        environ = os.environ if environ is None else {**os.environ, **environ}
        return list(ranks(config, world, discover(), environ, 9.0, lambda text: None))

    return run


def levels(findings):
    return [(finding.level, finding.name) for finding in findings]


def test_working_ranks_are_reported_with_their_measurements(check):
    tries = Tries({})
    found = check(tries)
    assert tries.seen == [{}]
    assert levels(found) == [
        ("ok", name) for name in ("ranks", "all-reduce", "latency", "bandwidth")
    ]
    assert found[3].text == "2.10 GB/s: 4 MiB in 2.00 ms"


def test_the_first_working_fallback_is_reported_and_no_other_is_tried(check):
    tries = Tries(SECOND, THIRD)
    found = check(tries)
    assert tries.seen == [{}, FIRST, SECOND]
    assert levels(found)[:3] == [("problem", "ranks"), ("ok", "tried"), ("warning", "fallback")]
    check_said(found[0].text)
    assert found[2].text == "FLAKY_SECOND=1 works"
    assert "export FLAKY_SECOND=1" in found[2].hint


def test_variables_set_by_the_user_are_not_varied(check):
    tries = Tries()
    found = check(tries, environ={"FLAKY_FIRST": "0", "FLAKY_THIRD": "0"})
    assert tries.seen == [{}, SECOND]
    check_said(found[-1].text)
    assert found[-1].level == "problem"


def test_wrong_sums_are_also_a_failure(check):
    own = result()["ranks"]
    wrong = result(found=[[4.0, 4.0]], ranks=[own[0], {**own[1], "right": False}])
    found = check(Tries(FIRST, error="", result=wrong))
    assert (found[0].level, found[0].name) == ("problem", "all-reduce")
    check_said(found[0].text)


def test_a_hang_reports_where_each_rank_was(check):
    at = {0: "is in the first all-reduce", 1: "makes the process group"}
    found = check(Tries(error="no answer within 9 s", hung=True, ranks_at=at))
    check_said(found[0].text)
    assert "--timeout" in found[0].hint


@pytest.mark.parametrize(
    ("config", "world", "failed"),
    [
        (CONFIG, World(0, world_size=2), {}),
        (make_config(**{**vars(CONFIG), "nnodes": 2}), None, {}),
        (CONFIG, None, {"refused": True}),
    ],
)
def test_no_fallback_is_tried_with_other_nodes_or_a_refused_option(check, config, world, failed):
    tries = Tries(FIRST, **failed)
    (found,) = check(tries, config=config, world=world)
    assert tries.seen == [{}]
    assert found.level == "problem"
    assert ("FLAKY_FIRST=1; FLAKY_SECOND=1" in found.hint) is not failed.get("refused", False)


# The command, with ranks in separate processes

WORDS = ("doctor", "--framework", "numpy", "--launcher", "one")


@pytest.fixture
def doctor(flaky, capsys):

    def run(*words):
        status = main([*WORDS, "--json", *words])
        return status, json.loads(capsys.readouterr().out)["sections"]

    return run


def living(folder: Path) -> list[int]:
    return [int(x.name) for x in folder.iterdir() if Path("/proc", x.name).exists()]


def check_gone(folder: Path) -> None:
    """Check that the ranks are gone; a killed one takes a moment to exit."""
    wait_for(lambda: not living(folder), seconds=15)


@pytest.fixture
def pids(tmp_path, monkeypatch):
    folder = tmp_path / "pids"
    folder.mkdir()
    monkeypatch.setenv("FLAKY_PIDS", str(folder))
    yield folder
    for pid in living(folder):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_backend_that_hangs_until_a_variable_is_set(doctor, pids):
    status, sections = doctor("--backend", "hangs", "--timeout", "8")
    first, fallback = sections["ranks"][0], sections["ranks"][2]
    assert status == 1
    assert (first["hung"], first["ranks_at"]) == (True, {"0": "makes the process group"})
    assert fallback["variables"] == SECOND
    assert len(list(pids.iterdir())) == 2
    check_gone(pids)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_doctor(flaky, pids, number):
    command = [sys.executable, "-m", "rltrain", *WORDS, "--backend", "hangs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        wait_for(lambda: list(pids.iterdir()))
        process.send_signal(number)
        process.communicate(timeout=30)
        assert process.returncode != 0
    assert len(list(pids.iterdir())) == 1
    check_gone(pids)


# The command line

WRONG = [
    ("--backend raise", "Unknown backend 'raise'. Did you mean 'raises'?"),
    ("--launcher two", "Unknown launcher 'two'"),
    (
        "--framework nump",
        "--framework nump: unknown. Choose from jax, numpy, torch. Did you mean 'numpy'?",
    ),
    ("--library none", "Unknown library 'none'"),
    ("--timeout 0", "--timeout 0: must be at least 1"),
    ("--nproc-per-node 0", "--nproc-per-node 0: must be a number from 1"),
    ("--jsn", "Unknown argument '--jsn'. Did you mean '--json'?"),
]


@pytest.mark.parametrize(("line", "message"), WRONG, ids=[line for line, _ in WRONG])
def test_a_wrong_command_line_is_refused(flaky, stub, capsys, line, message):
    assert main(["doctor", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_a_page_is_printed_section_by_section(flaky, capsys, monkeypatch):
    monkeypatch.setattr(ranks_module, "try_ranks", Tries({}))
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*WORDS, "--backend", "raises"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    heads = [line.rstrip() for line in lines if line and not line.startswith(("ok", "warn", " "))]
    assert heads[:-1] == ["Versions", "Devices", "Launcher", "Network", "Limits", "Ranks"]
    assert heads[-1].endswith("A run can be expected to work.")
    assert max(map(len, lines)) <= 80
    check_said(err)


def test_the_end_of_a_ranks_output_is_on_the_page(flaky, capsys, monkeypatch):
    monkeypatch.setattr(ranks_module, "try_ranks", Tries())
    assert main([*WORDS, "--backend", "raises"]) == 1
    out = capsys.readouterr().out
    assert "    Rank 1 failed.\n    \n    RuntimeError: no way\n" in out
    assert out.endswith("A run will not work as it is.\n")


def test_contradictory_variables_are_reported_and_nothing_is_started(flaky, capsys, monkeypatch):
    tries = Tries()
    monkeypatch.setattr(ranks_module, "try_ranks", tries)
    for name, value in {"RANK": "5", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert main([*WORDS, "--backend", "raises", "--json"]) == 1
    sections = json.loads(capsys.readouterr().out)["sections"]
    assert "ranks" not in sections
    assert "The environment variables contradict each other" in str(sections["launcher"])
    assert tries.seen == []


@pytest.mark.parametrize(("rank", "pages"), [(0, 1), (1, 0), (2, 1)])
def test_the_first_rank_of_each_node_prints_also_if_all_are_local_rank_0(
    flaky, capsys, monkeypatch, rank, pages
):
    variables = {"RANK": rank, "LOCAL_RANK": 0, "WORLD_SIZE": 4, "LOCAL_WORLD_SIZE": 2}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    main([*WORDS, "--backend", "raises", "--json"])
    assert capsys.readouterr().out.count('"sections"') == pages
