"""Combinations of an algorithm's options that cover every pair of values of two options."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from allpairspy import AllPairs
from claim import Claim
from shard_envs import task

STEPS = 8
"""Of a rollout, in all tables."""

ONCE_MADE = True
"""Of a clash that only made environments can tell."""

Values = Mapping[str, str]
"""The name of the value of each option."""

Pair = frozenset[tuple[str, str]]
"""Two options, each with the name of a value."""


@dataclass(frozen=True)
class Change:
    """The change of a claim by one value of an option."""

    agent: Mapping[str, Any]
    fields: Mapping[str, Any]
    by_rounding: bool = False
    """Whether the result depends on rounding: rejection sampling, half precision, or the sign of a
    number that is zero but for rounding."""


def change(
    agent: Mapping[str, Any] | None = None, by_rounding: bool = False, **fields: Any
) -> Change:
    """Return a change of a claim: of its options, and of other fields of `Claim`.

    `observations` and `actions` are named as in `shard_envs`.
    """
    return Change(agent or {}, fields, by_rounding)


def choices(prefix: str, **options: tuple[Any, ...]) -> dict[str, dict[str, Change]]:
    """Return options below a key, each with its values, which are named by themselves."""
    return {
        name: {_name(value): change({f"{prefix}{name}": value}) for value in values}
        for name, values in options.items()
    }


def _name(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:g}"


def shown(*observations: str) -> dict[str, dict[str, Change]]:
    return {"observations": {name: change(observations=name) for name in observations}}


def taken(*actions: str) -> dict[str, dict[str, Change]]:
    return {"actions": {name: change(actions=name) for name in actions}}


@dataclass(frozen=True)
class Clash:
    """Values that a run refuses to start with."""

    values: Mapping[str, tuple[str, ...]]
    """By option, those that are meant: with one of each, a run is refused."""
    reason: str
    """Words of the message that say why; empty: there is no such task, or other values clash."""
    once_made: bool = False

    def among(self, values: Values) -> bool:
        return all(values.get(option) in names for option, names in self.values.items())


@dataclass(frozen=True, eq=False)
class Combination:
    """One value of each option of a table."""

    table: Table
    values: Values

    def __str__(self) -> str:
        """List the differences from the table's first combination."""
        changed = [
            f"{option}: {value}"
            for option, value in self.values.items()
            if value != next(iter(self.table.options[option]))
        ]
        return f"{self.table}: {', '.join(changed) or 'the first values'}"

    @property
    def claim(self) -> Claim:
        fields: dict[str, Any] = {}
        agent = dict(self.table.base.agent)
        for each in self._changes():
            fields.update(each.fields)
            agent.update(each.agent)
        kinds = (fields.pop(name, None) for name in ("observations", "actions"))
        spaces = task(*kinds)
        fields.update(spaces, mini_batches=max(self._cuts()))
        claim = dataclasses.replace(self.table.base, features=str(self), agent=agent, **fields)
        if claim.teacher is None:
            return claim
        return dataclasses.replace(claim, teacher=dataclasses.replace(claim.teacher, **spaces))

    @property
    def has_twin(self) -> bool:
        """Whether one rank can train on the unions of the ranks' mini-batches.

        It cannot if a mini-batch ends within an environment's rollout and libraries cut by
        environments, nor if mini-batches differ in size or between two networks, nor if the
        result depends on rounding.
        """
        claim = self.claim
        if any(each.by_rounding for each in self._changes()):
            return False
        if claim.batch_size is not None:
            return True
        whole = claim.num_envs if claim.cut == "environments" else claim.num_envs * STEPS
        return whole % claim.mini_batches == 0 and len(self._cuts()) == 1

    def _changes(self) -> list[Change]:
        return [self.table.options[option][value] for option, value in self.values.items()]

    def _cuts(self) -> set[int]:
        """Return the numbers of mini-batches that networks split a rollout into."""
        cuts = {each.fields.get("mini_batches") for each in self._changes()} - {None}
        return cuts or {1}


@dataclass(frozen=True, eq=False)
class Table:
    """The options of one algorithm, and the values of each."""

    base: Claim
    """What the first value of every option changes."""
    options: Mapping[str, Mapping[str, Change]]
    """By the options' names, then by the values'."""
    clashes: tuple[Clash, ...] = ()
    kind: str = ""
    """What else tells this table from others of the algorithm."""
    trained: tuple[Combination, ...] = field(init=False)
    """In which each two values that do not clash meet."""
    refused: tuple[tuple[Combination, Clash], ...] = field(init=False)
    """One for each way in which values clash."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "trained", tuple(self._trained()))
        object.__setattr__(self, "refused", tuple(self._refused()))

    def __str__(self) -> str:
        return f"{self.base.library} {self.algorithm}"

    @property
    def algorithm(self) -> str:
        return f"{self.base.algorithm} {self.kind}".strip()

    def all_pairs(self) -> set[Pair]:
        of_options = [[(option, name) for name in names] for option, names in self.options.items()]
        return {
            frozenset(pair)
            for first, second in itertools.combinations(of_options, 2)
            for pair in itertools.product(first, second)
        }

    def _trained(self) -> Iterator[Combination]:
        found = [Combination(self, values) for values in self._met_in_pairs()]
        yield from found
        met = {pair for each in found for pair in pairs(each.values)}
        # AllPairs stops at the first combination that adds nothing, because it must avoid clashes.
        for pair in sorted(self.all_pairs() - met, key=sorted):
            if pair not in met and not self._clash(dict(pair)):
                added = self._completed(dict(pair), met)
                met |= pairs(added)
                yield Combination(self, added)

    def _met_in_pairs(self) -> Iterator[Values]:
        # Clashing values are chosen first, which needs less backtracking.
        clashing = {option for clash in self.clashes for option in clash.values}
        names = sorted(self.options, key=lambda option: option not in clashing)
        choices = [
            [value for value in self.options[option] if not self._clash({option: value})]
            for option in names
        ]

        def fits(row: list[str]) -> bool:
            return not self._clash(dict(zip(names, row, strict=False)))

        for row in AllPairs(choices, filter_func=fits):
            chosen = dict(zip(names, row, strict=True))
            yield {option: chosen[option] for option in self.options}

    def _refused(self) -> Iterator[tuple[Combination, Clash]]:
        for clash in self.clashes:
            if not clash.reason or not clash.values.keys() <= self.options.keys():
                continue
            there = [
                [name for name in names if name in self.options[option]]
                for option, names in clash.values.items()
            ]
            for names in itertools.product(*there):
                values = dict(zip(clash.values, names, strict=True))
                yield Combination(self, self._completed(values, but=clash)), clash

    def _completed(
        self, values: Values, met: Set[Pair] = frozenset(), but: Clash | None = None
    ) -> Values:
        """Return values of all options, with these among them, without clashes but one.

        Pairs that have met need not meet again.
        """
        made = dict(values)

        def new(pair: tuple[str, str]) -> int:
            return len({frozenset({pair, other}) for other in made.items()} - met)

        for option, names in self.options.items():
            if option not in made:
                fit = [name for name in names if not self._clash({**made, option: name}, but)]
                made[option] = max(fit, key=lambda name: new((option, name)))
        return {option: made[option] for option in self.options}

    def _clash(self, values: Values, but: Clash | None = None) -> bool:
        return any(clash is not but and clash.among(values) for clash in self.clashes)


def pairs(values: Values) -> set[Pair]:
    return {frozenset(pair) for pair in itertools.combinations(values.items(), 2)}
