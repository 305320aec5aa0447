"""Networks of skrl 1 in skrl 2's terms, and networks that stay unchanged."""

from __future__ import annotations

import pytest
from skrl_fakes import small_agent

from rltrain_skrl.declare.options import rename_states


def inputs(policy, value, has_states, **agent):
    options = small_agent(**agent)
    for name, text in (("policy", policy), ("value", value)):
        options["models"][name]["network"][0]["input"] = text
    rename_states(options, has_states)
    return [options["models"][name]["network"][0]["input"] for name in ("policy", "value")]


OLD = {"lambda": 0.95}
CHANNELS = "permute({}, (0, 3, 1, 2))"


@pytest.mark.parametrize("has_states", [True, False])
def test_states_of_skrl_1_are_observations(has_states):
    assert inputs("STATES", "STATES", has_states, **OLD) == ["OBSERVATIONS", "OBSERVATIONS"]
    images = CHANNELS.format("STATES")
    assert inputs(images, images, has_states, **OLD)[0] == CHANNELS.format("OBSERVATIONS")


def test_without_states_all_inputs_are_observations():
    assert inputs("STATES", "STATES", has_states=False) == ["OBSERVATIONS", "OBSERVATIONS"]


@pytest.mark.parametrize(
    ("policy", "value", "agent"),
    [
        ("OBSERVATIONS", "STATES", OLD),
        ("STATES", "STATES", {}),  # A teacher, which has privileged observations.
        ("NUM_STATES", "OBSERVATIONS", OLD),
    ],
)
def test_files_of_skrl_2_are_unchanged(policy, value, agent):
    assert inputs(policy, value, has_states=True, **agent) == [policy, value]
