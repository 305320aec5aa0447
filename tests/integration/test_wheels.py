"""What users install: the wheels, in a clean environment."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import free_port, run, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
NO_ISOLATION = {"PIP_NO_BUILD_ISOLATION": "false"}
"""Lets pip build with what is installed. It means what --no-build-isolation does."""
UV = (sys.executable, "-m", "uv", "--quiet", "pip", "install")


OTHERS = sorted(path.parent.name for path in ROOT.glob("src/**/pyproject.toml"))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Serve what `make wheels` builds as an index; return the variables by which it is found."""
    folder = tmp_path_factory.mktemp("of") / "a clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE", "src"):
        (folder / name).symlink_to(ROOT / name)
    make = ("make", "--no-print-directory", "wheels", f"PYTHON={sys.executable}")
    made = run(*make, cwd=folder, **NO_ISOLATION)
    dist = folder / "dist"
    assert len(list(dist.glob("*.whl"))) == 1 + len(OTHERS)
    show = f'{made.splitlines()[-1]}\nprintf "%s %s" "$PIP_FIND_LINKS" "$UV_FIND_LINKS"'
    links = {"PIP_FIND_LINKS": "file:///lab", "UV_FIND_LINKS": ""}
    assert run("sh", "-c", show, cwd=folder, **links).split() == [
        "file:///lab",
        *[dist.as_uri()] * 2,
    ]
    server = (sys.executable, "-m", "pypiserver", "run", "--interface", "127.0.0.1", "--port")
    port, quiet = free_port(), {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    url = f"http://127.0.0.1:{port}/simple/"
    pip = (sys.executable, "-m", "pip", "config", "get", "global.extra-index-url")
    more = subprocess.run(pip, capture_output=True, text=True, timeout=60).stdout.split()
    with subprocess.Popen((*server, str(port), "--disable-fallback", dist), **quiet) as process:
        try:
            wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, 30)
            yield {"PIP_EXTRA_INDEX_URL": " ".join([url, *more]), "UV_INDEX": url}
        finally:
            process.terminate()


@pytest.mark.parametrize(
    ("versions", "python", "line"),
    [
        (
            "isaaclab-3",
            "3.12",
            "rltrain-isaaclab rltrain-torch rltrain-rsl-rl rltrain-skrl "
            '"rltrain-writers[console]" "rltrain-tools[report,video]"',
        ),
        (
            "isaaclab-2.3",
            "3.11",
            "rltrain-isaaclab rltrain-torch rltrain-skrl rltrain-rl-games rltrain-rsl-rl "
            '"rltrain-writers[console]" "rltrain-tools[report,video]"',
        ),
        ("mjlab", "3.11", '"rltrain-mjlab[library]" "rltrain-writers[console]" rltrain-tools'),
    ],
)
def test_what_the_pages_install_changes_no_pin_of_isaac_lab_or_mjlab(
    found, versions, python, line, tmp_path
):
    """pip keeps what is installed if it fits, and it fits if uv finds a solution with the pins."""
    pages = "".join(path.read_text() for path in (ROOT / "docs").glob("*.md"))
    assert f"pip install {line}" in pages
    wanted = tmp_path / "wanted.txt"
    wanted.write_text(line.replace('"', "").replace(" ", "\n"))
    chosen = run(
        *(*UV[:-1], "compile", "--no-header", "--no-annotate", "--python-version", python),
        *("-c", str(ROOT / "constraints" / f"{versions}.txt"), str(wanted)),
        cwd=tmp_path,
        **found,
    )
    assert {name for name in OTHERS if f"{name}==" in chosen} >= {
        name.partition("[")[0] for name in wanted.read_text().split()
    }


def timed(*words, **how):
    begin = time.monotonic()
    shown = run(*words, **how)
    print(f"{time.monotonic() - begin:4.0f} s  {' '.join(map(str, words[1:]))}")
    return shown


