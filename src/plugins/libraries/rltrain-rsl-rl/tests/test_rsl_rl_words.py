"""Words that rsl_rl takes are those that its sources have; others are refused by the plan."""

from __future__ import annotations

import pytest
import rsl_rl.models
import rsl_rl.modules
from rsl_rl.utils import resolve_nn_activation, resolve_optimizer
from rsl_rl_stubs import small_agent

from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain_rsl_rl.declare.choices import choices

OTHERS = {
    "algorithm.optimizer": "adam",
    "algorithm.loss_type": "mse",
    "actor.rnn_type": "lstm",
    "policy.noise_std_type": "log",
}
"""Options that the defaults do not have."""


def plan(**agent):
    return make_plan({"library": "rsl_rl", "task": "rltrain/CartPoleContinuous-v1", "agent": agent})


def with_others(**changed):
    agent = small_agent()
    for key, value in (OTHERS | changed).items():
        section, _, name = key.partition(".")
        agent.setdefault(section, {})[name] = value
    return agent


def test_the_words_are_those_of_the_installed_version():
    found = choices(with_others())
    for word in found["actor.activation"].allowed:
        assert resolve_nn_activation(word)
    for word in found["algorithm.optimizer"].allowed:
        assert resolve_optimizer(word)
    with pytest.raises(ValueError, match="Valid activations are: ") as told:
        resolve_nn_activation("none such")
    assert all(repr(word) in str(told.value) for word in found["actor.activation"].allowed)
    assert str(told.value).count("', '") == len(found["actor.activation"].allowed) - 1
    assert {"adam", "sgd"} < found["algorithm.optimizer"].allowed
    assert found["actor.class_name"].allowed == set(rsl_rl.models.__all__)
    distributions = found["actor.distribution_cfg.class_name"].allowed
    assert "GaussianDistribution" in distributions
    assert all(issubclass(getattr(rsl_rl.modules, x), object) for x in distributions)
    assert found["actor.distribution_cfg.std_type"].allowed == {"scalar", "log"}
    assert found["policy.noise_std_type"].allowed == {"scalar", "log"}
    assert found["algorithm.schedule"].allowed == {"adaptive", "fixed"}
    assert found["algorithm.loss_type"].allowed == {"mse", "huber"}
    assert found["actor.rnn_type"].allowed == {"lstm", "gru"}


@pytest.mark.parametrize(
    ("key", "word", "meant"),
    [
        ("algorithm.optimizer", "sgdd", "sgd"),
        ("actor.activation", "eluu", "elu"),
        ("critic.class_name", "MLPModl", "MLPModel"),
        ("actor.distribution_cfg.class_name", "GausianDistribution", "GaussianDistribution"),
        ("actor.distribution_cfg.std_type", "scalr", "scalar"),
        ("algorithm.schedule", "adaptve", "adaptive"),
    ],
)
def test_a_word_that_rsl_rl_lacks_is_refused_by_the_plan(key, word, meant):
    with pytest.raises(UsageError) as refused:
        plan(**{key: word})
    assert str(refused.value).startswith(f"agent.{key}={word}: rsl_rl 5.")
    assert f"Did you mean {meant!r}?" in str(refused.value)


def test_words_are_taken_in_any_case_where_rsl_rl_does():
    plan(**{"actor.activation": "ELU", "algorithm.optimizer": "AdamW"})


def test_a_class_of_the_users_own_takes_any_word():
    for mine in ("my.models:Mine", "rsl_rl_of_ours.models.Mine"):
        found = choices(with_others(**{"actor.class_name": mine}))
        assert not [key for key in found if key in ("actor.activation", "actor.class_name")]
        assert "critic.activation" in found


def test_options_of_any_shape_are_read():
    for odd in (
        {},
        {"actor": None, "algorithm": []},
        {"actor": {"class_name": [1], "x": 1}, "policy": "x"},
    ):
        choices(odd)
