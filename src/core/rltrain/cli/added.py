"""A command that a plugin adds, in the form of this package's modules."""

from __future__ import annotations

import inspect

from rltrain.errors import PluginError
from rltrain.plugins.options import make_plugin
from rltrain.specs import CommandSpec
from rltrain.types import Command

__all__ = ["AddedCommand"]


class AddedCommand:
    """Loads the class that a spec names.

    Raises:
        PluginError: it cannot be loaded, or lacks a method.
    """

    def __init__(self, spec: CommandSpec) -> None:
        label = f"The command {spec.name!r} ({spec.factory})"
        try:
            self._command: Command = make_plugin(spec, {})
        except Exception as error:
            raise PluginError(
                f"{label} could not be loaded: {type(error).__name__}: {error}"
            ) from error
        for method in spec.requires:
            if not callable(getattr(self._command, method, None)):
                raise PluginError(f"{label} has no method `{method}`.")
        self.add_arguments = self._command.add_arguments
        self.run = self._command.run
        description, _, self.EPILOG = (inspect.getdoc(self._command) or "").partition("\n\n")
        self.__doc__ = description

    def split(self, words: list[str]) -> tuple[list[str], list[str]]:
        """Return the words before and after the first `--`."""
        end = words.index("--") if "--" in words else len(words)
        return words[:end], words[end + 1 :]
