from __future__ import annotations

import copy
import os
import subprocess
import sys

import pytest
from rsl_rl_stubs import small_agent

from rltrain.agent_options import get_dotted
from rltrain.config import RunConfig
from rltrain.plugins import load_object
from rltrain.types import TaskInfo
from rltrain_rsl_rl.options import DEFAULTS, OPTION_KEYS
from rltrain_rsl_rl.plugin import rltrain_provides

(SPEC,) = rltrain_provides()
POINT = TaskInfo("Point-v0", "continuous")


def test_the_plugin_is_light():
    code = (
        "import sys, rltrain_rsl_rl.plugin as plugin; from rltrain.types import TaskInfo; "
        "[spec] = plugin.rltrain_provides(); "
        "spec.default_agent(TaskInfo('x', 'continuous'), 'ppo'); "
        "print(sorted({'torch', 'rsl_rl', 'tensordict', 'jax', 'gymnasium'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    output = subprocess.check_output(
        [sys.executable, "-c", code], text=True, timeout=60, env=environment
    )
    assert output.strip() == "[]"


def test_what_the_spec_names_exists():
    assert load_object(SPEC.factory)
    assert load_object(SPEC.read_checkpoint)


@pytest.mark.parametrize(
    ("task", "file"),
    [
        ("Pendulum-v1", "Pendulum-v1.yaml"),
        ("rltrain/CartPoleContinuous-v1", "rltrain-CartPoleContinuous-v1.yaml"),
        ("HalfCheetah-v5", "ppo.yaml"),
    ],
)
def test_defaults_are_looked_up_by_task(task, file):
    from rltrain.config import load_yaml

    agent = SPEC.default_agent(TaskInfo(task, "continuous"), "ppo")
    assert agent == load_yaml(str(DEFAULTS / file), "")


@pytest.mark.parametrize("file", sorted(DEFAULTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_defaults_are_complete(file):
    from rltrain.agent_options import flatten
    from rltrain.config import load_yaml

    agent = load_yaml(str(file), "")
    needed = (*SPEC.required_keys, *SPEC.run_keys.values())
    assert all(get_dotted(agent, key, None) is not None for key in needed)
    assert {key for key, _ in flatten(agent)} <= OPTION_KEYS


@pytest.mark.parametrize(
    "other",
    [
        {"params": {"algo": {"name": "a2c_continuous"}, "config": {}}},
        {"models": {}, "agent": {"class": "PPO"}, "trainer": {}},
    ],
)
def test_files_of_other_libraries_lack_a_required_key(other):
    assert any(get_dotted(other, key, None) is None for key in SPEC.required_keys)


def refused(agent, task=POINT, **config) -> list[str]:
    resolved = RunConfig(library="rsl_rl", agent=agent, **config)
    return [refusal.name for refusal in SPEC.refuses if refusal.applies(resolved, task)]


@pytest.mark.parametrize("ranks", [{}, {"distributed": True}])
def test_the_defaults_are_not_refused(ranks):
    assert refused(small_agent(), **ranks) == []


@pytest.mark.parametrize("action", ["discrete", "multi_discrete"])
def test_discrete_tasks_are_refused(action):
    assert refused(small_agent(), TaskInfo("Point-v0", action)) == ["discrete actions"]


def test_rnd_is_refused_on_several_ranks():
    agent = small_agent(rnd_cfg={"weight": 0.1})
    assert refused(agent) == []
    assert refused(agent, distributed=True, nproc_per_node=1) == []
    assert refused(agent, distributed=True) == ["random network distillation on several ranks"]


@pytest.mark.parametrize(
    ("name", "refusal"),
    [("Distillation", "distillation"), ("my_code:MyPPO", "algorithms other than PPO")],
)
def test_algorithms_other_than_ppo_are_refused(name, refusal):
    agent = small_agent()
    agent["algorithm"]["class_name"] = name
    assert refused(agent) == [refusal]


def test_files_of_older_versions_are_refused():
    agent = copy.deepcopy(small_agent())
    agent["policy"] = agent.pop("actor")
    assert refused(agent) == ["options without actor and critic"]


def test_reasons_are_sentences():
    assert all(item.reason.endswith(".") and item.instead.endswith(".") for item in SPEC.refuses)
