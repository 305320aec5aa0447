"""The command `tasks`."""

from __future__ import annotations

import json

from messages import check_said

TASKS = """
import dataclasses
from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.specs import SuiteSpec
from rltrain.types import ArrayInfo, TaskInfo

GROUPS = {"policy": ArrayInfo((48,)), "camera": ArrayInfo((32, 40, 3), "uint8")}
SEEN = TaskInfo("Seen-v0", "discrete", 64, 100, observations=GROUPS, actions=(5,))

def describe(task, env):
    if task == "Broken-v0":
        raise UsageError("It needs a robot.")
    if task == "Raises-v0":
        raise RuntimeError("no\\ndisplay")
    return {"Seen-v0": SEEN, "Open-v0": TaskInfo("Open-v0", "continuous")}.get(task)

def tuned(task, library, algorithm):
    return {"learn": {"iterations": 7}, "model": {}} if task.name == "Seen-v0" else None

@hookimpl
def rltrain_provides():
    names = ["Seen-v0", "Open-v0", "Broken-v0", "Raises-v0"]
    facts = {"describe": describe, "tasks": lambda: names, "tuned": tuned}
    return [SuiteSpec(name="seen", factory="stub_parts:StubSuite", frameworks=("numpy",), **facts)]
"""


def test_tasks_are_listed_with_spaces_libraries_and_tuned_options(cli, site):
    site.install("seen-suite", TASKS)
    assert cli("tasks", "--suite", "seen") == (
        0,
        "SUITE  TASK     OBSERVATIONS               ACTIONS     LIBRARIES\n"
        "seen   Seen-v0  policy 48, camera 32x40x3  discrete 5  stub*\n"
        "seen   Open-v0  ?                          continuous  stub\n"
        "\n* has options that were tuned for the task.\n"
        "\n2 more cannot be made here; --json says why.\n",
        "",
    )


def test_tasks_are_found_by_words_in_their_names(cli, site):
    site.install("seen-suite", TASKS)
    listed = cli("tasks", "--suite", "seen", "V0", "open")[1].splitlines()
    assert [line.split()[1] for line in listed] == ["TASK", "Open-v0"]
    status, out, err = cli("tasks", "open", "seen")
    assert (status, out) == (2, "")
    check_said(err)


def test_listing_tasks_leaves_no_files_of_simulators(cli, site, monkeypatch, tmp_path):
    logging = TASKS.replace("lambda: names", "lambda: open('LOG.TXT', 'w') and names")
    site.install("seen-suite", logging)
    monkeypatch.chdir(tmp_path)
    assert cli("tasks", "--suite", "seen")[0] == 0
    assert not (tmp_path / "LOG.TXT").exists()


def test_on_a_terminal_a_task_is_a_line(cli, site, monkeypatch):
    site.install("seen-suite", TASKS)
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = cli("tasks", "--suite", "seen", "seen")
    assert "seen   Seen-v0  policy 48, camera ...  discrete 5  stub*\n" in out


def test_tasks_as_json(cli, site):
    site.install("seen-suite", TASKS)
    status, out, _err = cli("tasks", "--suite", "seen", "--json")
    seen, opened, broken, raises = json.loads(out)
    assert status == 0
    assert seen["observations"]["camera"] == {"shape": [32, 40, 3], "dtype": "uint8"}
    assert (seen["action"], seen["actions"], seen["max_episode_length"]) == ("discrete", [5], 100)
    assert (opened["observations"], opened["actions"], opened["tuned"]) == (None, None, [])
    assert broken.keys() == seen.keys()
    assert (broken["task"], broken["reason"]) == ("Broken-v0", "It needs a robot.")
    assert "RuntimeError: no display" in raises["reason"]


def test_tasks_of_all_suites_are_listed_but_of_one_that_raises(cli, site, monkeypatch):
    site.install("seen-suite", TASKS)
    site.install("odd-suite", TASKS.replace("lambda: names", "ord").replace("seen", "odd"))
    monkeypatch.setenv("RLTRAIN_PLUGINS", "rltrain-stub,seen-suite,odd-suite,rltrain-tools")
    _status, out, err = cli("tasks")
    assert {line.split()[0] for line in out.splitlines() if "v0" in line} >= {"seen", "stubs"}
    check_said(err)


def test_tasks_of_an_unknown_suite_are_refused(cli):
    status, _out, err = cli("tasks", "--suite", "stub")
    assert status == 2
    check_said(err)
