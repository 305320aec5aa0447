"""List the installed plugins, whether they can be used, and if not, why."""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import asdict, dataclass

from rltrain.cli.flags import OWN, add_flags, read_flags
from rltrain.cli.parser import load
from rltrain.config.options import COMMAND
from rltrain.errors import UsageError, suggest
from rltrain.plugins.options import describe_options
from rltrain.plugins.registry import PluginRecord, Registry, discover
from rltrain.specs import CommandSpec
from rltrain.terminal import one_line, print_json


@dataclass(frozen=True, kw_only=True)
class PluginsOptions:
    """The command's options."""

    name: str | None = OWN.named(None, COMMAND, "list the options of this plugin", kind="word")
    check: bool = OWN.switch(COMMAND, "run `rltrain check NAME`")
    json: bool = OWN.switch(COMMAND, "print JSON")
    no_plugin: tuple[str, ...] = OWN.named((), COMMAND, "leave a plugin out", kind="append")


class PluginsCommand:
    """List the installed plugins, whether they can be used, and if not, why.

    A plugin is ready, blocked (--no-plugin, RLTRAIN_PLUGINS), unmet (no supported version of what
    it adapts is installed) or broken (it raised; RLTRAIN_STRICT=1 shows where).
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        add_flags(parser, of=PluginsOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print one row for each thing provided, and one for each plugin that provides nothing."""
        own = read_flags(PluginsOptions, arguments)
        if own.check:
            return load(discover().get(CommandSpec, "check")).command.run(arguments, words)
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


def _rows(registry: Registry) -> list[dict[str, str]]:
    rows = []
    for record in registry.records:
        for spec in record.specs:
            clash = ""
            try:
                registry.get(type(spec), spec.name)
            except UsageError as error:
                clash = str(error)
            rows.append(_row(record, spec.kind, spec.name, spec.supports(), clash))
        if not record.specs:
            rows.append(_row(record, "-", record.name, "", record.reason))
    return sorted(rows, key=lambda row: (row["kind"], row["name"]))


def _row(
    record: PluginRecord, kind: str, name: str, supports: str, reason: str = ""
) -> dict[str, str]:
    about = {name: str(getattr(record, name)) for name in ("version", "distribution", "status")}
    return {"kind": kind, "name": name, **about, "reason": reason, "supports": supports}
