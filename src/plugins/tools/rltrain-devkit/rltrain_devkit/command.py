"""Create a plugin's distribution, which installs and passes its tests as it is."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from rltrain.commands import add_flags, read_flags
from rltrain.errors import UsageError, suggest
from rltrain.options import Group, Scope
from rltrain.plugins import discover
from rltrain_devkit.distribution import KINDS, distribution_of, files_of, uses_of

OWN = Group("options")

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """The command's options."""

    name: str = OWN.named(
        "",
        Scope.COMMAND,
        "the name that users type, such as my_rl",
        kind="word",
        required=True,
    )
    kind: tuple[str, ...] = OWN.option(
        (),
        Scope.COMMAND,
        f"{', '.join(KINDS)}; again for another, in the same distribution",
        kind="append",
        metavar="KIND",
        required=True,
    )
    into: str = OWN.option(".", Scope.COMMAND, "where to create the folder", metavar="DIR")


class NewCommand:
    """Create a plugin's distribution, which installs and passes its tests as it is.

    Examples:
      rltrain new my_rl --kind library --into plugins
      rltrain new my_sim --kind suite --kind writer

    The new plugin works as it is. Replace its example code with your library, transport, simulator
    or engine. Its tests then say what is missing. It has a license, of the author whom git knows,
    and a file of tests for CI.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        add_flags(parser, of=NewOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Write the complete distribution or nothing, and print the next steps."""
        own = read_flags(NewOptions, arguments)
        name, into = own.name, Path(own.into)
        kinds = list(dict.fromkeys(own.kind))
        for kind in kinds:
            if kind not in KINDS:
                raise UsageError(
                    f"--kind {kind}: must be one of {', '.join(KINDS)}.{suggest(kind, KINDS)}"
                )
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"NAME {name!r}: must begin with a letter and have only letters and digits, with "
                "single '-' or '_' between them."
            )
        if "command" in kinds and not re.fullmatch("[a-z-]+", name):
            raise UsageError(f"NAME {name!r}: a command has small letters and dashes only.")
        distribution = distribution_of(name)
        _check_free(name, kinds, distribution)
        target = into / distribution
        if not into.is_dir():
            raise UsageError(f"--into {into}: there is no such folder. Create it, or name another.")
        if os.path.lexists(target):
            raise UsageError(f"{target}: exists already. Choose another NAME, or another --into.")
        files = files_of(name, kinds, _author() or f"the authors of {distribution}")
        try:
            _write(files, target)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"--into {into}: cannot be written to ({reason}). Choose another folder."
            ) from error
        print(_report(target, files, name, uses_of(name, kinds)))
        return 0


def _author() -> str:
    """Return the name that git gives to commits here; empty if there is none."""
    try:
        done = subprocess.run(
            ["git", "config", "user.name"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return " ".join("".join(filter(str.isprintable, done.stdout.strip())).split())


def _check_free(name: str, kinds: Sequence[str], distribution: str) -> None:
    """Refuse a name that would hide an installed plugin, or be hidden by it."""
    for record in discover().records:
        provides = {(spec.kind, canonicalize_name(spec.name)) for spec in record.specs}
        taken = [kind for kind in kinds if (kind, canonicalize_name(name)) in provides]
        if taken:
            what = f"there is already a {taken[0]} {name!r}"
        elif canonicalize_name(record.distribution) == distribution:
            what = f"a distribution {distribution} is already installed"
        else:
            continue
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


def _report(target: Path, files: Mapping[str, str], name: str, uses: Sequence[str]) -> str:
    folder = shlex.quote(str(target))
    return "\n".join(
        [
            f"Wrote {target}:",
            *(f"  {name}" for name in files),
            "Next:",
            f"  pip install -e {shlex.quote(f'{target}[test]')}",
            f"  rltrain plugins --check {name}",
            f"  python -m pytest {folder}",
            *(f"  {use}" for use in uses),
        ]
    )
