"""What a study has found: its best trial, as a table, a file of options, and a page."""

from __future__ import annotations

import importlib.util
import shutil

from rltrain.errors import UsageError
from rltrain.runs import shortest
from rltrain_sweep.population import Population
from rltrain_sweep.study import Study
from rltrain_sweep.trial import best_of


def show_best(study: Study) -> int:
    """Print the best trial; write its options to `best.yaml`, and the page if there can be one.

    Raises:
        UsageError: none is complete yet.
    """
    populated = study.settings.population is not None
    found = Population(study).found() if populated else study.found()
    states = [each.state for each in found]
    counts = ", ".join(f"{states.count(each)} {each}" for each in dict.fromkeys(states))
    if (best := best_of(found, study.settings.minimize)) is None:
        raise UsageError(f"{study.path}: no trial is complete yet ({counts or 'none began'}).")
    name = f"{best.name}-seed-{study.seed}" if study.settings.seeds > 1 else best.name
    if not (runs := study.runs_of(name)):
        raise UsageError(f"{study.path}: the run folder of {name} is gone.")
    run, file = runs[-1].path, study.path / "best.yaml"
    shutil.copyfile(run / "agent.yaml", file)
    print(f"\ntrials   {counts}")
    print(f"best     {best.name}, {study.settings.objective} {best.value:.6g}")
    for key, value in best.values.items():
        print(f"         {key}={value}")
    print(f"run      {shortest(run)}")
    print(f"options  {shortest(file)}, for --agent-config")
    print(f"again    rltrain --config {shortest(study.path / 'trials' / name)}.yaml")
    if importlib.util.find_spec("rltrain_report") is None:
        print("page     none: pip install 'rltrain-sweep[report]'")
    else:
        from rltrain_sweep.page import write

        print(f"page     {shortest(write(study, found))}")
    return 0
