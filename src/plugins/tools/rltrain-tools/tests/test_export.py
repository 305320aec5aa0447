"""rltrain export: files of a policy, what is said about them, and whether they act as it does."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
import stub_parts
from gymnasium.spaces import Box, Discrete
from messages import check_said

from rltrain.cli import main
from rltrain.errors import UsageError
from rltrain_play import episodes
from rltrain_play.verifying import Comparison, compare, half_range

WIDE = Box(-np.inf, np.inf, (2,))


def test_the_newest_run_of_a_task_needs_no_name(run, capsys):
    where = ["--task", "Stub-v0", "--log_root", str(run.parents[2])]
    assert main(["export", *where]) == 0
    assert f"wrote {run / 'exported' / 'policy.stub'} (stub)" in capsys.readouterr().out


def test_it_says_what_it_does_and_how_far_the_comparison_is(run, capsys, monkeypatch):
    monkeypatch.setattr(episodes, "INTERVAL", 0.0)
    assert main(["export", str(run), "--num-envs", "4", "--verify", "8"]) == 0
    out, err = capsys.readouterr()
    check_said(err)
    check_said(out)


def test_the_file_is_described(run, capsys):
    assert main(["export", str(run)]) == 0
    assert f"wrote {run / 'exported' / 'policy.stub'} (stub)" in capsys.readouterr().out
    facts = json.loads((run / "exported" / "policy.json").read_text())
    checkpoint = run / "checkpoints" / "last.txt"
    assert facts["checkpoint"] == {
        "name": "last.txt",
        "iteration": 3,
        "sha256": hashlib.sha256(checkpoint.read_bytes()).hexdigest(),
    }
    state = {"shape": [1], "dtype": "float32"}
    space = {**state, "space": "Box", "low": -1.0, "high": 1.0}
    assert facts["inputs"] == {"policy": space, "state_in.steps": state}
    assert facts["outputs"] == {"actions": space, "state_out.steps": state}
    assert facts["normalization"] == {"policy": {"mean": [0.5], "std": [2.0]}}
    assert (facts["task"], facts["library"], facts["env"]) == ("Stub-v0", "stub", {"gravity": 1.5})
    assert facts["stubs"] == {"joint_names": "left,right", "stiffness": [0.1], "clip": [None, 1]}
    assert facts["files"] == {"stub": {"name": "policy.stub", "grammar": 1}}
    assert facts["versions"]["rltrain"] == facts["rltrain_version"]


def test_the_file_holds_the_same_as_text(run):
    assert main(["export", str(run)]) == 0
    inside = json.loads((run / "exported" / "policy.stub").read_text())
    facts = json.loads((run / "exported" / "policy.json").read_text())
    assert inside.pop("joint_names") == "left,right"  # What the suite tells as text.
    assert inside["task"] == "Stub-v0"
    assert {name: json.loads(inside[name]) for name in ("inputs", "checkpoint", "stubs")} == {
        name: facts[name] for name in ("inputs", "checkpoint", "stubs")
    }
    assert set(inside) < set(facts)


def test_files_and_policy_are_compared_through_ends_of_episodes(run, capsys):
    # Episodes of these environments have 2 to 5 steps.
    words = ["export", str(run), "--format", "stub", "other", "--num-envs", "4", "--verify", "38"]
    assert main(words) == 0
    says = "acts as the policy: greatest difference 0 on 40 observations, 0 of the actions' scale"
    printed = capsys.readouterr().out
    assert f"policy.stub {says}" in printed
    assert f"policy.other {says}" in printed
    facts = json.loads((run / "exported" / "policy.json").read_text())
    assert facts["files"]["other"]["verified"] == {
        "observations": 40,
        "difference": 0.0,
        "relative": 0.0,
        "choices": None,
        "passed": True,
    }


def test_a_file_that_acts_otherwise_ends_with_status_1(run, capsys, monkeypatch):
    monkeypatch.setenv("STUB_ADDED", "2e-5")
    assert main(["export", str(run), "--verify", "10"]) == 1
    check_said(capsys.readouterr().out)
    facts = json.loads((run / "exported" / "policy.json").read_text())
    assert facts["files"]["stub"]["verified"]["passed"] is False


def test_beside_a_file_of_a_librarys_own_script(run, tmp_path):
    native = tmp_path / "native" / "model.txt"
    native.parent.mkdir()
    native.write_text("stub")
    given = ["--library", "stub", "--task", "Stub-v0", "--agent-config", str(run / "agent.yaml")]
    place = ["--framework", "numpy"]
    assert main(["export", str(native), *given, *place]) == 0
    facts = json.loads((native.parent / "exported" / "policy.json").read_text())
    assert facts["checkpoint"]["iteration"] is None


def test_the_user_names_the_file(run, tmp_path):
    path = tmp_path / "new" / "robot.other"
    assert main(["export", str(run), "--format", "other", "--output", str(path)]) == 0
    assert sorted(each.name for each in path.parent.iterdir()) == ["robot.json", "robot.other"]


@pytest.mark.parametrize("failure", ["missing", "broken"])
def test_what_cannot_be_written_ends_with_status_2(run, capsys, monkeypatch, failure):
    monkeypatch.setenv("STUB_EXPORT", failure)
    assert main(["export", str(run)]) == 2
    check_said(capsys.readouterr().err)
    assert not list(run.glob("exported/*"))


def test_a_policy_that_has_no_function_says_so(run, capsys, monkeypatch):
    def module(self):
        raise UsageError("This policy cannot be exported: it asks a planner.")

    monkeypatch.setattr(stub_parts.StubPolicy, "module", module)
    assert main(["export", str(run)]) == 2
    check_said(capsys.readouterr().err)


def test_a_function_with_another_shape_is_not_written(run, capsys, monkeypatch):
    exporter = stub_parts.StubExporter
    monkeypatch.setattr(
        exporter, "load", lambda self, path, format: lambda arrays: [np.zeros((2, 1)), arrays[-1]]
    )
    assert main(["export", str(run)]) == 2
    check_said(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("space", "found", "wanted", "passed"),
    [
        (WIDE, [1.0, 1e6], [1.0, 1e6 + 1], True),  # Rounding, at this size.
        (WIDE, [1.0, 0.0], [1.0, 2e-5], False),
        (WIDE, [np.inf, np.nan], [np.inf, np.nan], True),
        (WIDE, [1.0, np.nan], [1.0, 1.0], False),
        (Box(-100, 100, (2,)), [0.0, 5e-4], [0.0, 0.0], True),
        (Box(-0.01, 0.01, (2,)), [0.0, 5e-7], [0.0, 0.0], False),
        (Box(0, 0, (2,)), [0.0, 0.0], [0.0, 0.0], True),
        (Discrete(3), [1, 2], [1, 2], True),
        (Discrete(3), [1, 2], [1, 0], False),
    ],
)
def test_differences_count_in_parts_of_the_actions_scale(space, found, wanted, passed):
    result = Comparison()
    compare(result, np.array([found]), np.array([wanted]), half_range(space))
    assert result.passed is passed
