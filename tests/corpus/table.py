"""Prints the outcomes of Isaac Lab's options files, as the table in docs/isaaclab.md.

python tests/corpus/table.py [LIBRARY ...]
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path

import torch
from outcomes import LIBRARIES, WORKS, all_outcomes
from test_corpus import EXPECTED
from wheel import unpacked


def row(version, library, counts) -> str:
    refused = ", ".join(
        f"{number} {came.removeprefix('refused: ')}"
        for came, number in sorted(counts.items())
        if came != WORKS
    )
    cells = (version, library, counts.total(), counts[WORKS], refused or "none")
    return f"| {' | '.join(map(str, cells))} |"


def main(libraries) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="rltrain-corpus-") as name:
        folder = Path(name)
        print("| Isaac Lab | library | files | work | refused |\n|---|---|---|---|---|", flush=True)
        for version, library in EXPECTED:
            if library not in libraries:
                continue
            source = unpacked(folder, version)
            with contextlib.redirect_stdout(sys.stderr):  # Because libraries print too.
                counts = all_outcomes(
                    library,
                    source,
                    folder / version / library,
                    lambda file, came: print(file.name, came),
                )
            print(row(version, library, counts), flush=True)
    os._exit(0)  # The stand-in's app ends a process in its own way, as Isaac Sim does.


if __name__ == "__main__":
    main(sys.argv[1:] or LIBRARIES)
