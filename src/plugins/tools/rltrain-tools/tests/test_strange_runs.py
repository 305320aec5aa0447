"""Run folders that somebody else made are shown, or refused: never obeyed, and never for ever."""

from __future__ import annotations

import contextlib
import json
import os
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up_runs import make_run

from rltrain.cli.main import main
from rltrain.errors import UsageError
from rltrain.storage.metrics_file import METRICS
from rltrain_report.page import write_page
from rltrain_report.report import report_page
from rltrain_report.runs import read_runs

PRIVATE = "private-of-mine"


@pytest.mark.slow
@pytest.mark.parametrize("name", [METRICS, "manifest.json", "restarts.json"])
@pytest.mark.parametrize("kind", ["fifo", "zero", "outside", "nested", "sparse", "bytes"])
def test_files_that_are_none_of_a_run_are_not_read(tmp_path, capsys, name, kind):
    run = make_run(tmp_path / "run", iterations=3)
    path = run / name
    path.unlink(missing_ok=True)
    mine = tmp_path / "mine.json"
    line = {"record": "warning", "text": PRIVATE, "iteration": 1}
    mine.write_text(json.dumps({**line, "config": {"x": PRIVATE}, "host": PRIVATE}))
    {
        "fifo": lambda: os.mkfifo(path),
        "zero": lambda: path.symlink_to("/dev/zero"),
        "outside": lambda: path.symlink_to(mine),
        "nested": lambda: path.write_text("[" * 200_000),
        "sparse": lambda: (path.touch(), os.truncate(path, 1 << 40)),
        "bytes": lambda: path.write_bytes(b"\xff\xfe\x00{"),
    }[kind]()
    begun = time.monotonic()
    status = main(["report", str(run)])
    assert time.monotonic() - begun < 60
    assert status == (2 if name == METRICS else 0)
    told = "".join(capsys.readouterr())
    assert "Traceback" not in told
    pages = [page.read_text() for page in run.rglob("*.html")]
    assert PRIVATE not in told + "".join(pages)


WRONG = [
    None,
    "x",
    -1,
    1e999,
    True,
    [],
    {},
    [1],
    ["a"],
    [None],
    {"a": "b"},
    {"a": [1]},
    10**30,
    1.5,
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_manifest_of_the_wrong_kind_is_shown_as_far_as_it_goes(tmp_path, wrong):
    run = make_run(tmp_path / "run", iterations=3)
    whole = {"host": "h", "command": "c", "versions": {"a": "1"}, "config": {"check_interval": 5}}
    for key in whole:
        (run / "manifest.json").write_text(json.dumps({**whole, key: wrong}))
        report_page(read_runs([str(run)]))
    for key in ("check_interval", "checkpoint", "backend", "agent", "seed"):
        (run / "manifest.json").write_text(json.dumps({**whole, "config": {key: wrong}}))
        report_page(read_runs([str(run)]))
    (run / "restarts.json").write_text(json.dumps(wrong))
    report_page(read_runs([str(run)]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(which=st.integers(0, 8), key=st.integers(0, 12), value=JSON)
def test_no_line_breaks_the_reader(tmp_path, which, key, value):
    run = tmp_path / "run"
    if not run.exists():
        make_run(run, iterations=3, warning="w", media=(("a.png", b"own"),))
        (tmp_path / "lines").write_text((run / METRICS).read_text())
    lines = [json.loads(line) for line in (tmp_path / "lines").read_text().splitlines()]
    line = lines[which % len(lines)]
    line[list(line)[key % len(line)]] = value
    (run / METRICS).write_text("\n".join(map(json.dumps, lines)) + "\n")
    with contextlib.suppress(UsageError):
        report_page(read_runs([str(run)]))


def test_the_page_has_no_control_characters(tmp_path):
    name = "\x1b[2J\u202eabc\x9b\x00\x07\u2066 <b>"
    run = make_run(
        tmp_path / "run",
        iterations=3,
        task=name,
        library=name,
        value=name,
        warning=name,
        error=name,
    )
    (run / "manifest.json").write_text(json.dumps({"host": name, "command": name, "config": {}}))
    written = write_page(report_page(read_runs([str(run)])), run / "report", "page.html")
    text = written[0].read_text()
    assert not set(name) & set(text) - set("[2Jabc <b>")
    assert r"\x1b[2J\u202eabc" in text
    assert all(path.name.isprintable() for path in written)
