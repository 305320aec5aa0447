"""The command line: one module for each command."""

from rltrain.cli.main import main

__all__ = ["main"]
