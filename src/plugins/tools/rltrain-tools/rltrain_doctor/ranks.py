"""The main check: ranks start as in a training run, form a process group, and all-reduce."""

from __future__ import annotations

import collections
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from rltrain.config import Placement
from rltrain.options import saved_variables, unset, user_config_file
from rltrain.plugins import Registry
from rltrain.types import World
from rltrain_doctor.child import Outcome, told, try_ranks
from rltrain_doctor.findings import Finding, Level, ok, output_lines, problem, warning
from rltrain_doctor.of_plugins import remedies
from rltrain_doctor.saving import save_variables

Report = Callable[[str], None]


def ranks(
    placement: Placement,
    world: World | None,
    registry: Registry,
    environ: Mapping[str, str],
    timeout: float,
    fix: bool,
    report: Report,
) -> Iterator[Finding]:
    """Start the ranks, or join them. If that fails, search for variables with which it works.

    Args:
        placement: where the run runs.
        world: the rank that it joins as; None starts ranks.
        registry: the installed plugins.
        environ: the environment variables.
        timeout: seconds for each attempt.
        fix: whether to save what helps for this user's later runs.
        report: called with a description of each attempt before it starts, and from time to time
            with what its ranks are doing.
    """
    sets = remedies(registry, placement.backend)
    saved = unset(saved_variables(placement.backend, environ), environ)
    first = _attempt(placement, world, saved, timeout, report)
    if first.works:
        yield from _measured(placement, first, joined=world is not None)
        if fix:
            yield ok("fallback", "there is nothing to fix: the ranks can communicate")
        return
    several = placement.nnodes > 1 or (world is not None and world.world_size > 1)
    helps: Outcome | None = None
    tried: list[Outcome] = []
    if sets and not several and not first.refused:
        for outcome in search(placement, sets, saved, environ, timeout, report):
            tried.append(outcome)
            if outcome.works:
                helps = outcome
    fixed = fix and helps is not None
    level: Level = "warning" if fixed else "problem"
    yield _failed(placement, first, level, sets if several else (), bool(tried))
    for outcome in tried:
        if not outcome.works:
            text = f"{_words(outcome.variables)}: {_headline(outcome)}"
            yield ok("tried", text, **_data(outcome))
    if helps is not None:
        yield _helped(placement.backend, helps, fix, environ)
        yield from _measured(placement, helps, joined=False)
    elif tried:
        text = "none of the usual workarounds helps"
        yield problem("tried", text, "rltrain doctor --json has the full output of the ranks.")


def search(
    placement: Placement,
    sets: Iterable[Mapping[str, str]],
    failed: Mapping[str, str],
    environ: Mapping[str, str],
    timeout: float,
    report: Report,
) -> Iterator[Outcome]:
    """Try sets of variables one after the other, until one works.

    Args:
        placement: where the run runs.
        sets: of variables.
        failed: variables that are known to fail, for example those that the user saved before.
        environ: the environment variables. Those that the user has set are not changed.
        timeout: seconds for each attempt.
        report: called with a description of each attempt before it starts.
    """
    done = [dict(failed)]
    for remedy in ({}, *sets):
        variables = unset(remedy, environ)
        if variables in done:
            continue
        done.append(variables)
        outcome = _attempt(placement, None, variables, timeout, report)
        yield outcome
        if outcome.works:
            return


def _attempt(
    placement: Placement,
    world: World | None,
    variables: Mapping[str, str],
    timeout: float,
    report: Report,
) -> Outcome:
    what = "joining the ranks" if world else f"starting {placement.nproc_per_node} rank(s)"
    how = f" with {_words(variables)}" if variables else ""
    report(f"{what}{how}, on {placement.backend}, for at most {timeout:g} s ...")
    return try_ranks(placement, world, variables, timeout, report)


def _failed(
    placement: Placement,
    outcome: Outcome,
    level: Level,
    by_hand: Collection[Mapping[str, str]],
    searched: bool,
) -> Finding:
    """Report how the ranks failed, and what to do: try sets of variables by hand, for example."""
    name, hint, data = "ranks", "", _data(outcome)
    if outcome.result is not None:
        name = "all-reduce"
    with_ = f" with {_words(outcome.variables)}" if outcome.variables else ""
    text = f"{placement.backend}{with_}: {_headline(outcome)}"
    if outcome.hung:
        hint = "With a slow disk or many ranks: --timeout 300. "
    if by_hand:
        each = "; ".join(map(_words, by_hand))
        hint += f"Try on every node, one after the other: {each}. "
    elif not searched and not outcome.hung and output_lines(data):
        hint = "The rank's output is below."
    return Finding(level, name, text, hint.strip(), data)


def _helped(backend: str, helps: Outcome, fix: bool, environ: Mapping[str, str]) -> Finding:
    what = _words(helps.variables) if helps.variables else "without the saved variables, it"
    data = {"variables": dict(helps.variables)}
    if fix:
        file = save_variables(backend, helps.variables, environ)
        return ok("fallback", f"{what} works; saved in {file} for later runs", **data)
    hint = f"rltrain doctor --fix saves it in {user_config_file(environ)}, for all of your runs"
    if helps.variables:
        hint += f"; or: export {what}"
    return warning("fallback", f"{what} works", f"{hint}.", **data)


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
    size = result["large_bytes"] / 2**20
    speed = f"{result['bandwidth_gb_s']:.2f} GB/s: {size:g} MiB in {result['large_ms']:.2f} ms"
    yield ok("bandwidth", speed)


def _headline(outcome: Outcome) -> str:
    """Describe in one line how an attempt failed."""
    if outcome.result is not None:
        wrong = [str(rank["rank"]) for rank in outcome.result["ranks"] if not rank["right"]]
        expected, found = outcome.result["expected"], outcome.result["found"]
        return f"wrong on rank {', '.join(wrong)}: {found} instead of {expected:g}"
    if outcome.hung:
        return f"{outcome.error}: {told(outcome.ranks_at)}"
    return outcome.error.strip().splitlines()[-1]


def _words(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items()) or "nothing set"


def _data(outcome: Outcome) -> dict[str, object]:
    return {
        "variables": dict(outcome.variables),
        "error": outcome.error,
        "hung": outcome.hung,
        "wall_s": round(outcome.wall, 2),
        "ranks_at": {str(rank): stage for rank, stage in outcome.ranks_at.items()},
        "result": outcome.result and dict(outcome.result),
    }
