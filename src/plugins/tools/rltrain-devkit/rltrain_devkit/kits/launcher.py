"""The conformance kit for launchers, as tests to subclass."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltrain.launch import private_folder
from rltrain.plugins import discover
from rltrain.specs import BackendSpec, LauncherSpec, LibrarySpec
from rltrain_devkit.kits.given import GivenPlugins
from rltrain_devkit.kits.launcher_process import ITERATIONS, OUTCOME, PLANTED, REFUSAL, alive
from rltrain_devkit.kits.rules import must, skip

_TIMEOUT = 150.0
"""Seconds for a process that launches."""

_MAIN = "from rltrain_devkit.kits.launcher_process import main; main()"

_OF_RANKS = ("returns", "raises", "dies", "refuses")


@dataclass(frozen=True)
class _Found:
    """What came of a launch."""

    outcome: Mapping[str, Any]
    ranks: Mapping[int, Mapping[str, Any]]


class LauncherConformance(GivenPlugins):
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

    @must("Every rank knows its place, and all know the same place to meet.")
    def test_every_rank_knows_its_place(self) -> None:
        """By torchrun's variables."""
        ranks = self._of_ranks("returns").ranks
        assert sorted(ranks) == list(range(self.ranks)), (
            f"{self.ranks} ranks were to start, and there were the ranks {sorted(ranks)}"
        )
        meeting: dict[int, tuple[str | None, str | None]] = {}
        for rank, found in ranks.items():
            variables, size = found["variables"], str(self.ranks)
            expected = {"LOCAL_RANK": str(rank), "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
            for name, value in {"RANK": str(rank), **expected}.items():
                assert variables[name] == value, f"on rank {rank}, {name} is {variables[name]}"
            meeting[rank] = variables["MASTER_ADDR"], variables["MASTER_PORT"]
        assert len(set(meeting.values())) == 1, f"MASTER_ADDR and MASTER_PORT differ: {meeting}"
        if not self._needs_master():
            return
        host, port = meeting[0]
        assert None not in (host, port), f"MASTER_ADDR is {host}, MASTER_PORT is {port}: set both"
        assert ranks[0]["listens"], f"rank 0 cannot listen at {host}:{port}: give a free port"

    @must("What rank 0 returned is returned, once all ranks have ended.")
    def test_rank_0s_result_is_returned(self) -> None:
        """And no other rank's."""
        outcome = self._of_ranks("returns").outcome
        assert not outcome.get("error"), f"{outcome['error']}: {outcome['message']}"
        assert outcome["result"] == ITERATIONS, (
            f"it returned {outcome['result']} in place of rank 0's result, {ITERATIONS}"
        )

    @must("A rank that raises ends the run, and the error is that rank's report.")
    def test_a_rank_that_raises_ends_the_run(self) -> None:
        """`rltrain.launch.failure` makes that error."""
        outcome = self._of_ranks("raises").outcome
        assert outcome["status"], "rank 1 raised a ValueError, and the launch ended with status 0"
        assert PLANTED in outcome["message"], (
            f"the error does not repeat rank 1's: {outcome['error']}: {outcome['message']}"
        )

    @must("A rank that dies without a word ends the run.")
    def test_a_rank_that_dies_ends_the_run(self) -> None:
        """Killed for its memory, say: it writes no report."""
        outcome = self._of_ranks("dies").outcome
        assert outcome["status"], "rank 1 exited with code 3, and the launch ended with status 0"
        assert "ank 1" in outcome["message"], (
            f"the error does not say which rank has died: {outcome['message']}"
        )

    @must("What a rank refuses is a UsageError, with the rank's own message.")
    def test_what_a_rank_refuses_is_a_usage_error(self) -> None:
        """The user reads it without a traceback, and the status is 2."""
        outcome = self._of_ranks("refuses").outcome
        assert outcome["status"] == 2, f"the status is {outcome['status']}"
        assert outcome["message"] == REFUSAL, f"the message is {outcome['message']!r}"

    @must("When a launch ends, however it ends, none of its ranks is left.")
    def test_no_rank_is_left(self) -> None:
        """A rank that waits for a peer that is gone would wait for long."""
        for case in _OF_RANKS:
            left = self._of_ranks(case).outcome["alive"]
            assert not left, f"where rank 1 {case}, the launch left rank {left[0]} running"

    @must("A signal that ends the launcher ends its ranks, and the status is not 0.")
    def test_a_signal_ends_the_ranks(self) -> None:
        """SIGTERM, as schedulers send it, to the launcher's process alone."""
        outcome = self._launched()["waits"].outcome
        assert outcome["status"] is not None, "the launcher did not end after SIGTERM"
        assert outcome["status"], "the launcher ended with status 0 after SIGTERM"
        left = outcome["alive"]
        assert not left, f"rank {left[0]} still ran after its launcher had ended"

    @must("A rank that hangs is named, and ends the run.")
    def test_a_rank_that_hangs_is_named(self) -> None:
        """`rltrain.watch.hang_watch` does it."""
        outcome = self._trained("hangs")
        assert "ank 1 hangs" in outcome.get("message", ""), (
            f"rank 1 made no progress for {_TIMEOUT / 4:.0f} s, with hang_timeout 4 s, and was not "
            f"named: call now and then what rltrain.watch.hang_watch returns. {outcome}"
        )

    @must("SIGTERM while ranks train ends them after their iteration, with a checkpoint.")
    def test_sigterm_saves_a_checkpoint(self) -> None:
        """`rltrain.launch.ask_to_end` passes it on."""
        outcome = self._trained("saves")
        assert (outcome["status"], outcome["saved"]) == (75, True), (
            f"the status is {outcome['status']}, and should be 75, and saved: {outcome['saved']}. "
            "Call rltrain.launch.ask_to_end with a signal, and end the ranks only if it says False"
        )

    def _trained(self, case: str) -> Mapping[str, Any]:
        found = self._launched()
        frameworks = discover().get(LauncherSpec, self.launcher).frameworks
        libraries = discover().all(LibrarySpec)
        if frameworks and not any({*frameworks} & {*each.frameworks} for each in libraries):
            skip(f"no installed library learns with {' or '.join(frameworks)}")
        return found[case].outcome

    def _needs_master(self) -> bool:
        backend = self.options.get("backend")
        return backend is None or discover().get(BackendSpec, backend).needs_master

    def _of_ranks(self, case: str) -> _Found:
        found = self._launched()[case]
        assert found.outcome.get("status") is not None, (
            f"the launcher ended before this, or did not return: {found.outcome['end']}"
        )
        return found

    def _launched(self) -> Mapping[str, _Found]:
        spec = discover().get(LauncherSpec, self.launcher)
        if spec.starts_nodes:
            skip("starts_nodes: it starts rltrain by a scheduler, not ranks on this machine")
        able = spec.frameworks or ("torch",)
        framework = "torch" if "torch" in able else able[0]
        options = {"nproc_per_node": self.ranks, "device": "cpu", "framework": framework}
        kit = f"{type(self).__module__}.{type(self).__qualname__}"
        return _launched(kit, self.launcher, json.dumps({**options, **self.options}))


@functools.lru_cache
def _launched(kit: str, launcher: str, options: str) -> Mapping[str, _Found]:
    """Launch all cases, once per class."""
    with (
        private_folder() as folder,
        _process(launcher, options, folder, *_OF_RANKS) as first,
        _process(launcher, options, folder, "hangs") as hanging,
    ):
        with _process(launcher, options, folder, "waits") as waiting:
            status = _asked_to_end(waiting, folder / "waits")
            gone = {"status": status, "alive": alive(folder / "waits")}
        with _process(launcher, options, folder, "saves") as saving:
            saved = {"status": _asked_to_end(saving, folder / "saves")}
            saved["saved"] = any((folder / "saves").glob("logs/**/checkpoints/*"))
        _wait_for(lambda: hanging.poll() is not None or _all_there(folder / "hangs"))
        with contextlib.suppress(subprocess.TimeoutExpired):
            hanging.wait(_TIMEOUT / 4)
        hung = _outcome(folder / "hangs", "it did not end")
        _wait_for(lambda: first.poll() is not None or (folder / _OF_RANKS[-1] / OUTCOME).exists())
        end = (folder / "returns.output").read_text(errors="replace")[-4000:]
        ended = {case: _outcome(folder / case, end) for case in _OF_RANKS}
        return {
            case: _Found(outcome, _ranks(folder / case))
            for case, outcome in {**ended, "waits": gone, "hangs": hung, "saves": saved}.items()
        }


@contextlib.contextmanager
def _process(
    launcher: str, options: str, folder: Path, *cases: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that launches these cases in turn; end it, if it has not ended."""
    with (folder / f"{cases[0]}.output").open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, launcher, options, str(folder), *cases],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()  # Its ranks end with it.
        process.wait()


def _asked_to_end(process: subprocess.Popen[bytes], folder: Path) -> int | None:
    """Send SIGTERM once all ranks are there, and return the status; None if it does not end."""
    _wait_for(lambda: process.poll() is not None or _all_there(folder))
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_TIMEOUT / 4)
    return None


def _wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not done() and time.monotonic() < deadline:
        time.sleep(0.05)


def _all_there(folder: Path) -> bool:
    found = _ranks(folder)
    return bool(found) and len(found) == int(found[min(found)]["variables"]["WORLD_SIZE"] or 0)


def _outcome(folder: Path, end: str) -> dict[str, Any]:
    path = folder / OUTCOME
    return json.loads(path.read_text()) if path.exists() else {"end": end or "(no output)"}


def _ranks(folder: Path) -> dict[int, Any]:
    return {int(path.stem): json.loads(path.read_text()) for path in folder.glob("[0-9]*.rank")}
