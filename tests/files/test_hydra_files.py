"""A file of a Hydra configuration is read without the others, as IsaacGymEnvs' are posted."""

from __future__ import annotations

import pytest

from rltrain.errors import UsageError
from rltrain.files.yaml import left_out, load_yaml

GROUP = """
params:
  seed: ${...seed}
  resume: ${if:${...checkpoint},True,False}
  path: ${...checkpoint}
  config:
    name: ${resolve_default:Pole,${....experiment}}
    full_name: ${.name}
    envs: ${....task.env.numEnvs}
    iterations: ${resolve_default:100,${....max_iterations}}
    rate: 3e-4
    note: ""
"""
WHOLE = """
seed: 7
experiment: ''
max_iterations: 40
checkpoint: ''
task: {env: {numEnvs: 512}}
train:
""" + GROUP.replace("\n", "\n  ")


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "agent.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_what_other_files_have_is_left_out_and_named(file):
    path = file(GROUP)
    assert load_yaml(path, "--agent-config") == {
        "params": {
            "resume": False,
            "config": {
                **{"name": "Pole", "full_name": "Pole", "iterations": 100},
                **{"rate": 3e-4, "note": ""},
            },
        }
    }
    assert left_out(path) == ["params.seed", "params.path", "params.config.envs"]


def test_the_whole_configuration_has_it(file):
    path = file(WHOLE)
    options = load_yaml(path, "--agent-config")["train"]["params"]
    assert (options["seed"], options["resume"]) == (7, False)
    assert (options["config"]["envs"], options["config"]["iterations"]) == (512, 40)
    assert options["config"]["full_name"] == "Pole"
    assert left_out(path) == []


def test_a_reference_within_the_file_is_resolved_and_another_is_named(file):
    path = file("{model: {units: 64}, head: {units: '${model.units}'}}")
    assert load_yaml(path, "--agent-config")["head"] == {"units": 64}
    assert left_out(path) == []
    path = file("{model: {units: '${task.units}'}, name: more}")
    with pytest.raises(UsageError, match=r"key 'task.units' not found\. Write the value"):
        load_yaml(path, "--agent-config")
