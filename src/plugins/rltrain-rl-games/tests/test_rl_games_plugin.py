from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from rltrain.agent_options import get_dotted, resolve_agent
from rltrain.config import RunConfig
from rltrain.plugins import Registry
from rltrain.types import TaskInfo
from rltrain_rl_games.plugin import rltrain_provides

(SPEC,) = rltrain_provides()
CONTINUOUS = TaskInfo("any", "continuous")
DISCRETE = TaskInfo("any", "discrete")


def refusals(agent, task=CONTINUOUS):
    overrides = {f"+{key}": value for key, value in agent.items()}
    options = resolve_agent(SPEC, task, "ppo", None, overrides, Registry([]))
    config = dataclasses.replace(RunConfig(), agent=options)
    return [refusal.name for refusal in SPEC.refuses if refusal.applies(config, task)]


def test_declaring_imports_no_framework_and_no_library():
    code = (
        "import sys, rltrain_rl_games.plugin as plugin; list(plugin.rltrain_provides());"
        "print([name for name in ('torch', 'rl_games', 'numpy') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize("task", [CONTINUOUS, DISCRETE, TaskInfo("Pendulum-v1", "continuous")])
def test_defaults_are_files_of_this_library_and_are_not_refused(task):
    options = SPEC.default_agent(task, "ppo")
    assert all(get_dotted(options, key, None) for key in SPEC.required_keys)
    assert refusals({}, task) == []


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ({"params.algo.name": "sac"}, "params.algo.name other than PPO's"),
        ({"params.algo.name": "a2c_discrete"}, "params.algo.name for other actions"),
        ({"params.config.central_value_config": {}}, "params.config.central_value_config"),
        ({"params.config.max_steps": 10}, "params.config.max_steps"),
        ({"params.config.self_play_config": {}}, "params.config.self_play_config"),
        ({"params.config.normalize_rms_advantage": True}, "params.config.normalize_rms_advantage"),
        (
            {"params.config.population_based_training": True},
            "params.config.population_based_training",
        ),
    ],
)
def test_what_cannot_work_is_refused_by_name(agent, expected):
    if expected == "params.algo.name other than PPO's":
        # The next refusal asks about PPO's names only, and is never reached.
        config = dataclasses.replace(RunConfig(), agent={"params": {"algo": {"name": "sac"}}})
        assert next(r.name for r in SPEC.refuses if r.applies(config, CONTINUOUS)) == expected
        return
    assert refusals(agent) == [expected]


def test_multi_discrete_actions_are_refused_first():
    config = RunConfig()
    task = TaskInfo("any", "multi_discrete")
    assert SPEC.refuses[0].applies(config, task)
