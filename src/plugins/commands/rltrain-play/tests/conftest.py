from __future__ import annotations

from made_up_plugins import hidden_variables, plain_environment, site, stub

__all__ = ["hidden_variables", "plain_environment", "site", "stub"]
