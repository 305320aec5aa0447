"""Create a plugin's distribution, which installs and passes its tests as it is."""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from packaging.utils import canonicalize_name

from rltrain.commands import add_flags, read_flags
from rltrain.errors import UsageError, suggest
from rltrain.options import Group, Scope
from rltrain.plugins import discover

OWN = Group("options")

TEMPLATES = Path(__file__).parent / "templates"
"""Has a folder for each kind and `common`, laid out like the distribution; `package` is renamed."""

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
"""The command that uses the plugin of the template, by kind, as they are listed."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """The command's options."""

    name: str = OWN.named(
        "", Scope.COMMAND, "the name that users type, such as my_rl", kind="word", required=True
    )
    kind: str = OWN.option("", Scope.COMMAND, ", ".join(KINDS), metavar="KIND", required=True)
    into: str = OWN.option(".", Scope.COMMAND, "where to create the folder", metavar="DIR")


class NewCommand:
    """Create a plugin's distribution, which installs and passes its tests as it is.

    Examples:
      rltrain new my_rl --kind library --into plugins

    The new plugin works as it is. Replace its example code with your library, transport, simulator
    or engine. Its tests then say what is missing. It has a license, and a file of tests for CI.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        add_flags(parser, of=NewOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Write the complete distribution or nothing, and print the next steps."""
        own = read_flags(NewOptions, arguments)
        name, kind, into = own.name, own.kind, Path(own.into)
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
        files = files_of(name, kind)
        try:
            _write(files, target)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"--into {into}: cannot be written to ({reason}). Choose another folder."
            ) from error
        print(f"Wrote {target}:", *(f"  {file}" for file in files), "Next:", sep="\n")
        print(f"  pip install -e {shlex.quote(f'{target}[test]')}")
        print(f"  rltrain plugins --check {name}")
        print(f"  python -m pytest {shlex.quote(str(target))}")
        print(f"  {Template(KINDS[kind]).substitute(fields)}")
        return 0


def files_of(name: str, kind: str) -> dict[str, str]:
    """Return the text of each file of a plugin's distribution, by its path there."""
    fields = {
        **_fields(name),
        "kind": kind.replace("_", " "),
        "year": str(datetime.date.today().year),
        "needs": ', "rltrain-torch>=0.2"' if kind == "library" else "",
        "library": '"torch>=2.7"' if kind in ("backend", "suite") else "",
    }
    files = _filled(kind, fields)
    files |= _filled("common", {**fields, "about": files.pop("README.md")})
    package = fields["package"]
    return {re.sub("^package/", f"{package}/", path): files[path] for path in sorted(files)}


def _fields(name: str) -> dict[str, str]:
    """Return the values of the templates' fields that follow from the name."""
    parts = re.split("[-_]", name)
    return {
        "name": name,
        "distribution": "-".join(["rltrain", *parts]).lower(),
        "package": "_".join(["rltrain", *parts]).lower(),
        "variable": "_".join(parts).upper(),
        "title": "".join(part[0].upper() + part[1:] for part in parts),
    }


def _filled(folder: str, fields: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each template of a folder by its path there."""
    texts = {}
    for source in (TEMPLATES / folder).rglob(f"*{SUFFIX}"):
        text = Template(source.read_text(encoding="utf-8")).substitute(fields)
        texts[str(source.relative_to(TEMPLATES / folder).with_suffix(""))] = text
    return texts


def _check_free(name: str, kind: str, distribution: str) -> None:
    """Refuse a name that would hide an installed plugin, or be hidden by it."""
    for record in discover().records:
        what = ""
        if (kind, canonicalize_name(name)) in {
            (spec.kind, canonicalize_name(spec.name)) for spec in record.specs
        }:
            what = f"there is already a {kind} {name!r}"
        elif canonicalize_name(record.distribution) == distribution:
            what = f"a distribution {distribution} is already installed"
        if what:
            raise UsageError(f"NAME {name}: {what}, from {record.origin}. Choose another name.")


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
