"""Write a plugin's distribution that installs, is found, and passes its test as it is."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from string import Template

from packaging.utils import canonicalize_name

from rltrain.errors import UsageError, suggest
from rltrain.plugins.registry import discover

__all__ = ["EPILOG", "KINDS", "add_arguments", "run", "split"]

EPILOG = """\
example:
  rltrain new my_rl --kind library --into plugins

What is written works: replace what stands in it for your library, transport, simulator or engine,
and let its test tell what is still missing."""

TEMPLATES = Path(__file__).parent / "templates"
"""A folder for each kind, laid out as what is written: `package` stands for the package's name."""

SUFFIX = ".tmpl"
"""Of templates: they are no Python, which tools that read every .py file would take them for."""

KINDS = {
    "library": "--library $name",
    "backend": "--backend $name",
    "suite": "--task $name/Point-v0",
    "writer": "--writer console $name",
    "launcher": "--launcher $name",
}
"""The kinds that have a template, with the flags by which a run uses what was written."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words for argparse and those for the command itself: none."""
    return words, []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="what users will type, such as my_rl")
    parser.add_argument("--kind", required=True, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--into", default=".", metavar="DIR", help="where the folder is made (.)")


def run(arguments: argparse.Namespace, words: list[str]) -> int:
    """Write the distribution, whole or not at all, and say what comes next."""
    name, kind, into = arguments.name, arguments.kind, Path(arguments.into)
    if kind not in KINDS:
        raise UsageError(f"--kind {kind}: must be one of {', '.join(KINDS)}.{suggest(kind, KINDS)}")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"NAME {name!r}: must be letters and digits, with single '-' or '_' between them, and "
            "begin with a letter."
        )
    fields = _fields(name)
    _check_free(name, kind, fields["distribution"])
    target = into / fields["distribution"]
    if not into.is_dir():
        raise UsageError(f"--into {into}: there is no such folder.")
    if os.path.lexists(target):
        raise UsageError(f"{target}: is there already. Choose another NAME, or another --into.")
    files = _rendered(kind, fields)
    try:
        _write(files, target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"--into {into}: cannot be written ({reason}). Name a folder that can."
        ) from error
    print(_report(target, files, Template(KINDS[kind]).substitute(fields)))
    return 0


def _fields(name: str) -> dict[str, str]:
    """Return what the templates' fields stand for."""
    parts = re.split("[-_]", name)
    return {
        "name": name,
        "distribution": "-".join(["rltrain", *parts]).lower(),
        "package": "_".join(["rltrain", *parts]).lower(),
        "title": "".join(part[0].upper() + part[1:] for part in parts),
    }


def _check_free(name: str, kind: str, distribution: str) -> None:
    """Refuse a name that would hide an installed plugin, or be hidden by it.

    Raises:
        UsageError: it is taken; names are compared as pip does.
    """
    for record in discover().records:
        provides = {canonicalize_name(spec.name) for spec in record.specs if spec.kind == kind}
        if canonicalize_name(name) in provides:
            what = f"there is a {kind} {name!r}"
        elif canonicalize_name(record.distribution) == distribution:
            what = f"a distribution {distribution} is installed"
        else:
            continue
        raise UsageError(f"NAME {name}: {what} already, by {record.origin}. Choose another.")


def _rendered(kind: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each file by its path in the distribution."""
    files = {}
    for source in sorted((TEMPLATES / kind).rglob(f"*{SUFFIX}")):
        folder, *rest = source.relative_to(TEMPLATES / kind).with_suffix("").parts
        path = Path(fields["package"] if folder == "package" else folder, *rest)
        files[str(path)] = Template(source.read_text(encoding="utf-8")).substitute(fields)
    return files


def _write(files: Mapping[str, str], target: Path) -> None:
    """Write all files beside the target and rename them into place."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".rltrain-") as beside:
        # In a folder of its own: the temporary one is its owner's alone.
        written = Path(beside) / target.name
        for name, text in files.items():
            path = written / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        written.rename(target)


def _report(target: Path, files: Mapping[str, str], flags: str) -> str:
    folder = shlex.quote(str(target))
    return "\n".join(
        [
            f"Wrote {target}:",
            *(f"  {name}" for name in files),
            "Next:",
            f"  pip install -e {shlex.quote(f'{target}[test]')}",
            "  rltrain plugins",
            f"  python -m pytest {folder}",
            f"  rltrain {flags} --distributed --nproc-per-node 2 --max-iterations 2",
        ]
    )
