"""A population: members train in generations, and the worst continue from copies of the best.

After Jaderberg et al. 2017, "Population Based Training of Neural Networks", in generations. Who
continues from whose checkpoint, and with which options, follows from the files of the generation
before alone: members in turns on one slot write what members at once do.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

import optuna
from optuna.distributions import CategoricalDistribution

from rltrain.errors import UsageError
from rltrain.runs import RunFolder
from rltrain_sweep.job import STOPPED, Ended, Job, Slot
from rltrain_sweep.space import Space, nearest, shown, values_of
from rltrain_sweep.study import Found, Study
from rltrain_sweep.trial import short, value_of

_SHARE = 4
"""One in so many is a loser, and one a leader; the paper has 20 %, in its section 4.1."""
_FACTORS = (1.2, 1 / 1.2)
"""By which a loser's new options differ from the leader's, as in the same section."""
_ANEW = 0.25
"""How likely an option gets any value of its space instead, likewise."""


def decide(
    members: Sequence[Found], space: Space, seed: int, minimize: bool = False
) -> list[tuple[int, Mapping[str, Any]]]:
    """Return for each member from whom it continues after a generation, and its values.

    The worst quarter, and who has no checkpoint, continues from a leader: one of the best quarter
    that has a checkpoint and is better. Its options change. All others continue as they are.

    Raises:
        UsageError: no member has a checkpoint.
    """

    def rank(member: Found) -> tuple[float, int]:
        value = math.nan if member.value is None else member.value * (-1 if minimize else 1)
        return (-math.inf if math.isnan(value) else value, -member.number)

    best_first = sorted(members, key=rank, reverse=True)
    quarter = max(1, len(members) // _SHARE)
    leaders = [each for each in best_first if each.checkpoint is not None][:quarter]
    if not leaders:
        raise UsageError("the population: no member has saved a checkpoint; see trials/*.log.")
    worst = {each.number for each in best_first[-quarter:]}
    found: list[tuple[int, Mapping[str, Any]]] = []
    for member in members:
        random = Random(f"{seed} {member.generation} {member.number}")
        leader = leaders[int(random.random() * len(leaders))]
        loses = member.number in worst and rank(leader)[0] > rank(member)[0]
        if loses or member.checkpoint is None:
            found.append((leader.number, explored(leader.values, space, random)))
        else:
            found.append((member.number, member.values))
    return found


def explored(values: Mapping[str, Any], space: Space, random: Random) -> dict[str, Any]:
    """Return other values near a leader's: a factor, or for choices and now and then any."""
    others, found = sample(space, random.getrandbits(32)), {}
    for key, each in space.items():
        anew, choice = random.random() < _ANEW, isinstance(each, CategoricalDistribution)
        factor = _FACTORS[random.random() < 0.5]
        near = values[key] if choice else nearest(each, values[key] * factor)
        found[key] = others[key] if anew else near
    return found


def sample(space: Space, seed: int) -> dict[str, Any]:
    """Return any values of a space."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    return values_of(study.ask(dict(space)).params)


class Population:
    """The work of a study with `--population`: a member's generation is a job."""

    head = f"{'generation':>10}  {'member':>6}  {'':<8}  {'state':<8}  {'value':>10}  options"

    def __init__(self, study: Study) -> None:
        """Keep the study."""
        self.study = study
        self._size, self._length = study.settings.population or 0, study.settings.generation or 1
        self._generations = int(study.options["max_iterations"]) // self._length

    def members(self, generation: int) -> list[Found]:
        """Return the members that have ended a generation."""
        names = [self._file(Found(n, {}, generation=generation)) for n in range(self._size)]
        files = [self.study.path / name for name in names]
        try:
            return [Found(**json.loads(file.read_text())) for file in files if file.is_file()]
        except (TypeError, ValueError) as error:
            raise UsageError(f"{files[0].parent}: a file is damaged ({error}).") from error

    def found(self) -> list[Found]:
        """Return all members, after each generation."""
        return [each for g in range(self._generations) for each in self.members(g)]

    def _file(self, member: Found) -> str:
        return f"population/{member.generation:03d}-{member.number:03d}.json"

    @property
    def _generation(self) -> int:
        """The one that is not ended; after the last, their number."""
        every = range(self._generations)
        return next((g for g in every if len(self.members(g)) < self._size), self._generations)

    def done(self) -> bool:
        """Return whether all members have ended."""
        return self._generation == self._generations

    def take(self, slot: Slot) -> Job | None:
        """Take a member that no worker trains; None if there is none now."""
        with self.study.locked():
            if (generation := self._generation) == self._generations:
                return None
            there = {member.number for member in self.members(generation)}
            for number in sorted(set(range(self._size)) - there):
                member = Found(number, {}, generation=generation, parent=number)
                if (lock := self.study.lock(member.name)) is not None:
                    return Training(self, self._begun(member), lock, slot)
        return None

    def _begun(self, member: Found) -> Found:
        """Return a member with what its generation begins with."""
        space, seed = self.study.space, self.study.seed
        if not member.generation:
            values = sample(space, Random(f"{seed} {member.number}").getrandbits(32))
            return dataclasses.replace(member, values=values)
        before = self.members(member.generation - 1)
        parent, after = decide(before, space, seed, self.study.settings.minimize)[member.number]
        return dataclasses.replace(member, parent=parent, values=after)

    def options(self, member: Found) -> dict[str, Any]:
        """Return what a member's run in its generation has besides its values."""
        options: dict[str, Any] = {
            "max_iterations": self._length * ((member.generation or 0) + 1),
            "seed": self.study.seed + member.number,
        }
        if member.generation and member.parent is not None:
            before = Found(member.parent, {}, generation=member.generation - 1)
            run = self.study.runs_of(before.name)[-1]
            options["checkpoint"] = str(run.checkpoint().path)
        return options

    def write(self, member: Found) -> None:
        """Write a member's generation, at once or not at all."""
        text = json.dumps(dataclasses.asdict(member), indent=2)
        folder = RunFolder(self.study.path)
        folder.write_atomically(self._file(member), lambda path: path.write_text(text))

    def row(self, job: Job, ended: Ended) -> str:
        """Return the row of a member that has ended a generation."""
        member = job.found
        parent = "" if member.parent == member.number else f"from {member.parent}"
        return (
            f"{member.generation:>10}  {member.number:>6}  {parent:<8}  {ended.state:<8}  "
            f"{short(ended.value):>10}  {shown(member.values)}"
        )


class Training(Job):
    """A member that trains for a generation."""

    variables: ClassVar = {"OMP_NUM_THREADS": "1"}
    """Sums on another number of threads have other last bits, and a slot may have any."""

    def __init__(self, population: Population, member: Found, lock: int, slot: Slot) -> None:
        """Start its run."""
        super().__init__(population.study, member, lock, slot)
        self._population = population
        self.start_run(member.name, **population.options(member))

    def watch(self) -> None:
        """Let it train: a generation has its iterations."""

    def after(self, status: int) -> Ended:
        """Keep the member: its objective, and its checkpoint."""
        runs = self.study.runs_of(self.found.name)
        last = runs[-1].find() if runs and status in (0, *STOPPED) else None
        value = value_of(runs[-1].scalars[-1], self.study.settings.objective) if last else None
        if last is None:
            self._population.write(dataclasses.replace(self.found, state="failed"))
            return self.failed(self.found.name, status)
        digest = last.digest
        self._population.write(
            dataclasses.replace(self.found, value=value, state="complete", checkpoint=digest)
        )
        return Ended("complete", value)
