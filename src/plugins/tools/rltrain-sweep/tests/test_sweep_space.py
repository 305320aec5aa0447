"""What varies, in our words and in those of others."""

from __future__ import annotations

import argparse

import pytest
import yaml
from optuna.distributions import CategoricalDistribution as Choice
from optuna.distributions import FloatDistribution as Float
from optuna.distributions import IntDistribution as Int

from rltrain.commands import read_flags
from rltrain.errors import UsageError
from rltrain_sweep.options import SweepOptions
from rltrain_sweep.others import take_space
from rltrain_sweep.space import ends_of, nearest, shown, space_in, values_of, with_values

TEXTS = {
    "log(1e-5,1e-2)": Float(1e-5, 1e-2, log=True),
    "interval(0.5, 1)": Float(0.5, 1),
    "tag(log, interval(1e-5, 1e-2))": Float(1e-5, 1e-2, log=True),
    "tag(int, log, interval(1, 100))": Int(1, 100, log=True),
    "int(interval(1, 8))": Int(1, 8),
    "int(log(1, 8))": Int(1, 8, log=True),
    "range(1, 9, 2)": Int(1, 7, step=2),
    "range(3)": Int(0, 2),
    "range(0, 1, 0.25)": Float(0, 0.75, step=0.25),
    "choice(elu, relu)": Choice(["elu", "relu"]),
    "choice(1e-3, 2, true, null, 'a,b')": Choice([1e-3, 2, True, None, "a,b"]),
    "choice(it's, 2020-01-01)": Choice(["it's", "2020-01-01"]),
    "choice([64,64], [32])": Choice(["[64, 64]", "[32]"]),
}


@pytest.mark.parametrize("text", TEXTS)
def test_an_option_varies_as_it_is_written(text):
    assert space_in({"agent": {"a.b": text}, "num_envs": "8"}) == {"agent.a.b": TEXTS[text]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("choise(1,2)", "there is no choise().*'choice'"),
        ("choice()", "must contain one or more"),
        ("log(0,1)", "low"),
        ("log(1,1e-3)", "low"),
        ("interval(1)", "two numbers"),
        ("interval(a,b)", "takes numbers"),
        ("range(5,1)", "START below STOP"),
        ("range(1,2,0)", "STEP above 0"),
        ("range(1,2,3,4)", "range"),
        ("tag(log,choice(1,2))", "write tag"),
        ("tag(loud,interval(1,2))", "write tag"),
    ],
)
def test_a_space_that_is_wrong_is_named(text, reason):
    with pytest.raises(UsageError, match=reason) as caught:
        space_in({"env": {"mass": text}})
    assert str(caught.value).startswith(f"env.mass={text}: ")


def test_values_reach_the_run_as_it_takes_them():
    options = {"num_envs": "choice(8,16)", "agent": {"units": "choice([64,64],[32])"}, "env": {}}
    space = space_in(options)
    assert ends_of(space["agent.units"]) == [[64, 64], [32]]
    values = values_of({"num_envs": 8, "agent.units": "[32]"})
    assert with_values(options, values) == {"num_envs": 8, "agent": {"units": [32]}, "env": {}}
    assert (
        shown({"agent.a.lr": 0.12345, "env.lr": 1, "seed": 2})
        == "agent.a.lr=0.1235 env.lr=1 seed=2"
    )
    assert nearest(Int(1, 7, step=2), 4.4) == 5
    assert nearest(Float(0, 1), 1.2) == 1
    assert ends_of(Choice([1, "1", True])) == [1, "1", True]


