"""Words that skrl takes are those that its sources have; others are refused by the plan."""

from __future__ import annotations

import importlib

import pytest
from skrl_fakes import small_agent

from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain_skrl import bootstrap
from rltrain_skrl.words import words

POLICY = "models.policy.network.0"


def plan(**agent):
    return make_plan({"library": "skrl", "task": "rltrain/CartPoleContinuous-v1", "agent": agent})


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_the_words_are_those_of_the_installed_version(framework):
    pytest.importorskip({"torch": "torch", "jax": "flax"}[framework])
    bootstrap.import_skrl()
    common = importlib.import_module(f"skrl.utils.model_instantiators.{framework}.common")
    runner = importlib.import_module(f"skrl.utils.runner.{framework}").Runner
    found = words(small_agent("continuous"))
    for word in found[f"{POLICY}.activations"].known:
        assert common._get_activation_function(word), word
    listed = common._get_activation_function.__doc__.count('- "')
    assert len(found[f"{POLICY}.activations"].known) == listed
    for word in found["models.policy.class"].known - {"multivariategaussianmixin"}:
        assert runner._component(None, word)  # That one, jax does not have.


@pytest.mark.parametrize(
    ("key", "word", "meant", "told"),
    [
        (f"{POLICY}.activations", "eluu", "elu", ""),
        (f"{POLICY}.activations", ["eluu"], "elu", ".0"),
        ("models.value.class", "DeterministcMixin", "deterministicmixin", ""),
    ],
)
def test_a_word_that_skrl_lacks_is_refused_by_the_plan(key, word, meant, told):
    with pytest.raises(UsageError) as refused:
        plan(**{key: word})
    word = word[0] if isinstance(word, list) else word
    assert str(refused.value).startswith(f"agent.{key}{told}={word}: skrl 2.")
    assert f"Did you mean {meant!r}?" in str(refused.value)


@pytest.mark.parametrize("given", ["ELU", ["Tanh"], "", [], None])
def test_what_skrl_takes_is_not_refused(given):
    plan(**{f"{POLICY}.activations": given})


def test_options_of_any_shape_are_read():
    for odd in ({}, {"models": []}, {"models": {"policy": {"network": ["x"], "class": 1}}}):
        words(odd)
