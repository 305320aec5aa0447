"""Options with a second spelling: host and port in one, ranks, and the flags of `video`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.config import checks
from rltrain.config.checks import flag
from rltrain.errors import UsageError

VIDEO = "video"
"""The observer that --video chooses."""

_OF_VIDEO = {"video_length": "length", "video_interval": "interval"}
"""The observer's options that have flags of their own, as Isaac Lab's and mjlab's users type."""


def with_coordinator(checked: dict[str, Any]) -> dict[str, Any]:
    """Take host and port from --coordinator-address, if it was given."""
    if "coordinator_address" not in checked:
        return checked
    host, _, port = checked["coordinator_address"].rpartition(":")
    split = {"master_addr": checks.address("master_addr", host), "master_port": int(port)}
    for name, value in split.items():
        if checked.get(name, value) != value:
            raise _contradiction(
                f"--coordinator-address {checked['coordinator_address']}",
                f"{flag(name)} {checked[name]}",
            )
    return {**checked, **split}


def with_num_gpus(checked: dict[str, Any]) -> dict[str, Any]:
    """Take gpu, cpu and auto of --num-gpus as those of --nproc-per-node."""
    asked = checked.get("num_gpus")
    if not isinstance(asked, str):
        return checked
    ranks = checks.ranks("nproc_per_node", asked)
    if checked.get("nproc_per_node", ranks) != ranks:
        raise _contradiction(
            f"{flag('num_gpus')} {asked}", f"{flag('nproc_per_node')} {checked['nproc_per_node']}"
        )
    return {**checked, "num_gpus": None, "nproc_per_node": ranks}


def with_video(checked: dict[str, Any]) -> dict[str, Any]:
    """Translate --video, --video-length and --video-interval to the observer and its options."""
    observers, plugins = checked.get("observers", ()), checked.get("plugins", {})
    if VIDEO in observers and checked.get(VIDEO) is False:
        raise _contradiction(f"{flag(VIDEO)} False", f"{flag('observers')} {VIDEO}")
    if VIDEO not in observers and not checked.get(VIDEO):
        return checked
    options = dict(plugins.get(VIDEO, {}))
    for name, option in _OF_VIDEO.items():
        if name not in checked:
            continue
        value = options.setdefault(option, checked[name])
        if str(value) != str(checked[name]):
            raise _contradiction(f"{flag(name)} {checked[name]}", f"{VIDEO}.{option}={value}")
    return {
        **checked,
        "observers": tuple(dict.fromkeys([*observers, VIDEO])),
        "plugins": {**plugins, VIDEO: options} if options else plugins,
    }


def is_section(name: str, value: Any) -> bool:
    """Return whether this is a section of the observer, {"video": {"length": 100}}, not --video."""
    return name == VIDEO and isinstance(value, Mapping)


def chosen_by(observer: str) -> str:
    """Return how a user chooses an observer, for a message."""
    typed = f"{flag('observers')} {observer}"
    return f"{flag(VIDEO)} (or {typed})" if observer == VIDEO else typed


def _contradiction(one: str, other: str) -> UsageError:
    return UsageError(f"{one} and {other} contradict each other. Give one of the two.")
