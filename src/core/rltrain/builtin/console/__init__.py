"""The console writer: a live view on a terminal, plain lines in a pipe or a log file."""

from rltrain.builtin.console.writer import ConsoleWriter

__all__ = ["ConsoleWriter"]
