"""`rltrain sweep`, as it is typed."""

from __future__ import annotations

import shlex

import pytest

from rltrain.commands import main

VARIES = '"env.pole_length=choice(0.5,1)"'
WRONG = {
    "": "nothing varies",
    '"env.pole_length=choise(1,2)"': "there is no choise()",
    '"env.pole_lenght=choice(1,2)"': "pole_length",
    '"agent.params.config.learning_rate=choice(fast,slow)"': "learning_rate",
    '"--num-envs=range(0,9)"': "--num-envs 0: must be at least 1",
    f"{VARIES} --trials 0": "--trials 0: must be at least 1",
    f"{VARIES} --time soon": "--time soon: must be a whole number",
    f"{VARIES} --time 60 --frames 9": "give one of the two",
    f"{VARIES} --objective reward": "--objective reward: is no metric",
    f"{VARIES} --sampler tpee": "--sampler tpee: Optuna has no such sampler",
    '"env.pole_length=interval(0.5,1)" --sampler grid': "takes choices alone",
    f"{VARIES} --pruner hyper": "--pruner hyper: Optuna has no such pruner",
    f"{VARIES} --log-root logs": "--log-root: a study has its own",
    f"{VARIES} --resume latest": "--resume",
    '"--seed=range(3)" --seeds 3': "--seed varies already",
    f"{VARIES} --population 4": "give --generation N",
    f"{VARIES} --population 4 --generation 3 --max-iterations 10": "as a multiple of it",
    f"{VARIES} --population 4 --generation 5 --max-iterations 10 --seeds 2": "--seeds: a popul",
    f"{VARIES} --generation 5": "add --population",
    '"--seed=range(3)" --population 4 --generation 5 --max-iterations 10': "--seed: may not vary",
    f"{VARIES} --seed -1": "--seed -1: a study needs a seed from 0",
    f'{VARIES} --sampler "tpe(gamma=0.2)"': "--sampler tpe(gamma=0.2)",
    f'{VARIES} --pruner "patient(wrapped_pruner=median,patience=2)"': "--pruner patient",
    f"Pendulum-v1 more {VARIES}": "name one task",
    "work here --trials 9": "--trials: is the study's own",
    f"{VARIES} --space none.yaml": "--space none.yaml",
    "work": "name the folder of one study",
    "work here": "here: is no study",
    "best here": "here: is no study",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_mistake_is_a_line_before_a_trial_starts(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    begins = [] if line.startswith(("work", "best")) else ["--library", "rl_games", "--study", "st"]
    assert main(["sweep", *shlex.split(line), *begins]) == 2
    said = capsys.readouterr().err
    assert WRONG[line] in said
    assert "Traceback" not in said
    assert not (tmp_path / "st").exists()


def test_the_flags_of_rl_zoo_are_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = f"sweep --task Pendulum-v1 -n 50000 -optimize --n-trials 9 --n-jobs 2 {VARIES}"
    more = "--sampler random --pruner halving --n-startup-trials 3 --n-evaluations 2 --dry-run"
    assert main(shlex.split(f"{line} {more} --library rl_games")) == 2
    assert "pole_length" in capsys.readouterr().err, "of Pendulum-v1, which has none"


def test_a_dry_run_plans_each_value_and_starts_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(f"sweep --library rl_games {VARIES} --dry-run")) == 0
    assert "Nothing was started" in capsys.readouterr().out
    assert main(shlex.split("sweep --library rl_games -m env.pole_length=0.5,1 --dry-run")) == 0
    assert not list(tmp_path.iterdir())
