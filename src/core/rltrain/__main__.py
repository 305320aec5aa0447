"""The command: `rltrain`, and `python -m rltrain`, as torchrun starts it."""

from __future__ import annotations

import os
import sys

_PRINT = {"-h", "--help", "--help-all", "--version"}


def main() -> int:
    """Run the command line; what may train in a process of its own, see `rltrain.ranks.guarded`."""
    words = sys.argv[1:]
    short = _PRINT & {*words} or words[:1] in (["help"], ["version"], ["plugins"])
    if short or "_ARGCOMPLETE" in os.environ:  # A shell asks what could be typed.
        return _work()
    import signal

    # An exception from a signal could hit any import: what arrives now is handled after them.
    numbers = *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP), *(signal.SIGUSR1, signal.SIGUSR2)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    from rltrain.ranks.guarded import guarded

    return guarded(_work, mask)


def _work() -> int:
    from rltrain.cli.main import main as run

    return run()


if __name__ == "__main__":
    if not sys.flags.safe_path:  # -m puts the current folder first, before what is installed.
        sys.path.append(sys.path.pop(0))
    sys.exit(main())
