"""The console writer: plain lines, and what another view of a run shares with them."""

from rltrain.builtin.console.lines import summary
from rltrain.builtin.console.state import RunState, Shares
from rltrain.builtin.console.words import duration, number, percent, shortest, speed
from rltrain.builtin.console.writer import ConsoleWriter, View

__all__ = [
    "ConsoleWriter",
    "RunState",
    "Shares",
    "View",
    "duration",
    "number",
    "percent",
    "shortest",
    "speed",
    "summary",
]
