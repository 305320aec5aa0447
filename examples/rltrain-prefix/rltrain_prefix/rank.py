"""One rank, in a process of its own: `python -m rltrain_prefix.rank FOLDER`."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

__all__: list[str] = []


def main(folder: Path) -> None:
    """Do the rank's work; if it fails, it writes a report and exits."""
    # Written by the launcher that started this process, in a folder of its own.
    from rltrain_prefix.launcher import RESULT, WORK

    config, work, path = pickle.loads((folder / WORK).read_bytes())
    sys.path[:] = path
    result = work(config, str(folder))
    if result is not None:
        (folder / RESULT).write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
