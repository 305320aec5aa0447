"""--agent-config chooses among the sets of options that are registered with a task."""

from __future__ import annotations

import dataclasses

import pytest
from helpers import refusal

from rltrain.errors import UsageError
from rltrain.options.run import RunOptions
from rltrain.plan.choices import choose_agent, get_library
from rltrain.plugins.registry import discover
from rltrain.types import TaskInfo

TASK = TaskInfo(
    "Bot",
    "continuous",
    agents={
        "rsl_rl": ("rsl_rl", "ppo"),
        "rsl_rl_distillation": ("rsl_rl", "distillation"),
        "skrl": ("skrl", "ppo"),
    },
)


def chosen(task=TASK, **options):
    return choose_agent(RunOptions(**options), task)


@pytest.mark.parametrize("key", ["rsl_rl_distillation", "rsl_rl_distillation_cfg_entry_point"])
def test_the_key_says_library_and_algorithm(key):
    requested, task = chosen(agent_config=key)
    assert (requested.library, requested.algorithm) == ("rsl_rl", "distillation")
    assert task == dataclasses.replace(TASK, agent="rsl_rl_distillation")
    assert chosen(agent_config=key, library="rsl_rl", algorithm="Distillation")[1] == task
    assert chosen(library="skrl") == (RunOptions(library="skrl"), TASK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"agent_config": "rsl_rl_destillation"},
            "--agent-config rsl_rl_destillation: there is no such file, and no such options are "
            "registered with the task Bot. Did you mean 'rsl_rl_distillation'? There are: rsl_rl, "
            "rsl_rl_distillation, skrl.",
        ),
        *(
            (
                {"agent_config": "skrl", name: value},
                f"--agent-config skrl: these are options of {of}. Leave out --{name} {value}.",
            )
            for name, value, of in (("library", "rsl_rl", "skrl"), ("algorithm", "sac", "ppo"))
        ),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    assert refusal(chosen, **options) == message
    without = dataclasses.replace(TASK, agents={})
    assert "task Bot. There are: none." in refusal(chosen, without, agent_config="skrl")


@pytest.mark.usefixtures("stub")
def test_options_of_an_algorithm_that_the_library_is_not_offered_with_are_refused():
    task = dataclasses.replace(TASK, agents={"stub_amp": ("stub", "amp")})
    requested, _ = chosen(task, agent_config="stub_amp", framework="numpy")
    with pytest.raises(UsageError, match=r"^--algorithm amp: stub is offered"):
        get_library("stub", requested, discover())
