"""Makes the pictures of the pages: a terminal, the top of a report, and a robot.

    python benchmarks/pictures.py
    python benchmarks/pictures.py robot

Both train on two ranks. The first needs chromium, the second EnvPool, EGL and some minutes.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import imageio.v3 as iio
import numpy as np
from PIL import Image
from rich.console import Console

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
SOLVE = "--library rl_games --distributed --nproc-per-node 2 --target-return 475"
HOPPER = "--library rl_games --task envpool/Hopper-v5 --distributed --nproc-per-node 2"
WATCH = "--task Hopper-v5 --suite gymnasium --video --video-length 150 env.camera_name=track"


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


def robot(folder: str) -> None:
    """Show a hop of a policy that EnvPool trained, as Gymnasium renders it."""
    typed(f"{HOPPER} --target-return 2500", folder)
    (run,) = Path(folder).glob("logs/rl_games/envpool_Hopper-v5/*")
    os.environ.setdefault("MUJOCO_GL", "egl")
    typed(f"play {run} {WATCH}", folder)
    (video,) = run.glob("videos/*.mp4")
    frames = iio.imread(video)[60:135:15, 140:460, 90:390]
    strip = Image.fromarray(np.concatenate(frames, axis=1))
    strip.quantize(64).save(PICTURES / "robot.png", optimize=True)


def main() -> None:
    """Make the robot, or the others of one run."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:] == ["robot"]:
            robot(folder)
        else:
            terminal(folder)
            report(folder)


if __name__ == "__main__":
    main()
