"""Servers for tests: a real one with a database, and one that never answers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

START = 120
"""Seconds in which a server must have started. It makes its database first."""


class Server:
    """A real server, which can be killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self._folder = folder

    def start(self) -> None:
        store, artifacts = f"sqlite:///{self._folder}/mlflow.db", self._folder / "artifacts"
        with open(self._folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
                    *("--host", "127.0.0.1", "--port", str(self.port)),
                    *("--backend-store-uri", store, "--artifacts-destination", str(artifacts)),
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
                start_new_session=True,
            )
        end = time.monotonic() + START
        while not self._is_ready():
            text = (self._folder / "server.log").read_text()
            assert self._process.poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.1)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextlib.contextmanager
def never_answering() -> Iterator[str]:
    """Accept connections and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
