"""The options of `rltrain sweep`: of a study, and of one command."""

from __future__ import annotations

from dataclasses import dataclass

from rltrain.options import Group, Scope

OWN, COMMAND = Group("the study"), Scope.COMMAND


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """What is searched for, and how: kept in `study.yaml`."""

    trials: int | None = OWN.number(
        None,
        COMMAND,
        "trials of all workers",
        1,
        flags=("--n-trials",),
        default_text="20; of a grid, all",
    )
    seeds: int = OWN.number(
        1, COMMAND, "runs of a trial, with seeds that follow --seed; their interquartile mean", 1
    )
    objective: str = OWN.named(
        "return",
        COMMAND,
        "return, success_rate, episode_length, a value of metrics.jsonl such as loss/value; "
        "evaluate or evaluate.iqm, as `rltrain evaluate` finds it",
    )
    minimize: bool = OWN.switch(COMMAND, "the smallest is the best")
    frames: int | None = OWN.number(
        None, COMMAND, "environment steps that end a trial", 1, flags=("-n", "--n-timesteps")
    )
    time: int | None = OWN.number(None, COMMAND, "time that ends a trial", 1, metavar="SECONDS")
    sampler: str = OWN.named("tpe", COMMAND, "Optuna's sampler, such as tpe(multivariate=true)")
    pruner: str | None = OWN.named(
        None, COMMAND, "Optuna's pruner; nop prunes nothing", default_text="median"
    )
    checks: int = OWN.number(
        20, COMMAND, "how many times in a trial it may be pruned", 1, flags=("--n-evaluations",)
    )
    n_startup_trials: int | None = OWN.number(
        None, COMMAND, "trials before the sampler and the pruner begin", 0, default_text="Optuna's"
    )
    storage: str | None = OWN.option(
        None, COMMAND, "database of Optuna's", metavar="URL", default_text="a journal in the folder"
    )
    population: int | None = OWN.number(
        None, COMMAND, "members of a population, instead of trials", 2
    )
    generation: int | None = OWN.number(
        None, COMMAND, "iterations after which the worst members copy the best", 1
    )


@dataclass(frozen=True, kw_only=True)
class SweepOptions(StudyOptions):
    """Those, and what a study does not keep."""

    words: tuple[str, ...] = OWN.option(
        (), COMMAND, "work DIR, best DIR, or the task", kind="words", metavar="WORD"
    )
    study: str | None = OWN.option(
        None, COMMAND, "folder of the study", metavar="DIR", flags=("--study-name",)
    )
    parallel: int = OWN.number(
        1, COMMAND, "trials at a time in this worker", 1, flags=("--n-jobs",)
    )
    space: str | None = OWN.option(
        None,
        COMMAND,
        "file with what varies: a sweep of W&B, Hydra's sweeper, or a pbt: section",
        names="path",
    )
    multirun: bool = OWN.switch(COMMAND, "a,b is a choice, as for Hydra", flags=("-m",))
    optimize: bool = OWN.switch(COMMAND, "of RL Zoo: has no effect", flags=("-optimize",))
    config: str | None = OWN.option(None, COMMAND, "YAML file with a run's options", names="path")
    dry_run: bool = OWN.switch(COMMAND, "check all and start nothing")
