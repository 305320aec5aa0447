"""Create a plugin's distribution, which installs and passes its tests as it is."""

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
from rltrain.plugins import discover

__all__ = ["KINDS", "NewCommand"]

TEMPLATES = Path(__file__).parent / "templates"
"""Has a folder for each kind, laid out like the distribution; `package` is renamed."""

SUFFIX = ".tmpl"
"""The suffix of templates, so that tools do not read them as Python files."""

_TWO = "--distributed --nproc-per-node 2 --max-iterations 2"

KINDS = {
    "library": f"rltrain --library $name {_TWO}",
    "backend": f"rltrain --backend $name {_TWO}",
    "suite": f"rltrain --task $name/Point-v0 {_TWO}",
    "writer": f"rltrain --writer console $name {_TWO}",
    "launcher": f"rltrain --launcher $name {_TWO}",
    "observer": f"rltrain --observer $name {_TWO}",
    "gradient_sync": f"rltrain --grad-sync $name {_TWO}",
    "cluster": "${variable}_NODES=2 ${variable}_NODE=0 rltrain --distributed --dry-run",
    "command": "rltrain $name",
}
"""The kinds, and for each the command that uses the plugin of its template."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")


class NewCommand:
    """Create a plugin's distribution, which installs and passes its tests as it is.

    Examples:
      rltrain new my_rl --kind library --into plugins

    The new plugin works as it is. Replace its example code with your library, transport, simulator
    or engine. Its tests then say what is missing.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""
        parser.add_argument("name", metavar="NAME", help="the name that users type, such as my_rl")
        kind = parser.add_argument("--kind", required=True, metavar="KIND", help=", ".join(KINDS))
        kind.completer = lambda **_: KINDS  # type: ignore[attr-defined]  # Of argcomplete.
        parser.add_argument(
            "--into", default=".", metavar="DIR", help="where to create the folder (.)"
        )

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Write the complete distribution or nothing, and print the next steps.

        Raises:
            UsageError: an argument is wrong, or the folder cannot be written.
        """
        name, kind, into = arguments.name, arguments.kind, Path(arguments.into)
        if kind not in KINDS:
            raise UsageError(
                f"--kind {kind}: must be one of {', '.join(KINDS)}.{suggest(kind, KINDS)}"
            )
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"NAME {name!r}: must begin with a letter and have only letters and digits, with "
                "single '-' or '_' between them."
            )
        if kind == "command" and not re.fullmatch("[a-z-]+", name):
            raise UsageError(f"NAME {name!r}: a command has small letters and dashes only.")
        fields = _fields(name)
        _check_free(name, kind, fields["distribution"])
        target = into / fields["distribution"]
        if not into.is_dir():
            raise UsageError(f"--into {into}: there is no such folder. Create it, or name another.")
        if os.path.lexists(target):
            raise UsageError(f"{target}: exists already. Choose another NAME, or another --into.")
        files = _rendered(kind, fields)
        try:
            _write(files, target)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"--into {into}: cannot be written to ({reason}). Choose another folder."
            ) from error
        print(_report(target, files, name, Template(KINDS[kind]).substitute(fields)))
        return 0


def _fields(name: str) -> dict[str, str]:
    """Return the values of the templates' fields."""
    parts = re.split("[-_]", name)
    return {
        "name": name,
        "distribution": "-".join(["rltrain", *parts]).lower(),
        "package": "_".join(["rltrain", *parts]).lower(),
        "variable": "_".join(parts).upper(),
        "title": "".join(part[0].upper() + part[1:] for part in parts),
    }


def _check_free(name: str, kind: str, distribution: str) -> None:
    """Refuse a name that would hide an installed plugin, or be hidden by it.

    Raises:
        UsageError: the name is taken. Names are compared as pip compares them.
    """
    for record in discover().records:
        provides = {canonicalize_name(spec.name) for spec in record.specs if spec.kind == kind}
        if canonicalize_name(name) in provides:
            what = f"there is already a {kind} {name!r}"
        elif canonicalize_name(record.distribution) == distribution:
            what = f"a distribution {distribution} is already installed"
        else:
            continue
        raise UsageError(f"NAME {name}: {what}, from {record.origin}. Choose another name.")


def _rendered(kind: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each file by its path in the distribution."""
    files = {}
    for source in sorted((TEMPLATES / kind).rglob(f"*{SUFFIX}")):
        folder, *rest = source.relative_to(TEMPLATES / kind).with_suffix("").parts
        path = Path(fields["package"] if folder == "package" else folder, *rest)
        files[str(path)] = Template(source.read_text(encoding="utf-8")).substitute(fields)
    return files


def _write(files: Mapping[str, str], target: Path) -> None:
    """Write all files next to the target, then rename their folder into place."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".rltrain-") as temporary:
        # In a subfolder, because only its owner may read the temporary folder itself.
        written = Path(temporary) / target.name
        for name, text in files.items():
            path = written / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        written.rename(target)


def _report(target: Path, files: Mapping[str, str], name: str, use: str) -> str:
    folder = shlex.quote(str(target))
    return "\n".join(
        [
            f"Wrote {target}:",
            *(f"  {name}" for name in files),
            "Next:",
            f"  pip install -e {shlex.quote(f'{target}[test]')}",
            f"  rltrain plugins --check {name}",
            f"  python -m pytest {folder}",
            f"  {use}",
        ]
    )
