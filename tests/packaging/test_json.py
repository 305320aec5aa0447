"""With --json, stdout has JSON and nothing else, whatever is printed meanwhile, and by whom."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import stub_parts

import rltrain
from rltrain.cli import main
from rltrain.commands import command_of, commands, make_parser

CALLS = {
    "check": [["rltrain"]],
    "doctor": [["--no-ranks"]],
    "evaluate": [["RUN", "--all-checkpoints", "--episodes", "4", "--num-envs", "2"], ["RUN"]],
    "plugins": [[], ["console"], ["rltrain", "--check"]],
    "tasks": [["Stub", "--suite", "stubs"], ["no", "such", "task"]],
}
"""Words of each command that has --json."""

TALKS = """
import os
from rltrain.hookspecs import hookimpl
print("talk of a module")
os.write(1, b"talk of C\\n")
os.system("echo talk of a child")
@hookimpl
def rltrain_provides():
    print("talk of a plugin")
    return []
"""


def test_each_command_with_json_is_called():
    parsers = {name: make_parser(command_of([name])[1], name) for name in commands()}
    with_json = [x for x, parser in parsers.items() if "--json" in parser._option_string_actions]
    assert sorted(with_json) == sorted(CALLS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), [(x, words) for x in CALLS for words in CALLS[x]])
def test_stdout_is_json_alone(stub, site, capfd, monkeypatch, name, words):
    monkeypatch.setattr("rltrain_play.episodes.INTERVAL", 0.0)
    run = Path(rltrain.train(**stub.OPTIONS).run_dir)
    shutil.copy(run / "checkpoints" / "last.txt", run / "checkpoints" / "one.txt")
    (saved,) = json.loads((run / "checkpoints.json").read_text())
    (run / "checkpoints.json").write_text(json.dumps([{**saved, "name": "one.txt"}, saved]))
    monkeypatch.setattr(stub_parts.StubEnv, "step", talking(stub_parts.StubEnv.step))
    site.install("rltrain-talks", TALKS)
    words = [str(run) if word == "RUN" else word for word in words]
    capfd.readouterr()
    assert main([name, *words, "--json"]) in (0, 1)
    out, err = capfd.readouterr()
    json.loads(out, parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    said = ["talk of a module", "talk of C", "talk of a child", "talk of a plugin"]
    if name == "evaluate":
        said += ["rltrain: 0 of "]
    assert [text for text in said if text not in err] == []


def talking(step):
    """Return a task's step that prints, and has rewards that are no numbers."""

    def wrapped(self, actions):
        print("talk of a task")
        os.system("echo talk of a task in C")
        observations, rewards, *rest = step(self, actions)
        return observations, np.full_like(rewards, np.inf), *rest

    return wrapped
