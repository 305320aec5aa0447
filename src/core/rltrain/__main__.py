"""`python -m rltrain`, as torchrun starts it."""

from __future__ import annotations

import sys

from rltrain.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
