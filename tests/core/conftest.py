from __future__ import annotations

from made_up_plugins import cli, hidden_variables, plain_environment, site, stub
from small_disks import small_disk

__all__ = ["cli", "hidden_variables", "plain_environment", "site", "small_disk", "stub"]
