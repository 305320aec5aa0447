"""Makes the pictures of the pages: a terminal, and the top of a report.

    python benchmarks/pictures.py

It trains a cart-pole on two ranks, and needs chromium.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SOLVE = "--library rl_games --distributed --nproc-per-node 2 --target-return 475"


def typed(line: str, folder: str) -> str:
    """Run a command line in a folder, and return what it prints."""
    words = [sys.executable, "-m", "rltrain", *line.split()]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def terminal(folder: str) -> None:
    """Show the first iteration, the last one, and the result."""
    lines = typed(SOLVE, folder).splitlines()
    seen = [number for number, line in enumerate(lines) if line.startswith("iteration")]
    shown = [f"$ rltrain {SOLVE}", *lines[: seen[0] + 1], "...", *lines[seen[-1] :]]
    console = Console(record=True, width=112, file=io.StringIO())
    console.print("\n".join(line[:110] for line in shown), highlight=False, markup=False)
    # The fonts would be loaded from elsewhere.
    picture = console.export_svg(title="rltrain")
    plain = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    (PICTURES / "terminal.svg").write_text(plain)


def report(folder: str) -> None:
    """Show the top of a report's page."""
    typed("report latest", folder)
    (page,) = Path(folder).rglob("report.html")
    words = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars"]
    words += ["--window-size=1280,900", f"--screenshot={PICTURES / 'report.png'}", page.as_uri()]
    subprocess.run(words, check=True, capture_output=True, timeout=120)


def main() -> None:
    """Make both of one run."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        terminal(folder)
        report(folder)


if __name__ == "__main__":
    main()
