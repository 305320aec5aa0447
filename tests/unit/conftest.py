from __future__ import annotations

from helpers import small_disk
from made_up_plugins import cli, hidden_variables, plain_environment, site, stub

__all__ = ["cli", "hidden_variables", "plain_environment", "site", "small_disk", "stub"]
