"""List the installed plugins, whether they can be used, and if not, why."""

from __future__ import annotations

import argparse
import dataclasses
import json
import textwrap

from rltrain.errors import UsageError, suggest
from rltrain.plugins.registry import PluginRecord, Registry, discover
from rltrain.terminal import one_line

__all__ = ["PluginsCommand"]


class PluginsCommand:
    """List the installed plugins, whether they can be used, and if not, why.

    A plugin is ready, blocked (--no-plugin, RLTRAIN_PLUGINS), unmet (no supported version of what
    it adapts is installed) or broken (it raised; RLTRAIN_STRICT=1 shows where). No package index
    has rltrain's own yet: `make wheels` in its clone prints the line by which pip finds them.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument(
            "name", nargs="?", metavar="NAME", help="list the options of this plugin"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--no-plugin", action="append", default=[], metavar="NAME", help="leave a plugin out"
        )

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Print one row for each thing provided, and one for each plugin that provides nothing.

        Raises:
            UsageError: no plugin that is ready has the given name.
        """
        registry = discover(arguments.no_plugin)
        if arguments.name is not None:
            return _print_options(registry, arguments.name, arguments.json)
        rows = _rows(registry)
        if arguments.json:
            print(json.dumps(rows, indent=2))
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
    found = [(record, spec) for record, spec in ready if spec.name == name]
    if not found:
        known = sorted({spec.name for _, spec in ready})
        raise UsageError(
            f"No ready plugin has the name {name!r}.{suggest(name, known)} "
            "`rltrain plugins` lists all plugins, and says why some are not ready."
        )
    options = {spec.kind: describe_options(spec) for _, spec in found}
    if as_json:
        rows = [
            {**_row(record, spec.kind, name, spec.supports()), "options": each}
            for record, spec in found
            for each in [[dataclasses.asdict(option) for option in options[spec.kind]]]
        ]
        print(json.dumps(rows, indent=2, default=str))
        return 0
    for record, spec in found:
        print(one_line(f"{spec.kind} {name}, from {record.origin}: {spec.supports()}"))
        for option in options[spec.kind]:
            print(one_line(f"  {option.key}={option.default}  ({option.type})"))
            print(textwrap.indent(textwrap.fill(option.help, 92), "      "))
        if not options[spec.kind]:
            print("  no options")
    return 0


def _rows(registry: Registry) -> list[dict[str, str]]:
    rows = []
    for record in registry.records:
        rows += [_row(record, spec.kind, spec.name, spec.supports()) for spec in record.specs] or [
            _row(record, "-", record.name, "")
        ]
    return sorted(rows, key=lambda row: (row["kind"], row["name"]))


def _row(record: PluginRecord, kind: str, name: str, supports: str) -> dict[str, str]:
    return {
        "kind": kind,
        "name": name,
        "version": record.version,
        "distribution": record.distribution,
        "status": record.status,
        "reason": record.reason,
        "supports": supports,
    }
