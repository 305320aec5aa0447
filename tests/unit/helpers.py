"""What tests of every folder do: wait, take a port, start a process, and ask what is refused."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld

T = TypeVar("T")

FAMILIES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6, "localhost": socket.AF_INET}


def wait_for(
    condition: Callable[[], T],
    seconds: float = 60,
    every: float = 0.02,
    process: subprocess.Popen[str] | None = None,
    what: str = "it does not happen",
) -> T:
    """Wait until a condition holds; return what it returned. The test fails if a process ends."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, what
        time.sleep(every)
    return found


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port of a loopback address that nobody has; skip where there is no such address."""
    with socket.socket(FAMILIES[host]) as found:
        try:
            found.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        return found.getsockname()[1]


def living(session: int) -> list[int]:
    found = []
    for each in psutil.process_iter(["status"]):
        with contextlib.suppress(OSError):  # It has ended.
            if os.getsid(each.pid) == session and each.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(each.pid)
    return sorted(found)


def python(
    code: str, *words: str, timeout: float = 120, check: bool = True, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, by default to a good end, with these variables."""
    return _run("-c", textwrap.dedent(code), *words, timeout=timeout, check=check, **variables)


def rltrain_command(
    *words: str, timeout: float = 60, check: bool = False, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `rltrain` with these words in a process of its own, with these variables."""
    return _run("-m", "rltrain", *words, timeout=timeout, check=check, **variables)


def _run(*words: str, timeout: float, check: bool, **variables: str):
    environ = {**os.environ, **variables}
    words = (sys.executable, *words)
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=timeout)
    assert not check or done.returncode == 0, done.stderr
    return done


def run(
    *command: str | Path, cwd: Path, timeout: float = 600, status: int = 0, **variables: str
) -> str:
    """Run a command as a user, without our PYTHONPATH; return what it prints.

    Where another status than 0 is expected, what it prints to stderr.
    """
    environ = {name: x for name, x in os.environ.items() if name != "PYTHONPATH"} | variables
    output = {"capture_output": True, "text": True, "timeout": timeout}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environ, **output)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def install(folder: Path, module: str, source: str) -> None:
    """Put into a folder a distribution whose plugin is one module with this source."""
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(source)
    name = module.replace("_", "-")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[rltrain]\n{module} = {module}\n")


def refusal(call: Callable[..., Any], *given: Any, **named: Any) -> str:
    """Return what a call that is refused says to the user."""
    with pytest.raises(UsageError) as caught:
        call(*given, **named)
    return str(caught.value)


def check_answers(file: Path, answer: Callable[[str], tuple[int, str]]) -> None:
    """Check what is said to mistakes: a file has each line that is typed, and the whole answer.

    A changed answer shows as one difference to read. Where it is meant, what is said now is taken.
    """

    def said_to(block: re.Match[str]) -> str:
        status, said = answer(block[1])
        assert status == 2, said
        said = re.sub(" Not ready: .*", "", said)  # What is installed differs.
        return f"$ {block[1]}\n{said}"

    written = file.read_text()
    now = re.sub(r"^\$ (.+)\n(?:.+\n)*", said_to, written, flags=re.MULTILINE)
    if now != written:
        (build := file.parents[2] / "build").mkdir(exist_ok=True)
        (build / file.name).write_text(now)
    assert now == written, f"If these answers are better: cp build/{file.name} {file}"


def run_ranks(world_size: int, work: Callable[[Any], Any]) -> list[Any]:
    """Call `work(group)` on every rank of a fake world; return results, or raised errors."""

    def kept(group):
        try:
            return work(group)
        except BaseException as error:
            return error

    return FakeWorld(world_size).run(kept)


@pytest.fixture
def small_disk(tmp_path):
    """A folder with 1 MB of space, on a disk of its own."""
    folder = tmp_path / "small_disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=False)  # A test may have lost it.
