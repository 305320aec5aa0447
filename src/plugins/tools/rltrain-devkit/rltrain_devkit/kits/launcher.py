"""The conformance kit for launchers, as tests to subclass."""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rltrain.launch import private_folder
from rltrain.plugins import discover
from rltrain.specs import BackendSpec, LauncherSpec, LibrarySpec
from rltrain_devkit.kits.launcher_process import (
    CASES,
    ITERATIONS,
    OUTCOME,
    PLANTED,
    REFUSAL,
    SIGNALED,
    TRAINED,
    alive,
    arrived,
)
from rltrain_devkit.kits.rules import Kit, environ, skip

_TIMEOUT = 150.0
"""Seconds for a process that launches."""

_MAIN = "from rltrain_devkit.kits.launcher_process import main; main()"


class LauncherConformance(Kit):
    """What every launcher must do that starts ranks on this machine.

    It launches ranks several times, from a process of its own, once per class.

    Example:
        ```python
        from rltrain_devkit import LauncherConformance

        class TestMyLauncher(LauncherConformance):
            launcher = "my_launcher"
        ```
    """

    launcher: str
    """The name under which the plugin declares it."""
    ranks: int = 2
    """Number of ranks to start, two or more."""
    options: Mapping[str, Any] = {}
    """Fields of `RunOptions` that it needs: a backend, say."""

    def test_every_rank_knows_its_place(self) -> None:
        """Every rank knows its place, by torchrun's variables, and all know one place to meet."""
        ranks = self._outcome("returns")["ranks"]
        assert sorted(map(int, ranks)) == list(range(self.ranks)), (
            f"{self.ranks} ranks were to start, and there were the ranks {sorted(ranks)}"
        )
        size = str(self.ranks)
        for rank, found in ranks.items():
            expected = {"RANK": rank, "LOCAL_RANK": rank}
            for name, value in {**expected, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}.items():
                is_set = found["variables"][name]
                assert is_set == value, f"on rank {rank}, {name} is {is_set}"
        names = ("MASTER_ADDR", "MASTER_PORT")
        meeting = {tuple(found["variables"][name] for name in names) for found in ranks.values()}
        assert len(meeting) == 1, f"MASTER_ADDR and MASTER_PORT differ: {sorted(meeting)}"
        backend = self.options.get("backend")
        if backend is None or discover().get(BackendSpec, backend).needs_master:
            ((host, port),) = meeting
            assert None not in (host, port), f"MASTER_ADDR, MASTER_PORT: {host}, {port}: set both"
            assert ranks["0"]["listens"], f"rank 0 cannot listen at {host}:{port}: give a free port"

    def test_rank_0s_result_is_returned(self) -> None:
        """What rank 0 returned is returned, once all ranks have ended."""
        outcome = self._outcome("returns")
        assert not outcome["error"], f"{outcome['error']}: {outcome['message']}"
        found = outcome["result"]
        assert found == ITERATIONS, f"it returned {found}, not rank 0's result, {ITERATIONS}"

    def test_a_rank_that_raises_ends_the_run(self) -> None:
        """A rank that raises ends the run, with its error: `rltrain.launch.failure` makes it."""
        outcome = self._outcome("raises")
        assert outcome["status"], "rank 1 raised a ValueError, and the launch ended with status 0"
        assert PLANTED in outcome["message"], (
            f"the error does not repeat rank 1's: {outcome['error']}: {outcome['message']}"
        )

    def test_a_rank_that_dies_ends_the_run(self) -> None:
        """A rank that dies without a report, killed for its memory, say, ends the run."""
        outcome = self._outcome("dies")
        assert outcome["status"], "rank 1 exited with code 3, and the launch ended with status 0"
        assert "ank 1" in outcome["message"], (
            f"the error does not say which rank has died: {outcome['message']}"
        )

    def test_what_a_rank_refuses_is_a_usage_error(self) -> None:
        """What a rank refuses is a UsageError, with the rank's own message, and status 2."""
        outcome = self._outcome("refuses")
        assert outcome["status"] == 2, f"the status is {outcome['status']}"
        assert outcome["message"] == REFUSAL, f"the message is {outcome['message']!r}"

    def test_no_rank_is_left(self) -> None:
        """When a launch ends, however it ends, none of its ranks is left."""
        for case in ("returns", "raises", "dies", "refuses"):
            left = self._outcome(case)["alive"]
            assert not left, f"where rank 1 {case}, the launch left rank {left[0]} running"

    def test_a_signal_ends_the_ranks(self) -> None:
        """SIGTERM to the launcher's process alone ends its ranks, and the status is not 0."""
        outcome = self._outcome("waits")
        assert outcome["status"], "the launcher ended with status 0 after SIGTERM"
        left = outcome["alive"]
        assert not left, f"rank {left[0]} still ran after its launcher had ended"

    def test_a_rank_that_hangs_is_named(self) -> None:
        """A rank that hangs is named, and ends the run."""
        outcome = self._outcome("hangs")
        assert "ank 1 hangs" in outcome["message"], (
            "rank 1 made no progress, with hang_timeout 4 s, and was not named: call now and then "
            f"what rltrain.launch.hang_watch returns. {outcome['message']}"
        )

    def test_sigterm_saves_a_checkpoint(self) -> None:
        """SIGTERM while ranks train ends them after their iteration, with a checkpoint."""
        outcome = self._outcome("saves")
        assert (outcome["status"], outcome["saved"]) == (75, True), (
            f"the status is {outcome['status']}, and should be 75, and saved: {outcome['saved']}. "
            "Call rltrain.launch.ask_to_end with a signal, and end the ranks only if it says False"
        )

    def _outcome(self, case: str) -> Mapping[str, Any]:
        spec = discover().get(LauncherSpec, self.launcher)
        if spec.starts_nodes:
            skip("starts_nodes: it starts rltrain by a scheduler, not ranks on this machine")
        if case in TRAINED and spec.frameworks:
            learn = {x for library in discover().all(LibrarySpec) for x in library.frameworks}
            if not learn & {*spec.frameworks}:
                skip(f"no installed library learns with {' or '.join(spec.frameworks)}")
        able = spec.frameworks or ("torch",)
        framework = "torch" if "torch" in able else able[0]
        options = {"nproc_per_node": self.ranks, "device": "cpu", "framework": framework}
        kit = f"{type(self).__module__}.{type(self).__qualname__}"
        outcome = _launched(kit, self.launcher, json.dumps({**options, **self.options}))[case]
        assert outcome["status"] is not None, f"it did not end: {outcome['message']}"
        return outcome