WANTED = {
    "agent.params.config.learning_rate": Float(1e-4, 1e-2, log=True),
    "agent.params.config.mini_epochs": Int(2, 8, step=2),
    "env.pole_length": Choice([0.5, 1.0]),
}
HYDRA = {
    "agent.params.config.learning_rate": "tag(log,interval(1e-4,1e-2))",
    "agent.params.config.mini_epochs": "range(2,9,2)",
    "env.pole_length": "0.5,1.0",
}
SEARCH = {
    "agent.params.config.learning_rate": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True},
    "agent.params.config.mini_epochs": {"type": "int", "low": 2, "high": 8, "step": 2},
    "env.pole_length": {"type": "categorical", "choices": [0.5, 1.0]},
}
WANDB = {
    "program": "train.py",
    "method": "random",
    "metric": {"name": "return", "goal": "minimize"},
    "run_cap": 7,
    "early_terminate": {"type": "hyperband", "eta": 2},
    "parameters": {
        "agent": {
            "parameters": {
                "params.config.learning_rate": {
                    "distribution": "log_uniform_values",
                    "min": 1e-4,
                    "max": 1e-2,
                },
                "params.config.mini_epochs": {
                    "distribution": "q_uniform",
                    "min": 2,
                    "max": 8,
                    "q": 2,
                },
            }
        },
        "env.pole_length": {"values": [0.5, 1.0]},
    },
}
PBT = {
    "pbt": {
        "enabled": True,
        "num_policies": 8,
        "interval_steps": 4096,
        "objective": "return",
        "threshold_std": 0.1,
        "mutation": {
            "agent.params.config.learning_rate": "mutate_float",
            "agent.params.config.gamma": "mutate_discount",
        },
    }
}
RUN = {"library": "rl_games", "num_envs": 16, "device": "cpu", "agent": {}, "env": {}}


def settled(tmp_path, content, **own):
    (file := tmp_path / "space.yaml").write_text(yaml.safe_dump(content))
    arguments = argparse.Namespace(space=str(file), **own)
    run = take_space(arguments, {**RUN, "max_iterations": 16})
    return read_flags(SweepOptions, arguments), run


@pytest.mark.parametrize(
    "sweeper", [{"params": HYDRA}, {"search_space": SEARCH, "direction": "minimize"}]
)
def test_hydras_sweepers_are_the_same_space(tmp_path, sweeper):
    sampler = {"_target_": "optuna.samplers.TPESampler", "seed": 1, "n_startup_trials": 3}
    content = {"hydra": {"sweeper": {**sweeper, "n_trials": 9, "sampler": sampler}}}
    settings, run = settled(tmp_path, content)
    assert space_in(run) == WANTED
    assert (settings.trials, run["seed"]) == (9, 1)
    assert settings.sampler == "TPESampler(n_startup_trials=3)"
    assert settings.minimize is (sweeper.get("direction") == "minimize")


def test_a_sweep_of_wandb_is_the_same_space(tmp_path):
    settings, run = settled(tmp_path, WANDB, trials=5)
    found = space_in(run)
    assert found.pop("agent.params.config.mini_epochs") == Float(2, 8, step=2)
    assert found == {k: x for k, x in WANTED.items() if "mini_epochs" not in k}
    assert (settings.sampler, settings.minimize) == ("random", True)
    assert settings.pruner == "hyperband(reduction_factor=2)"
    assert settings.trials == 5, "what is typed wins"


def test_a_pbt_section_is_a_population(tmp_path, capsys):
    settings, run = settled(tmp_path, PBT)
    assert settings.population == 8
    assert settings.generation == 8, "4096 steps are 8 iterations of 16 environments"
    assert set(space_in(run)) == set(PBT["pbt"]["mutation"])
    assert "threshold_std" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"a": 1}, "is no sweep of W&B"),
        ({"parameters": {"a": {"distribution": "beta", "min": 0, "max": 1}}}, "beta is not known"),
        ({"parameters": {"a": {"distribution": "uniform"}}}, "'min'"),
        ({"parameters": {"a": 3}}, "space.yaml"),
        (
            {"pbt": {"mutation": {"agent.nothing": "mutate_float"}, "num_policies": 2}},
            "is no number",
        ),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path, content, reason):
    with pytest.raises(UsageError, match=reason):
        settled(tmp_path, content)
