"""The conformance kit for commands, as tests to subclass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rltrain.launch import private_folder
from rltrain.plugins import discover
from rltrain.specs import CommandSpec
from rltrain_devkit.kits.rules import Kit, environ, skip

_TIMEOUT = 300
"""Seconds for one call."""

_MAKE_HELP = """
import sys
from rltrain.commands import command_of, make_parser
name, loaded, _ = command_of(sys.argv[1:])
parser = make_parser(loaded, name)
print("class", bool(type(loaded.command).__doc__))
print("heavy", *(name for name in ("gymnasium", "jax", "numpy", "torch") if name in sys.modules))
mute = [a.option_strings[-1] for a in parser._actions if a.option_strings and not a.help]
print("mute", *mute)
"""

_Done = subprocess.CompletedProcess[str]


class CommandConformance(Kit):
    """What every command must do, called as users call it: in processes of its own.

    Example:
        ```python
        from rltrain_devkit import CommandConformance

        class TestMyCommand(CommandConformance):
            command = "my-command"
            works = ["--log-root", "."]
            refuses = ["--log-root", "missing"]
        ```
    """

    command: str
    """The name under which the plugin declares it."""
    needs: Sequence[str] = ()
    """The words that it cannot do without, such as a name."""
    works: Sequence[str] | None = None
    """The words of a call that does what the command is for, in the folder that `prepare` fills."""
    refuses: Sequence[str] | None = None
    """The words of a call with a user's mistake in one of them, in an empty folder."""

    def prepare(self, folder: Path) -> None:
        """Override it to put into the working folder what the call of `works` needs."""

    def test_its_help_is_light_and_whole(self) -> None:
        """Its help imports no tensor framework and no numpy, and every flag has a text.

        `rltrain help WORD` and the tab key make the parsers of all commands.
        """
        spec = discover().get(CommandSpec, self.command)
        done = _process(Path.cwd(), "-c", _MAKE_HELP, self.command)
        assert not done.returncode, done.stderr
        found = {what: words for what, *words in map(str.split, done.stdout.splitlines()[-3:])}
        assert not found["heavy"], (
            f"the class and its add_arguments import {', '.join(found['heavy'])}: import in `run`"
        )
        assert found["class"] == ["True"], f"{spec.factory}: write a docstring, which is the help"
        assert not found["mute"], f"give {', '.join(found['mute'])} a help=..."

    def test_help_ends_with_0(self) -> None:
        """--help prints the help and ends with status 0."""
        _check(self._call("--help"), 0, f"rltrain {self.command}")

    def test_an_unknown_flag_is_refused(self) -> None:
        """An unknown flag is refused with status 2, in a line that names it."""
        _check(self._call(*self.needs, "--no-such-flag"), 2, "--no-such-flag")

    def test_it_works(self) -> None:
        """It does its work, and ends with status 0."""
        if self.works is None:
            skip("works = None: give the words of a call that works")
        with private_folder() as folder:
            self.prepare(folder)
            _check(_process(folder, "-m", "rltrain", self.command, *self.works), 0)

    def test_a_mistake_is_refused(self) -> None:
        """A mistake of the user ends with status 2, and a line that names it."""
        if self.refuses is None:
            skip("refuses = None: give the words of a call with a mistake")
        _check(self._call(*self.refuses), 2, *self.refuses)

    def _call(self, *words: str) -> _Done:
        """Call the command in an empty folder."""
        with private_folder() as folder:
            return _process(folder, "-m", "rltrain", self.command, *words)


def _process(folder: Path, *words: str) -> _Done:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environ(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )


def _check(done: _Done, status: int, *any_of: str) -> None:
    """Check how a call ended, and that it printed one of some words, if there are any."""
    words, printed = " ".join(done.args[2:]), done.stdout + done.stderr
    end = printed[-2000:] or "(nothing)"
    assert "Traceback (most recent call last)" not in done.stderr, (
        f"{words}: ends in a traceback. Raise a UsageError for what the user can change:\n{end}"
    )
    assert done.returncode == status, (
        f"{words}: ends with status {done.returncode}, not {status}. It printed:\n{end}"
    )
    assert not any_of or any(word in printed for word in any_of), (
        f"{words}: what it prints names none of {' '.join(any_of)}:\n{end}"
    )
