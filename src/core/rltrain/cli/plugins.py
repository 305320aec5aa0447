"""List the installed plugins, whether they can be used, and if not why."""

from __future__ import annotations

import argparse
import json

from rltrain.plugins.registry import PluginRecord, Registry, discover

__all__ = ["EPILOG", "add_arguments", "run", "split"]

EPILOG = """\
A plugin is ready, blocked (--no-plugin, RLTRAIN_PLUGINS), unmet (what it adapts is not installed in
a supported version) or broken (it raised; RLTRAIN_STRICT=1 shows where)."""


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words for argparse and those for the command itself: none."""
    return words, []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--no-plugin", action="append", default=[], metavar="NAME", help="leave a plugin out"
    )


def run(arguments: argparse.Namespace, words: list[str]) -> int:
    """Print one row for each thing provided, and one for each plugin that provides nothing."""
    rows = _rows(discover(arguments.no_plugin))
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    columns = ("kind", "name", "version", "distribution", "status", "supports")
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in columns}
    for row in [{name: name.upper() for name in columns}, *rows]:
        print("  ".join(row[name].ljust(widths[name]) for name in columns).rstrip())
        if row.get("reason"):
            print(f"    {row['reason']}")
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