@pytest.mark.parametrize("how", ["pip", "uvx", "uv tool", "pipx", "3.13"])
def test_the_readmes_lines_end_in_the_demo(found, how, tmp_path):
    readme = (ROOT / "README.md").read_text()
    pins = str(ROOT / "constraints" / "tested.txt")
    command: tuple[Path | str, ...] = (tmp_path / "bin/rltrain",)
    found = found | dict.fromkeys(("UV_TOOL_BIN_DIR", "PIPX_BIN_DIR"), str(tmp_path / "bin"))
    found |= dict.fromkeys(("UV_TOOL_DIR", "PIPX_HOME"), str(tmp_path / "tools"))
    if how in ("pip", "pipx"):
        run(sys.executable, "-m", "venv", "clean", cwd=tmp_path)
        pip = (tmp_path / "clean/bin/pip", "install", "--quiet", "-c", pins)
        timed(*pip, "torch" if how == "pip" else "pipx", cwd=tmp_path)
    if how == "pip":
        assert 'pip install "rltrain[all]"\n    rltrain demo' in readme
        timed(*pip, "rltrain[all]", cwd=tmp_path, **found)
        command = (tmp_path / "clean/bin/rltrain",)
    elif how == "uvx":
        assert 'uvx --from "rltrain[all]" rltrain demo' in readme
        command = (*UV[:3], "tool", "run", "--from", "rltrain[all]", "-c", pins, "rltrain")
    elif how == "pipx":
        assert '`pipx install "rltrain[all]"`' in readme
        words = ("install", "rltrain[all]", "--pip-args", f"-c '{pins}'")
        timed(tmp_path / "clean/bin/pipx", *words, cwd=tmp_path, **found)
    else:
        assert 'uv tool install "rltrain[all]"' in readme
        python = sys.executable if how == "uv tool" else how
        if subprocess.run([*UV[:3], "python", "find", python], capture_output=True).returncode:
            pytest.skip(f"no Python {python} is found")
        words = ("tool", "install", "rltrain[all]", "-c", pins, "--python", python)
        timed(*UV[:3], *words, cwd=tmp_path, **found)
    shown = timed(*command, "demo", cwd=tmp_path, **found)
    assert "solved at --target-return 475" in shown
    assert "Next:\n  rltrain play logs/rl_games/rltrain_CartPoleContinuous-v1/" in shown
    (folder,) = (tmp_path / "logs/rl_games/rltrain_CartPoleContinuous-v1").iterdir()
    for made in ("report/report.html", "exported/policy.onnx"):
        assert (folder / made).is_file()
    if how == "pip":  # The rest of the page; and a plugin of others is found next to them.
        lines = re.findall(r"^    rltrain (.* 475|(?:eval|exp)\w+ latest --\w+ \d+)", readme, re.M)
        for line in (f"{lines.pop(0)} --device cpu", *lines, "new mine --kind writer"):
            timed(*command, *line.split(), cwd=tmp_path)
        timed(*pip, "--no-deps", tmp_path / "rltrain-mine", cwd=tmp_path)
        timed(*command, "train", "--max-iterations=2", "--writer=mine", cwd=tmp_path)


def test_all_wheels_install_together(found, tmp_path):
    clean = tmp_path / "clean"
    run(sys.executable, "-m", "venv", "--without-pip", str(clean), cwd=tmp_path)
    pins = str(ROOT / "constraints" / "tested.txt")
    install = (*UV, "--python", str(clean), "-c", pins)
    index = os.environ.get("TORCH_INDEX")
    run(*install, "torch", *(["--index-url", index] if index else []), cwd=tmp_path)
    few = ("rltrain-torch[library]", "rltrain-gymnasium[library]", "rltrain-rl-games[library]")
    run(*install, *few, cwd=tmp_path, **found)
    command = str(clean / "bin" / "rltrain")
    message = run(command, "play", "latest", cwd=tmp_path, status=2)
    assert "play: a command of rltrain-tools. pip install 'rltrain-tools'" in message

    run(*install, "rltrain[all,jax]", *OTHERS, cwd=tmp_path, **found)
    listed = json.loads(run(command, "plugins", "--json", cwd=tmp_path))
    # The libraries that they adapt are in none of rltrain's own extras.
    extra = {"envpool", "isaaclab", "mjlab", "mlflow", "mpi", "playground", "ray", "slurm", "wandb"}
    assert {row["name"] for row in listed if row["status"] != "ready"} == extra
    libraries = sorted(row["name"] for row in listed if row["kind"] == "library")
    assert libraries == ["rl_games", "rsl_rl", "skrl"]
    assert "Wrote" in run(command, "new", "mine", "--kind", "writer", cwd=tmp_path)
