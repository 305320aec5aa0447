"""List the installed plugins, whether they can be used, and if not, why."""

from __future__ import annotations

import argparse
import contextlib
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

from packaging.utils import canonicalize_name

from rltrain.builtin.plugin import COMMANDS
from rltrain.cli.flags import OWN, add_flags, read_flags
from rltrain.cli.parser import load, make_parser
from rltrain.cli.tasks import run_of
from rltrain.config.options import COMMAND
from rltrain.errors import PluginError, RltrainError, UsageError, suggest
from rltrain.plugins.registry import PluginRecord, Registry, discover
from rltrain.specs import BackendSpec, ClusterSpec, CommandSpec, LibrarySpec, Spec, SuiteSpec
from rltrain.terminal import one_line, print_json
from rltrain.types import ArrayInfo, TaskInfo

_DEFAULTS: tuple[Literal["launcher", "grad_sync"], ...] = ("launcher", "grad_sync")
"""What a backend names, unless its framework has a usual one."""


@dataclass(frozen=True, kw_only=True)
class PluginsOptions:
    """The command's options."""

    name: str | None = OWN.named(None, COMMAND, "list the options of this plugin", kind="word")
    check: bool = OWN.switch(
        COMMAND,
        "say what is wrong with NAME, a plugin or what it provides; status 1 if anything",
    )
    json: bool = OWN.switch(COMMAND, "print JSON")
    no_plugin: tuple[str, ...] = OWN.named((), COMMAND, "leave a plugin out", kind="append")


class PluginsCommand:
    """List the installed plugins, whether they can be used, and if not, why.

    A plugin is ready, blocked (--no-plugin, RLTRAIN_PLUGINS), unmet (no supported version of what
    it adapts is installed) or broken (it raised; RLTRAIN_STRICT=1 shows where). No package index
    has rltrain's own yet: `make wheels` in its clone prints the line by which pip finds them.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        add_flags(parser, of=PluginsOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print one row for each thing provided, and one for each plugin that provides nothing."""
        own = read_flags(PluginsOptions, arguments)
        if own.check:
            return _check(own.name, own.json)
        registry = discover(own.no_plugin)
        if own.name is not None:
            return _print_options(registry, own.name, own.json)
        rows = _rows(registry)
        if own.json:
            print_json(rows)
            return 0
        rows = [{name: one_line(text) for name, text in row.items()} for row in rows]
        columns = ("kind", "name", "version", "distribution", "status", "supports")
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
        for row in [{name: name.upper() for name in columns}, *rows]:
            print("  ".join(row[name].ljust(widths[name]) for name in columns).rstrip())
            if row.get("reason"):
                print(f"    {row['reason']}")
        return 0


def _print_options(registry: Registry, name: str, as_json: bool) -> int:
    """Print all ready plugins with a name, and their options with defaults."""
    from rltrain.plugins.options import describe_options

    ready = [(record, spec) for record in registry.records for spec in record.specs]
    found = [(record, spec, describe_options(spec)) for record, spec in ready if spec.name == name]
    if not found:
        known = sorted({spec.name for _, spec in ready})
        raise UsageError(
            f"No ready plugin has the name {name!r}.{suggest(name, known)} "
            "`rltrain plugins` lists all plugins, and says why some are not ready."
        )
    rows = []
    for record, spec, options in found:
        row = _row(record, spec.kind, name, spec.supports())
        rows.append({**row, "options": [asdict(option) for option in options]})
        if as_json:
            continue
        print(one_line(f"{spec.kind} {name}, from {record.origin}: {spec.supports()}"))
        for option in options:
            print(one_line(f"  {option.key}={option.default}  ({option.type})"))
            print(textwrap.indent(textwrap.fill(option.help, 92), "      "))
        if not options:
            print("  no options")
    if as_json:
        print_json(rows)
    return 0


def _check(name: str | None, as_json: bool) -> int:
    """Print what is wrong with a plugin, or with what it provides; return 1 if anything is."""
    if name is None:
        raise UsageError(
            "--check: name a plugin, or what it provides. `rltrain plugins` lists all."
        )
    discover(environ={"RLTRAIN_PLUGINS": name})  # Alone: what is imported now is its own.
    registry, same = discover(), canonicalize_name(name)
    found = []
    for record in registry.records:
        whole = same in map(canonicalize_name, (record.name, record.distribution))
        specs = [spec for spec in record.specs if whole or canonicalize_name(spec.name) == same]
        if whole or specs:
            found.append((record.origin, list(_wrong(record, specs, registry))))
    if not found:
        known = {record.name for record in registry.records}
        raise UsageError(f"--check {name}: there is no such plugin.{suggest(name, known)}")
    if as_json:
        print_json(dict(found))
    else:
        for origin, wrong in found:
            for each in wrong or ["nothing is wrong"]:
                print(one_line(f"{origin}: {each}"))
    return int(any(wrong for _, wrong in found))