@functools.cache
def _launched(kit: str, launcher: str, options: str) -> Mapping[str, Mapping[str, Any]]:
    """Launch all cases, once per class; return what came of each."""
    with ThreadPoolExecutor(3) as pool:  # Ranks that learn at the same time slow each other down.
        outcomes = pool.map(functools.partial(_launch, launcher, options), CASES)
        return dict(zip(CASES, outcomes, strict=True))


def _launch(launcher: str, options: str, case: str) -> Mapping[str, Any]:
    with private_folder() as folder:
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, launcher, options, str(folder), case],
                env=environ(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline, status = time.monotonic() + _TIMEOUT, None
        try:
            if case in SIGNALED:
                ranks = int(json.loads(options)["nproc_per_node"])
                while process.poll() is None and len(arrived(folder)) < ranks:
                    assert time.monotonic() < deadline, "its ranks did not start"
                    time.sleep(0.05)
                process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(deadline - time.monotonic())
        finally:
            process.kill()  # Its ranks end with it.
            process.wait()
        printed = (folder / "output").read_text(errors="replace")[-4000:] or "(no output)"
        written = folder / OUTCOME
        return {
            "status": status,
            "alive": alive(folder),
            "ranks": arrived(folder),
            "error": "",
            "message": printed,
            "result": None,
            "saved": any(folder.glob("logs/**/checkpoints/*")),
            **(json.loads(written.read_text()) if written.exists() else {}),
        }
