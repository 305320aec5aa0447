"""Which options reach SB3, and which are refused before any rank starts."""

from __future__ import annotations

import inspect

import pytest
from stable_baselines3 import A2C, PPO

import rltrain
from rltrain.errors import UsageError
from rltrain.testing import FakeWorld
from rltrain.types import TaskInfo
from rltrain_sb3.options import OPTION_KEYS, TIMESTEPS, keywords
from rltrain_sb3.plugin import rltrain_provides

(SPEC,) = rltrain_provides()
DEFAULTS = SPEC.default_agent(TaskInfo("any", "continuous"), "ppo")
ALGORITHMS = {"ppo": PPO, "a2c": A2C}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_option_is_a_keyword_of_the_installed_algorithm(name):
    known = inspect.signature(ALGORITHMS[name]).parameters
    defaults = SPEC.default_agent(TaskInfo("any", "continuous"), name)
    assert set(keywords(defaults, name)) <= set(known)
    assert set(defaults) <= OPTION_KEYS


def test_no_option_is_unknown_to_all_algorithms():
    known = {TIMESTEPS}.union(*(inspect.signature(each).parameters for each in ALGORITHMS.values()))
    assert {key.partition(".")[0] for key in OPTION_KEYS} <= known


def test_keywords_that_the_run_decides_do_not_reach_ppo():
    options = keywords({**DEFAULTS, "seed": 3, "device": "cuda", "tensorboard_log": "x"}, "ppo")
    assert options == {key: value for key, value in DEFAULTS.items() if key != TIMESTEPS}


def test_an_option_that_the_algorithm_does_not_have_is_named():
    with pytest.raises(UsageError, match=r"agent\.n_step: .* Did you mean 'n_steps'\?"):
        keywords({"n_step": 8}, "ppo")
    with pytest.raises(UsageError, match=r"agent\.n_epochs: SB3's A2C has no such option"):
        keywords({"n_epochs": 8}, "a2c")


def test_a_schedule_falls_to_0():
    schedule = keywords({"learning_rate": "lin_3e-4"}, "ppo")["learning_rate"]
    assert [schedule(progress) for progress in (1.0, 0.5, 0.0)] == pytest.approx([3e-4, 1.5e-4, 0])


@pytest.mark.parametrize("value", ["lin_fast", "cos_3e-4"])
def test_another_schedule_is_refused(value):
    with pytest.raises(UsageError, match=rf"agent\.clip_range={value}: must be a number"):
        keywords({"clip_range": value}, "ppo")


def test_target_kl_is_refused_on_several_ranks(tmp_path):
    options = {"library": "sb3", "agent": {"target_kl": 0.01}, "log_root": str(tmp_path)}
    with pytest.raises(UsageError, match="target_kl on several ranks: Each rank would stop"):
        FakeWorld(2).train(**options)
    alone = rltrain.train(**options, writers=(), num_envs=8, max_iterations=1)
    assert alone.iterations == 1


def test_another_policy_is_refused(tmp_path):
    with pytest.raises(UsageError, match="a policy other than MlpPolicy: The plugin passes"):
        rltrain.train(library="sb3", agent={"policy": "CnnPolicy"}, log_root=str(tmp_path))


def test_a_file_of_rl_zoo_works_as_it_is(tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text("{policy: MlpPolicy, n_steps: 8, batch_size: 32, clip_range: lin_0.2, seed: 7}")
    options = {"library": "sb3", "agent_config": str(path), "log_root": str(tmp_path)}
    result = rltrain.train(**options, writers=(), num_envs=8, max_iterations=1)
    assert result.frames == 64
