"""Starts `gpu.py`, whose docstring says what it measures.

This file has the name of NVIDIA's package `cuda`, which torch imports. When another script in this
folder imports torch, this file is found instead, and so must redirect to NVIDIA's package.
"""

import pkgutil
import sys
from pathlib import Path

if __name__ == "cuda":
    __path__ = pkgutil.extend_path([], __name__)
else:
    sys.path[0] = str(Path(__file__).parents[1])
    from benchmarks.gpu import main

    if __name__ == "__main__":
        main()
