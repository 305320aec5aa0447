"""A study's folder: who takes which trial, and what a population decides."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

from rltrain.errors import UsageError
from rltrain_sweep.options import StudyOptions
from rltrain_sweep.population import decide
from rltrain_sweep.study import Found, Study
from rltrain_sweep.trial import best_of, interquartile_mean
from rltrain_sweep.work import slots_of

RUN = {"agent": {"lr": "log(1e-4,1e-2)"}, "env": {"length": "choice(0.5,1.0)"}, "seed": 3}


SPACE = {"lr": FloatDistribution(1e-4, 1e-2, log=True), "act": CategoricalDistribution(["a", True])}


def a_study(path, **settings):
    return Study.create(path, StudyOptions(**{"trials": 3, **settings}), RUN)


def test_a_trial_whose_worker_has_died_is_taken_up_again_and_none_is_run_twice(tmp_path):
    first, second = a_study(tmp_path / "st"), Study(tmp_path / "st")
    trial, lock = first.take()
    other, other_lock = second.take()
    assert (trial.number, other.number) == (0, 1)
    os.close(lock)  # As when its worker and its run are dead.
    again, _ = second.take()
    assert (again.number, again.params) == (0, trial.params)
    last, _ = first.take()
    assert last.number == 2
    assert first.take() is None, "three trials are all"
    second.optuna.tell(1, 5.0)
    os.close(other_lock)
    assert first.take() is None, "what has ended is not taken again"
    assert [each.state for each in first.found()] == ["running", "complete", "running"]


def test_a_worker_that_dies_before_its_trial_has_values_costs_no_trial(tmp_path):
    study = a_study(tmp_path / "st", trials=1)
    study.optuna.ask()
    trial, _ = study.take()
    assert trial.number == 1
    assert study.take() is None
    assert study.found()[0].state == "failed"


@pytest.mark.parametrize("sampler", ["tpe", "random", "nsgaii", "tpe(multivariate=true)"])
def test_which_worker_asks_changes_no_trial(tmp_path, sampler):
    one = a_study(tmp_path / "one", sampler=sampler)
    several = [a_study(tmp_path / "several", sampler=sampler) for _ in range(3)]
    alone = [one.take()[0].params for _ in range(3)]
    assert [each.take()[0].params for each in several] == alone
    assert alone[0] != alone[1]


def test_a_folder_has_one_study_which_may_grow(tmp_path):
    a_study(tmp_path / "st")
    assert a_study(tmp_path / "st", trials=9).settings.trials == 9
    with pytest.raises(
        UsageError, match=r"another objective, return, not evaluate\. .* sweep work"
    ):
        a_study(tmp_path / "st", objective="evaluate")
    with pytest.raises(UsageError, match="is no study"):
        Study(tmp_path)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"sampler": "tpee"}, "--sampler tpee: Optuna has no such sampler. Did you mean 'tpe'"),
        ({"sampler": "tpe(n=1)"}, "--sampler tpe.n=1.: .*'n'"),
        ({"pruner": "hyper"}, "--pruner hyper: Optuna has no such pruner"),
        ({"storage": "nosql://x"}, "--storage nosql://x: cannot be opened"),
    ],
)
def test_what_optuna_does_not_have_is_named(tmp_path, settings, reason):
    with pytest.raises(UsageError, match=reason):
        _ = a_study(tmp_path / "st", **settings).optuna


def test_a_folder_may_be_moved_and_named_by_any_path(tmp_path, monkeypatch):
    a_study(tmp_path / "st").take()
    (tmp_path / "st").rename(tmp_path / "other")
    monkeypatch.chdir(tmp_path / "other")
    assert len(Study(Path()).found()) == 1


@pytest.mark.parametrize("damage", ["trials: many", "run: 3", "seeds: 0", "[", ""])
def test_a_damaged_study_is_named(tmp_path, damage):
    file = a_study(tmp_path / "st").path / "study.yaml"
    file.write_text(damage)
    with pytest.raises(UsageError, match=r"study\.yaml|--trials|--seeds"):
        Study(tmp_path / "st")


def test_a_grid_has_no_more_trials_than_points(tmp_path):
    run = {"agent": {"lr": "choice(1,2,3)"}, "env": {"length": "choice(0.5,1.0)"}}
    study = Study.create(tmp_path / "st", StudyOptions(sampler="grid"), run)
    assert study.trials == 6
    drawn = {str(study.take()[0].params) for _ in range(6)}
    assert len(drawn) == 6
    assert study.take() is None


def test_a_database_keeps_the_trials_too(tmp_path):
    study = a_study(tmp_path / "st", storage=f"sqlite:///{tmp_path}/st.db")
    trial, lock = study.take()
    os.close(lock)
    study.optuna.tell(trial.number, 1.0)
    assert Study(tmp_path / "st").optuna.best_value == 1.0
    assert study.optuna.trials[0].state == TrialState.COMPLETE


def members(*values, saved=None):
    saved = saved or "y" * len(values)
    return [
        Found(n, {"lr": 1e-3, "act": True}, value, "complete", 0, n, "x" if s == "y" else None)
        for n, (value, s) in enumerate(zip(values, saved, strict=True))
    ]


@pytest.mark.parametrize(
    ("values", "saved", "minimize", "parents"),
    [
        ([1, 2, 3, 4], "yyyy", False, [3, 1, 2, 3]),
        ([1, 2, 3, 4], "yyyy", True, [0, 1, 2, 0]),
        ([1, 2, 3, 4], "yyyn", False, [2, 1, 2, 2]),  # A leader without a checkpoint is no leader.
        ([1, 1, 1, 1], "yyyy", False, [0, 1, 2, 3]),  # Nobody is better.
        ([None, 2, 3, float("nan")], "nyyy", False, [2, 1, 2, 2]),
        ([5, None], "yn", False, [0, 0]),
    ],
)
def test_the_worst_go_on_from_the_best_that_have_saved(values, saved, minimize, parents):
    decided = decide(members(*values, saved=saved), SPACE, 1, minimize)
    assert [parent for parent, _ in decided] == parents
    for number, (parent, new) in enumerate(decided):
        assert (new == {"lr": 1e-3, "act": True}) is (parent == number)
        assert 1e-4 <= new["lr"] <= 1e-2
        assert new["act"] is True or new["act"] == "a", "a choice is no number"
    assert decided == decide(members(*values, saved=saved), SPACE, 1, minimize)


def test_a_population_that_has_saved_nothing_ends():
    with pytest.raises(UsageError, match="no member has saved a checkpoint"):
        decide(members(1, 2, saved="nn"), SPACE, 1)


def test_the_best_of_a_population_is_of_its_last_generation():
    early = Found(0, {}, 9.0, "complete", 0, 0, "x")
    late = Found(1, {}, 5.0, "complete", 1, 1, "x")
    assert best_of([early, late], False) is late
    assert best_of([Found(0, {}), Found(1, {}, 1.0), Found(2, {}, 2.0)], True).number == 1


def test_several_seeds_are_their_interquartile_mean():
    assert interquartile_mean([9, 1, 2, 3]) == 2.5
    assert interquartile_mean([1, 2, 6]) == 3


def plan_of(kind, ranks=1, nodes=False):
    config = SimpleNamespace(device_kind=kind, nproc_per_node=ranks, gpu_ids=None, distributed=True)
    return SimpleNamespace(config=config, starts_nodes=nodes, options={})


@pytest.mark.parametrize(
    ("plan", "parallel", "slots"),
    [
        (plan_of("cuda", 5), 1, [((), ())]),
        (plan_of("cuda", 5), 2, [((0, 1), ()), ((2, 3), ())]),
        (plan_of("cpu"), 2, [((), (2, 3)), ((), (5, 7))]),
        (plan_of("cpu"), 9, [((), ())] * 9),
        (plan_of("cuda", nodes=True), 2, [((), ())] * 2),  # The launcher's nodes have their own.
    ],
)
def test_slots_share_out_the_machine_without_overlap(tmp_path, monkeypatch, plan, parallel, slots):
    monkeypatch.setattr("rltrain_sweep.work.make_plan", lambda options: plan)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3, 5, 7})
    found = slots_of(a_study(tmp_path / "st"), parallel)
    assert [(each.gpus, each.cores) for each in found] == slots


def test_more_slots_than_gpus_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("rltrain_sweep.work.make_plan", lambda options: plan_of("cuda", 2))
    with pytest.raises(UsageError, match="--parallel 3: there are 2 GPUs"):
        slots_of(a_study(tmp_path / "st"), 3)
