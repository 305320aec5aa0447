from __future__ import annotations

import sys
from pathlib import Path

from made_up_plugins import hidden_variables, plain_environment, site, stub

__all__ = ["hidden_variables", "plain_environment", "site", "stub"]

sys.path.insert(0, str(Path(__file__).parent))  # Makes the helpers next to the tests importable.
