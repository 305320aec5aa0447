"""Starts `gpu.py`, which says what it measures.

torch looks for NVIDIA's package `cuda`, and finds this file when another script of this folder
imports torch: it leads on to the package, where that is installed.
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
