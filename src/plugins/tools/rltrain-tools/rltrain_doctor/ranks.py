"""The main check: ranks start as in a training run, form a process group, and all-reduce."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence

from rltrain.config import Placement
from rltrain.plugins import Registry
from rltrain.types import World
from rltrain_doctor.child import Outcome, try_ranks
from rltrain_doctor.findings import Finding, Level, ok, problem, warning
from rltrain_doctor.versions import remedies


def ranks(
    placement: Placement,
    world: World | None,
    registry: Registry,
    environ: Mapping[str, str],
    timeout: float,
    report: Callable[[str], None],
) -> Iterator[Finding]:
    """Start the ranks, or join them as `world`. If that fails, search for variables that help.

    Those that the environment sets are not changed. Each attempt has `timeout` seconds.
    """

    def attempt(variables: Mapping[str, str]) -> Outcome:
        what = "joining the ranks" if world else f"starting {placement.nproc_per_node} rank(s)"
        how = f" with {_words(variables)}" if variables else ""
        report(f"{what}{how}, on {placement.backend}, for at most {timeout:g} s ...")
        return try_ranks(placement, world, variables, timeout)

    first = attempt({})
    if first.works:
        yield from _measured(placement, first, joined=world is not None)
        return
    free = (
        {name: value for name, value in each.items() if name not in environ}
        for each in remedies(registry, placement.backend)
    )
    sets = [each for each in free if each]
    if placement.nnodes > 1 or (world is not None and world.world_size > 1):
        yield _failed(placement, first, "problem", sets)
        return
    tried = [first]
    for variables in sets if not first.refused else ():
        if not tried[-1].works and variables not in [each.variables for each in tried]:
            tried.append(attempt(variables))
    last = tried[-1]
    yield _failed(placement, first, "problem")
    for outcome in tried[1:]:
        if not outcome.works:
            text = f"{_words(outcome.variables)}: {_headline(outcome)}"
            yield ok("tried", text, **_data(outcome))
    if last.works:
        what, data = _words(last.variables), {"variables": dict(last.variables)}
        hint = f"For all of your runs, in your shell's profile or the job's script: export {what}"
        yield warning("fallback", f"{what} works", hint, **data)
        yield from _measured(placement, last, joined=False)
    elif len(tried) > 1:
        text = "none of the usual workarounds helps"
        yield problem("tried", text, "rltrain doctor --json has the full output of the ranks.")


def _failed(
    placement: Placement,
    outcome: Outcome,
    level: Level,
    by_hand: Sequence[Mapping[str, str]] = (),
) -> Finding:
    """Report how the ranks failed, and which variables to try by hand."""
    with_ = f" with {_words(outcome.variables)}" if outcome.variables else ""
    name = "ranks" if outcome.result is None else "all-reduce"
    hints = ["With a slow disk or many ranks: --timeout 300."] if outcome.hung else []
    if by_hand:
        each = "; ".join(map(_words, by_hand))
        hints.append(f"Try on every node, one after the other: {each}.")
    text = f"{placement.backend}{with_}: {_headline(outcome)}"
    return Finding(level, name, text, " ".join(hints), _data(outcome))


def _measured(placement: Placement, outcome: Outcome, joined: bool) -> Iterator[Finding]:
    result = outcome.result
    assert result is not None
    number = len(result["ranks"])
    where = collections.Counter(rank["host"] for rank in result["ranks"])
    hosts = ", ".join(f"{count} on {host}" for host, count in where.items())
    with_ = f", with {_words(outcome.variables)}" if outcome.variables else ""
    how = "joined" if joined else f"started by {placement.launcher}"
    text = f"{number} on {placement.backend}, {how}{with_}: {hosts}; {outcome.wall:.1f} s in total"
    yield ok("ranks", text, **_data(outcome))
    if number == 1:
        yield ok("all-reduce", "nothing to reduce: there is one rank")
        return
    yield ok("all-reduce", f"correct on every rank: 1 to {number} add up to {result['expected']:g}")
    yield ok("latency", f"{result['latency_ms']:.3f} ms for 4 bytes")
    took = f"{result['large_bytes'] / 2**20:g} MiB in {result['large_ms']:.2f} ms"
    yield ok("bandwidth", f"{result['bandwidth_gb_s']:.2f} GB/s: {took}")


def _headline(outcome: Outcome) -> str:
    """Describe in one line how an attempt failed."""
    if outcome.result is not None:
        wrong = [str(rank["rank"]) for rank in outcome.result["ranks"] if not rank["right"]]
        expected, found = outcome.result["expected"], outcome.result["found"]
        return f"wrong on rank {', '.join(wrong)}: {found} instead of {expected:g}"
    if outcome.hung:
        stages = "; ".join(f"rank {rank} {stage}" for rank, stage in outcome.ranks_at.items())
        return f"{outcome.error}: {stages or 'no rank has started'}"
    return outcome.error.strip().splitlines()[-1]


def _words(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items()) or "nothing set"


def _data(outcome: Outcome) -> dict[str, object]:
    return {**vars(outcome), "wall": round(outcome.wall, 2)}
