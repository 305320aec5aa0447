"""The conformance kit for backends, as tests to subclass."""

from __future__ import annotations

import functools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rltrain.launch import private_folder, rank_variables
from rltrain.plugins import discover
from rltrain.specs import BackendSpec, LibrarySpec
from rltrain.types import World
from rltrain.work import preflight
from rltrain_devkit.kits import backend_process
from rltrain_devkit.kits.arrays import missing
from rltrain_devkit.kits.rules import Kit, environ, skip

_TIMEOUT = 120
"""Seconds for all processes together."""

_Process = subprocess.Popen[bytes]


class BackendConformance(Kit):
    """What every backend must do, tested with real processes on this machine.

    The processes are started once per class: one world of `ranks` processes, and one of a single
    process.

    Example:
        ```python
        from rltrain_devkit import BackendConformance

        class TestMyBackend(BackendConformance):
            backend = "my_backend"
        ```
    """

    backend: str
    """The name under which the installed plugin declares it."""
    device: str | None = None
    """The kind of device to test on; by default the backend's own."""
    ranks: int = 2
    """Number of processes to start. With fewer devices, unless ranks share them, the tests are
    skipped."""
    devices: int | None = None
    """On how many of its devices; with fewer than ranks, these share them. None for all."""
    started_by: Sequence[str] = ()
    """The command that starts `{ranks}` processes, if the backend needs one: `("mpiexec", "-n",
    "{ranks}")`. They find their places as ranks of rltrain do."""
    seeds_generator: bool = True
    """Whether the framework has a global random generator, which `rltrain_seed` must seed. torch
    has one, jax has none."""
    trains: bool = True
    """Whether to train on it, too, which takes longer than all other tests together."""

    def test_each_rank_knows_its_place(self) -> None:
        """The group's rank, world size and device are the world's."""
        self._results("place")

    def test_all_reduce_combines_arrays(self) -> None:
        """all_reduce combines arrays of the framework and of numpy: sum, mean, min and max."""
        self._results("all_reduce")

    def test_collectives_keep_kind_dtype_and_shape(self) -> None:
        """Collectives return arrays of the framework, dtype and shape that they are given."""
        self._results("keep_form")

    def test_broadcast_gives_the_sources_array(self) -> None:
        """Broadcast gives every rank the source's array, whichever rank is the source."""
        self._results("broadcast")

    def test_broadcast_object_gives_the_sources_object(self) -> None:
        """broadcast_object gives every rank the source's object, whichever rank is the source."""
        self._results("broadcast_object")

    def test_gather_objects_is_in_the_order_of_ranks(self) -> None:
        """gather_objects gives all objects by rank: to every rank, or only to `dst`."""
        self._results("gather_objects")

    def test_what_is_not_data_is_refused(self) -> None:
        """An object that is not only data is refused with TypeError, before anything is sent."""
        self._results("refuse_objects")
        self._results("refuse_objects", alone=True)  # There, broadcast_object can be judged too.

    def test_no_rank_leaves_a_barrier_early(self) -> None:
        """No rank leaves a barrier before every rank has reached it."""
        self._results("barrier")

    def test_the_same_seed_draws_the_same_numbers(self) -> None:
        """rltrain_seed seeds the framework's generator: equal on all ranks for the same seed."""
        if not self.seeds_generator:
            skip(f"{self.backend} declares that it has no generator (seeds_generator = False)")
        samples = self._results("seed")
        assert all(x == samples[0] for x in samples), f"by rank, it samples {samples}"

    def test_a_wrapped_model_keeps_its_interface(self) -> None:
        """wrap_model returns an object with the model's interface, normally the model itself."""
        self._results("wrap_model")

    def test_a_wrapped_model_has_rank_0s_state(self) -> None:
        """wrap_model gives every rank rank 0's parameters and buffers, of any shape and dtype."""
        self._results("wrapped_state")

    def test_fingerprints_show_what_differs(self) -> None:
        """wrap_model gives session.watch fingerprints: different if any one parameter is.

        And equal for equal parameters, on every rank and at any time.
        """
        if self._spec().framework == "jax":
            skip(
                f"{self.backend}: jax's arrays never change, so a backend cannot watch them: the "
                "library's adapter watches the pytree after each step"
            )
        texts = {text for found in self._results("fingerprints") for text in found}
        assert len(texts) <= 1, (
            f"the same parameters have these fingerprints: {sorted(texts)}. Python's `hash`, for "
            "example, differs between processes"
        )

    def test_close_may_be_called_twice(self) -> None:
        """The group may be closed twice, as a run that fails does."""
        self._results("close")

    def test_a_world_of_one_rank_works(self) -> None:
        """A world of one rank keeps the same rules."""
        if self._broken:
            skip("several ranks break a rule already")
        not_judged = set() if self.seeds_generator else {"seed"}
        not_judged |= {"fingerprints"} if self._spec().framework == "jax" else set()
        for check in backend_process.CHECKS:
            if check not in not_judged:
                self._results(check, alone=True)

    def test_its_ranks_train(self) -> None:
        """Its ranks train, with the launcher and gradient sync that its runs take by default."""
        spec = self._spec()
        lacking = self._lacking()
        if lacking or not self.trains or self.devices is not None:
            skip(f"{self.backend}: {lacking or 'trains = False'}")
        libraries = discover().all(LibrarySpec)
        names = [each.name for each in libraries if spec.framework in each.frameworks]
        if not names:
            skip(f"{self.backend}: no installed library learns with {spec.framework}")
        words = [
            *("--distributed", "--backend", self.backend, "--framework", spec.framework),
            *("--library", names[0], *(("--device", self.device) if self.device else ())),
            *("--nproc-per-node", str(self.ranks), "--max-iterations", "1", "--num-envs", "8"),
        ]
        with private_folder() as folder:
            program = [sys.executable, "-m", "rltrain", *words, "--log-root", str(folder / "logs")]
            process = _start(program, folder / "output", environ())
            _wait_for([process])
            how = _how_it_ended(process, folder / "output")
        assert process.returncode == 0, f"rltrain {' '.join(words)}: {how}"

    def _results(self, check: str, alone: bool = False) -> list[Any]:
        """Return by rank what a check in the ranks' processes returned; fail where it failed."""
        if lacking := self._lacking():
            skip(f"{self.backend}: {lacking}")
        world = self._worlds()[alone]
        if check != "place" and any("error" in rank.get("place", {}) for rank in world):
            skip("there is no group, which another test reports")
        failures = [
            f"on rank {number} of {len(world)}: {outcome['error']}"
            for number, rank in enumerate(world)
            if "error" in (outcome := rank.get(check, {"error": f"not reached. {rank['end']}"}))
        ]
        assert not failures, "\n".join(failures)
        return [rank[check]["result"] for rank in world]

    def _lacking(self) -> str | None:
        """Return what this machine lacks for its ranks."""
        spec, devices = self._spec(), self._devices()
        kind = spec.kind_of_device(self.device)
        shared = kind != spec.device or self.devices is not None
        needed = 0 if kind == "cpu" else 1 if shared else self.ranks
        if devices < needed:
            return f"{self.ranks} ranks need {needed} GPU(s), but {devices} are visible"
        return missing(spec.framework)

    @classmethod
    def _spec(cls) -> BackendSpec:
        return discover().get(BackendSpec, cls.backend)

    @classmethod
    @functools.cache
    def _devices(cls) -> int:
        """Return the number of devices of the kind to test on; 0 for the CPU."""
        spec = cls._spec()
        count = spec.count_devices if spec.kind_of_device(cls.device) != "cpu" else None
        found = int(preflight(count, in_child=True)) if count else 0
        return found if cls.devices is None else min(found, cls.devices)

    @classmethod
    @functools.cache
    def _worlds(cls) -> list[list[dict[str, Any]]]:
        """Return each rank's outcomes by check, of `ranks` processes, and of a world of one."""
        with private_folder() as scratch:
            worlds = [(scratch / str(size), size) for size in (cls.ranks, 1)]
            started = [cls._started(*world) for world in worlds]
            _wait_for([process for world in started for process in world])
            return [
                [_outcomes(folder, rank, ranks[min(rank, len(ranks) - 1)]) for rank in range(size)]
                for (folder, size), ranks in zip(worlds, started, strict=True)
            ]

    @classmethod
    def _started(cls, folder: Path, size: int) -> list[_Process]:
        """Start the ranks of one world: each by a launcher's variables, or all by a command."""
        folder.mkdir()
        words = [sys.executable, "-m", backend_process.__name__, cls.backend, cls.device or ""]
        words += [str(cls._devices()), str(folder)]
        if cls.started_by:
            command = [word.format(ranks=size) for word in cls.started_by]
            return [_start([*command, *words], folder / "output.0", environ())]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        # With the same hash seed in all processes, fingerprints made with `hash` would seem right.
        usual = {name: value for name, value in environ().items() if name != "PYTHONHASHSEED"}
        usual |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        places = [World(rank, rank, 0, size, size) for rank in range(size)]
        return [
            _start(words, folder / f"output.{place.rank}", {**usual, **rank_variables(place)})
            for place in places
        ]


def _start(words: Sequence[str], output: Path, variables: Mapping[str, str]) -> _Process:
    with output.open("wb") as file:
        return subprocess.Popen(words, env=variables, stdout=file, stderr=file)


def _wait_for(processes: Sequence[_Process]) -> None:
    """Wait until processes have ended; kill those that do not in time."""
    deadline = time.monotonic() + _TIMEOUT
    try:
        for process in processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _how_it_ended(process: _Process, output: Path) -> str:
    killed, printed = process.returncode == -9, output.read_text(errors="replace")[-4000:]
    how = "killed, as it did not end in time" if killed else f"ended with {process.returncode}"
    return f"{how}. The end of its output:\n{printed or '(nothing)'}"


def _outcomes(folder: Path, rank: int, process: _Process) -> dict[str, Any]:
    found = folder.glob(f"*/outcome.{rank}")
    output = folder / f"output.{rank}"
    end = _how_it_ended(process, output if output.exists() else folder / "output.0")
    return {"end": end, **{path.parent.name: json.loads(path.read_text()) for path in found}}
