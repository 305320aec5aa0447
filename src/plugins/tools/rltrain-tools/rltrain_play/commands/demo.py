"""See all of it in a minute: train two ranks, evaluate, export, and a report."""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import dataclass

from rltrain.commands import add_flags, commands, main, read_flags
from rltrain.errors import UsageError
from rltrain.options import Group, RunOptions, Scope
from rltrain.plugins import discover
from rltrain.runs import find_run
from rltrain.specs import LibrarySpec

OWN = Group("options")

# Two ranks need no two GPUs on the CPU.
_TRAINS = (
    "train --library {library} --device cpu --distributed --nproc-per-node 2 --target-return 475"
)
_THEN = ("evaluate {run} --episodes 100", "export {run} --verify 100", "report {run}")
_NEXT = """
Next:
  rltrain play {run}
  rltrain tasks pendulum
  rltrain --library {library} --task Pendulum-v1 --distributed"""


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The command's options."""

    library: str | None = OWN.named(None, Scope.COMMAND, "RL library", default_text="any")
    log_root: str = OWN.option(
        RunOptions.log_root, Scope.COMMAND, "folder for run folders", metavar="DIR"
    )


class DemoCommand:
    """See all of it in a minute: train two ranks, evaluate, export, and a report.

    Each step is a command, which is shown. One that fails ends the demo with its status.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        add_flags(parser, of=DemoOptions)

    def run(self, arguments: argparse.Namespace, words: list[str]) -> int:
        """Run each command as if it were typed."""
        own, registry = read_flags(DemoOptions, arguments), discover()
        if own.library is None and not registry.names(LibrarySpec):
            raise UsageError("demo: no RL library can be used. pip install 'rltrain[all]'.")
        if missing := {step.split()[0] for step in _THEN} - set(commands()):
            raise UsageError(f"demo: {min(missing)} is missing. pip install 'rltrain[all]'.")
        library = shlex.quote(own.library or registry.names(LibrarySpec)[0])
        root = shlex.quote(own.log_root)
        if status := _type(_TRAINS.format(library=library) + f" --log-root {root}"):
            return status
        run = shlex.quote(os.path.relpath(find_run("latest", own.log_root)))
        for step in _THEN:
            if status := _type(step.format(run=run)):
                return status
        print(_NEXT.format(run=run, library=library))
        return 0


def _type(line: str) -> int:
    """Show a command, and run it."""
    print(f"\n$ rltrain {line}", flush=True)
    return main(shlex.split(line))
