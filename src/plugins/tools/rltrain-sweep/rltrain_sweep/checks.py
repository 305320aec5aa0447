"""What is refused before a trial starts; Optuna's samplers and pruners by their names."""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from collections.abc import Mapping
from typing import Any

import optuna
import yaml

from rltrain.commands import make_plan
from rltrain.errors import UsageError, in_a_line, suggest
from rltrain.options import flag
from rltrain_sweep.options import StudyOptions, SweepOptions
from rltrain_sweep.space import Space, ends_of, first_of, space_in, with_values

_OBJECTIVES = ("return", "episode_length", "success_rate", "evaluate", "evaluate.iqm")
_THE_STUDYS = ("log_root", "run_name", "resume", "auto_resume")
_OF_ZOO = {"none": "nop", "halving": "successivehalving"}
_NOT_OF_POPULATIONS = ("seeds", "frames", "time", "pruner", "storage")


def check_study(own: SweepOptions, run: Mapping[str, Any]) -> None:
    """Check a study before a trial starts: each end of its space is planned.

    Args:
        own: its options.
        run: those of a run, with what varies.

    Raises:
        UsageError: options contradict each other, nothing varies, or a run would be refused.
    """
    space, taken = space_in(run), [name for name in _THE_STUDYS if run.get(name)]
    if own.study is None and not own.dry_run:
        raise UsageError("sweep: name the folder of the study: --study DIR.")
    if taken:
        raise UsageError(f"{flag(taken[0])}: a study has its own. Leave it out.")
    if not space:
        raise UsageError(
            'sweep: nothing varies. Write an option as "log(1e-5,1e-2)" or "choice(a,b)", such as '
            '"agent.gamma=choice(0.98,0.99)".'
        )
    if own.time and own.frames:
        raise UsageError(f"--frames {own.frames} and --time: give one of the two.")
    if own.seeds > 1 and "seed" in space:
        raise UsageError(f"--seeds {own.seeds}: --seed varies already. Leave one out.")
    if "seed" not in space and str(run.get("seed")).startswith("-"):
        raise UsageError(f"--seed {run['seed']}: a study needs a seed from 0.")
    if own.objective not in _OBJECTIVES and "/" not in own.objective:
        raise UsageError(
            f"--objective {own.objective}: is no metric.{suggest(own.objective, _OBJECTIVES)} Give "
            f"{', '.join(_OBJECTIVES)}, or a value of metrics.jsonl, such as loss/value."
        )
    _check_population(own, run)
    _rehearse(own, space)
    first = first_of(space)
    make_plan(with_values(run, first))
    for key, each in space.items():
        for value in ends_of(each)[1:]:
            make_plan(with_values(run, {**first, key: value}))


def _check_population(own: SweepOptions, run: Mapping[str, Any]) -> None:
    if own.population is None:
        if own.generation is not None:
            raise UsageError(f"--generation {own.generation}: add --population N.")
        return
    for name in _NOT_OF_POPULATIONS:
        if getattr(own, name) != getattr(StudyOptions(), name):
            raise UsageError(f"{flag(name)}: a population has none. Leave it out.")
    if own.objective.startswith("evaluate"):
        raise UsageError(f"--objective {own.objective}: a population has no evaluations.")
    for name in {"seed", "max_iterations"} & set(space_in(run)):
        raise UsageError(f"{flag(name)}: may not vary in a population. Give a number.")
    whole, each = run.get("max_iterations"), own.generation
    if whole is None or each is None or int(whole) % each or int(whole) == each:
        raise UsageError(
            f"--population {own.population}: give --generation N and, as a multiple of it, "
            "--max-iterations."
        )


def _rehearse(own: StudyOptions, space: Space) -> None:
    """Refuse a sampler or a pruner that fails once it has seen some trials."""
    study = optuna.create_study(sampler=make_sampler(own, space, 0), pruner=make_pruner(own))
    try:
        for value in range(12):  # Samplers of Optuna begin after 10.
            trial = study.ask(dict(space))
            for step in range(4):
                trial.report(value + step, step)
                trial.should_prune()
            with contextlib.suppress(RuntimeError):  # A grid at its end would stop `optimize`.
                study.tell(trial, value)
    except Exception as error:
        which = f"--sampler {own.sampler}, --pruner {own.pruner or 'as usual'}"
        raise UsageError(f"{which}: {in_a_line(error):.200}.") from error


def make_sampler(settings: StudyOptions, space: Space, seed: int) -> Any:
    """Return Optuna's sampler."""
    text = settings.sampler
    grid = {key: getattr(each, "choices", None) for key, each in space.items()}
    if "grid" in text.lower() and None in grid.values():
        raise UsageError(f"--sampler {text}: takes choices alone. Write choice(A,B).")
    usual = {"seed": seed, "constant_liar": True, "search_space": grid}
    return _of_optuna("sampler", text, optuna.samplers, settings, **usual)


def make_pruner(settings: StudyOptions) -> Any:
    """Return Optuna's pruner.

    With three seeds Wilcoxon's test is never below Optuna's 0.1: two that lose are enough here.
    """
    usual = "median" if settings.seeds == 1 else "wilcoxon(p_threshold=0.3)"
    return _of_optuna("pruner", settings.pruner or usual, optuna.pruners, settings)


def _of_optuna(option: str, text: str, module: Any, settings: StudyOptions, **usual: Any) -> Any:
    """Return an object of Optuna's by its name: `tpe`, `TPESampler` or `tpe(gamma=...)`."""
    if settings.n_startup_trials is not None:
        usual["n_startup_trials"] = settings.n_startup_trials
    suffix = option.capitalize()
    names = [name for name in module.__all__ if name.endswith(suffix) and name[:4] != "Base"]
    known = {name.removesuffix(suffix).lower(): name for name in names}
    known |= {short: known[name] for short, name in _OF_ZOO.items() if name in known}
    found = re.fullmatch(r"(\w+)(?:\((.*)\))?", text.strip())
    name = known.get(found[1].removesuffix(suffix).lower()) if found else None
    if found is None or name is None:
        raise UsageError(f"--{option} {text}: Optuna has no such {option}.{suggest(text, known)}")
    taken = inspect.signature(getattr(module, name)).parameters
    try:
        given = yaml.safe_load("{" + (found[2] or "").replace("=", ": ") + "}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "The interface can change in the future."
            return getattr(module, name)(**{k: x for k, x in usual.items() if k in taken} | given)
    except (TypeError, ValueError, ImportError, yaml.YAMLError) as error:
        raise UsageError(f"--{option} {text}: {in_a_line(error):.200}.") from error
