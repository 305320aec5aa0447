"""The observer `profile`: what each rank did in the first iterations, and when.

`profile.json` in the run folder is in the Trace Event Format, which Perfetto
(https://ui.perfetto.dev) and Chrome's `about:tracing` open: a process for each rank, with a slice
for each iteration, and in it one for each step of the environments and each collective. Times are
in microseconds.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.launch import say, whole
from rltrain.session import Session
from rltrain.types import ProcessGroup

PROFILE = "profile.json"
"""The file's name."""

ITERATIONS = 12
"""How many are timed: the first two, in which libraries compile and load, and ten more."""

Span = tuple[str, str, int, int]
"""What a rank did: its kind, its name, when it began and how long it took, from the start on."""


class Profiler:
    """Times one rank."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._spans: list[Span] = []

    @hookimpl(wrapper=True)
    def rltrain_init_distributed(self) -> Generator[None, ProcessGroup, ProcessGroup]:
        """Time the collectives of this rank."""
        return _TimedGroup((yield), self)

    @hookimpl(wrapper=True)
    def rltrain_make_env(self) -> Generator[None, Any, Any]:
        """Time the steps of this rank's environments."""
        env = yield
        step = env.step
        env.step = lambda actions: self.timed("phase", "stepping the environment", step, actions)
        return env

    @hookimpl(wrapper=True)
    def rltrain_train(self, session: Session) -> Generator[None, Any, Any]:
        """Time the first iterations. Collective.

        Clocks of several machines differ: each begins at 0 when its first rank leaves a barrier.
        """
        session.group.barrier()
        self._session = session
        self._origin = self._lap = time.perf_counter()
        self._done = session.iteration
        self._last = self._done + ITERATIONS
        result = yield
        self._end_iteration()
        self._finish()
        return result

    def timed(self, kind: str, name: str, call: Callable[..., Any], *given: Any) -> Any:
        """Return what a call returns, and keep how long it took."""
        if self._session is None:
            return call(*given)
        self._end_iteration()
        if kind == "phase" and self._done >= self._last:  # In a step, all ranks are as far.
            self._finish()
        began = time.perf_counter()
        result = call(*given)
        self._keep(kind, name, began)
        return result

    def _keep(self, kind: str, name: str, began: float) -> None:
        start, took = began - self._origin, time.perf_counter() - began
        self._spans.append((kind, name, round(start * 1e6), round(took * 1e6)))

    def _end_iteration(self) -> None:
        if self._session is not None and self._session.iteration > self._done:
            self._done = self._session.iteration
            if self._done <= self._last:
                self._keep("iteration", f"iteration {self._done}", self._lap)
            self._lap = time.perf_counter()

    def _finish(self) -> None:
        """Write the file on rank 0, and time no more. Collective."""
        if (session := self._session) is None:
            return
        self._session = None
        mine = socket.gethostname(), self._origin, self._spans
        ranks = session.group.gather_objects(mine, dst=0)
        if session.world.is_root:
            text = json.dumps(_trace(ranks), separators=(",", ":"))
            path = session.run_folder.path / PROFILE
            with whole(path) as partial:
                partial.write_text(text)
            say(f"profile: {path} opens at https://ui.perfetto.dev; `rltrain report` sums it up")


class _TimedGroup:
    """A process group whose collectives are timed."""

    def __init__(self, group: ProcessGroup, profiler: Profiler) -> None:
        self._group, self._timed = group, profiler.timed

    def __getattr__(self, name: str) -> Any:
        if name == "_group":  # A copy does not have it yet.
            raise AttributeError(name)
        return getattr(self._group, name)

    def all_reduce(self, x: Any, op: Any = "sum") -> Any:
        name = f"all_reduce({op}) {list(x.shape)}"
        return self._timed("collective", name, self._group.all_reduce, x, op)

    def broadcast(self, x: Any, src: int = 0) -> Any:
        name = f"broadcast {list(x.shape)}"
        return self._timed("collective", name, self._group.broadcast, x, src)

    def broadcast_object(self, obj: Any, src: int = 0) -> Any:
        return self._timed("collective", "broadcast_object", self._group.broadcast_object, obj, src)

    def gather_objects(self, obj: Any, dst: int | None = None) -> Any:
        return self._timed("collective", "gather_objects", self._group.gather_objects, obj, dst)

    def barrier(self) -> None:
        self._timed("collective", "barrier", self._group.barrier)


def _trace(ranks: Sequence[tuple[str, float, Sequence[Span]]]) -> dict[str, Any]:
    """Return the file's content, of each rank's machine, its clock at the start, and its times."""
    events: list[dict[str, Any]] = []
    for rank, (place, began, spans) in enumerate(ranks):
        first = min(other for there, other, _ in ranks if there == place)
        later = round((began - first) * 1e6)
        events.append(
            {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}"}}
        )
        for kind, name, begin, took in spans:
            event = {"ph": "X", "cat": kind, "name": name, "pid": rank, "tid": 0}
            events.append(event | {"ts": later + begin, "dur": took})
    return {"traceEvents": events, "displayTimeUnit": "ms"}