def _wrong(record: PluginRecord, specs: Sequence[Spec], registry: Registry) -> Iterator[str]:
    """Yield what is wrong with a plugin, and with these of its specs, each in a line."""
    if record.status != "ready":
        raised = record.error is not None and not isinstance(record.error, PluginError)
        where = " RLTRAIN_STRICT=1 shows where." if raised else ""
        yield f"is {record.status}: {record.reason.rstrip('.')}.{where}"
    for spec in specs:
        yield from (f"{spec.kind} {spec.name}: {each}" for each in _wrong_with(spec, registry))


def _wrong_with(spec: Spec, registry: Registry) -> Iterator[str]:
    from rltrain.plugins.faults import faults, lapses
    from rltrain.plugins.manager import RunPlugins, frameworks, usual_of

    fails = list(faults(spec))
    yield from fails or lapses(spec, registry)
    yield from _refusal(lambda: registry.get(type(spec), spec.name))
    if isinstance(spec, CommandSpec) and spec.name in [x.name for x in COMMANDS]:
        yield "rltrain has a command of this name, and runs that one. Rename yours."
    if spec.factory and not fails:
        with contextlib.suppress(UsageError):  # An option that the user must give.
            yield from _refusal(lambda: RunPlugins().choose(spec), PluginError)
            if isinstance(spec, CommandSpec):
                yield from _refusal(lambda: make_parser(load(spec), spec.name), PluginError)
    for ask in _questions(spec):
        with contextlib.suppress(UsageError):  # It may refuse what it is asked for.
            yield from _refusal(ask, PluginError)
    if isinstance(spec, BackendSpec):
        for what in _DEFAULTS:
            if usual_of(registry, spec.framework, what, spec.name) is None:
                yield f"name a {what}: runs of the framework {spec.framework} have no usual one."
    known = frameworks(registry)
    for each in [each for each in getattr(spec, "frameworks", ()) if each not in known]:
        yield (
            f"no installed backend knows the framework {each!r}.{suggest(each, known)} They know "
            f"{', '.join(known)}: name one, or install a backend's plugin."
        )


def _questions(spec: Spec) -> Iterator[Callable[[], object]]:
    """Yield calls of a plugin's functions, as a plan makes them."""
    if isinstance(spec, SuiteSpec):
        yield lambda: spec.describe("no/such", {})
        yield lambda: [spec.describe(task, {}) for task in list(spec.tasks())[:1]]
    if isinstance(spec, ClusterSpec):
        yield lambda: spec.find({})
    if isinstance(spec, LibrarySpec):
        yield lambda: _ask_of_a_run(spec)


def _ask_of_a_run(library: LibrarySpec) -> None:
    group = {"policy": ArrayInfo((4,))}
    task = TaskInfo("any", "continuous", observations=group, actions=(1,))
    config = run_of(library, task, library.default_agent(task, library.algorithms[0]))
    if library.iteration is not None:
        library.iteration(config)
    for refusal in library.refuses:
        refusal.applies(config, task)


def _refusal(step: Callable[[], object], kind: type[RltrainError] = RltrainError) -> Iterator[str]:
    """Yield what a step raises of a kind."""
    try:
        step()
    except kind as error:
        yield str(error)


def _rows(registry: Registry) -> list[dict[str, str]]:
    rows = []
    for record in registry.records:
        for spec in record.specs:
            clash = "".join(_refusal(partial(registry.get, type(spec), spec.name)))
            rows.append(_row(record, spec.kind, spec.name, spec.supports(), clash))
        if not record.specs:
            rows.append(_row(record, "-", record.name, "", record.reason))
    return sorted(rows, key=lambda row: (row["kind"], row["name"]))


def _row(
    record: PluginRecord, kind: str, name: str, supports: str, reason: str = ""
) -> dict[str, str]:
    return {
        "kind": kind,
        "name": name,
        "version": record.version,
        "distribution": record.distribution,
        "status": record.status,
        "reason": reason,
        "supports": supports,
    }
