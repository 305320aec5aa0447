"""Options that say in other words what further options say."""

from __future__ import annotations

from typing import Any

from rltrain.errors import UsageError
from rltrain.options import checks
from rltrain.options.checks import flag

__all__ = ["with_coordinator"]


def with_coordinator(checked: dict[str, Any]) -> dict[str, Any]:
    """Take host and port from --coordinator-address, if it was given."""
    if "coordinator_address" not in checked:
        return checked
    host, _, port = checked["coordinator_address"].rpartition(":")
    split = {"master_addr": checks.address("master_addr", host), "master_port": int(port)}
    for name, value in split.items():
        if checked.get(name, value) != value:
            raise UsageError(
                f"--coordinator-address {checked['coordinator_address']} and {flag(name)} "
                f"{checked[name]} contradict each other. Give one of the two."
            )
    return {**checked, **split}
