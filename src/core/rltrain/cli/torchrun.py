"""Settings of torchrun whose meaning rltrain has already: they are accepted, and explained."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rltrain.errors import UsageError

if TYPE_CHECKING:
    from rltrain.plan.resolve import Plan

__all__ = ["add_arguments", "check", "notes", "separate"]

_DEST = "torchrun "
"""How the names of the parsed settings begin; those of a run's options have no space."""


class _Setting(NamedTuple):
    """A setting that changes nothing."""

    flags: tuple[str, ...]
    value: Callable[[str], str]
    """Returns the value, or raises `argparse.ArgumentTypeError`."""
    note: str
    """What rltrain does."""


def _streams(text: str) -> str:
    if not re.fullmatch(r"[0-3]|\d+:[0-3](,\d+:[0-3])*", text):
        raise argparse.ArgumentTypeError(f"{text}: must be 0 to 3, or RANK:0 to RANK:3 and so on")
    return text


def _interval(text: str) -> str:
    if not re.fullmatch(r"\d*\.?\d+|\d+\.", text) or float(text) < 0.1:
        raise argparse.ArgumentTypeError(f"{text}: must be seconds, at least 0.1")
    return text


def _method(text: str) -> str:
    if text not in ("spawn", "fork", "forkserver"):
        raise argparse.ArgumentTypeError(f"{text}: must be spawn, fork or forkserver")
    return text


_LOGS = (
    "everything that a rank prints is in its log; the console shows rank 0's progress, and with "
    "--show-ranks what other ranks print."
)
_SETTINGS = [
    _Setting(("--tee", "-t"), _streams, _LOGS),
    _Setting(("--redirects", "-r"), _streams, _LOGS),
    _Setting(
        ("--monitor-interval",), _interval, "not used; a failed rank is noticed within 0.1 s."
    ),
    _Setting(("--start-method",), _method, "not used, nor by torchrun when it starts a script."),
    _Setting(("--role",), str, "not used; all ranks have the same role."),
]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add torchrun's settings; --help does not list them."""
    hidden: dict[str, Any] = {"help": argparse.SUPPRESS, "default": argparse.SUPPRESS}
    for setting in _SETTINGS:
        dest = _DEST + setting.flags[0]
        parser.add_argument(*setting.flags, dest=dest, type=setting.value, **hidden)
    parser.add_argument("--standalone", dest=f"{_DEST}--standalone", action="store_true", **hidden)
    # The two below are other ways to write options of the run.
    parser.add_argument("--rdzv-conf", dest="join_timeout", type=_join_timeout, **hidden)
    parser.add_argument(
        "--log-all-ranks", dest="show_ranks", action="store_const", const="all", **hidden
    )


def _join_timeout(text: str) -> str:
    """Return the one setting of a rendezvous that rltrain takes from the user."""
    name, _, value = text.partition("=")
    if name not in ("timeout", "join_timeout") or "," in value:
        raise argparse.ArgumentTypeError(
            f"{text}: rltrain takes join_timeout=SECONDS and sets the others itself"
        )
    return value


def separate(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the run, and torchrun's settings by flag."""
    options = {name: value for name, value in given.items() if not name.startswith(_DEST)}
    settings = {
        name.removeprefix(_DEST): value for name, value in given.items() if name not in options
    }
    return options, settings


def check(settings: Mapping[str, Any], plan: Plan) -> None:
    """Refuse --standalone for a run on several nodes.

    Raises:
        UsageError: it was given for one.
    """
    if "--standalone" not in settings:
        return
    nodes = plan.world.num_nodes if plan.world is not None else plan.config.nnodes
    if nodes > 1:
        raise UsageError(f"--standalone: the run is on {nodes} nodes. Leave one of the two out.")
    if plan.config.rdzv_endpoint is not None:
        raise UsageError(
            f"--standalone and --rdzv-endpoint {plan.config.rdzv_endpoint} contradict each other. "
            "Give one of the two."
        )


def notes(settings: Mapping[str, Any]) -> list[str]:
    """Return a line for each setting that was given, except those that rltrain follows."""
    return [
        f"{flag} {settings[flag]}: {setting.note}"
        for setting in _SETTINGS
        if (flag := setting.flags[0]) in settings
    ]
