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
from wheel import VERSION, unpacked


def row(library, counts) -> str:
    refused = ", ".join(
        f"{number} {came.removeprefix('refused: ')}"
        for came, number in sorted(counts.items())
        if came != WORKS
    )
    return f"| {library} | {counts.total()} | {counts[WORKS]} | {refused or 'none'} |"


def main(libraries) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="rltrain-corpus-") as name:
        folder = Path(name)
        source = unpacked(folder)
        print(f"Isaac Lab {VERSION}\n\n| library | files | work | refused |\n|---|---|---|---|")
        for library in libraries or LIBRARIES:
            with contextlib.redirect_stdout(sys.stderr):  # Because libraries print too.
                counts = all_outcomes(
                    library, source, folder / library, lambda file, came: print(file.name, came)
                )
            print(row(library, counts), flush=True)
    os._exit(0)  # The stand-in's app ends a process in its own way, as Isaac Sim does.


if __name__ == "__main__":
    main(sys.argv[1:])
