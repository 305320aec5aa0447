"""The observer `profile`: torch's or jax's own profiler, on each rank, for three iterations."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.launch import say
from rltrain.session import Session

FIRST, COUNT = 2, 3
"""Iterations before the profile, in which libraries compile and load, and iterations in it."""

ENVIRONMENTS = "step of the environments"
"""The name of a step in the profile."""


class Profiler:
    """Profiles one rank."""

    def __init__(self) -> None:
        self._begin: int | None = None
        self._running = contextlib.ExitStack()
        self._mark: Any = contextlib.nullcontext

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session: Session) -> Generator[None, Any, Any]:
        """Begin and end with a step of the environments, and mark the steps."""
        env = yield
        step = env.step

        def profiled(actions: Any) -> Any:
            self._follow(session)
            with self._mark(ENVIRONMENTS):
                return step(actions)

        env.step = profiled
        return env

    def _follow(self, session: Session) -> None:
        if self._begin is None:  # A resumed run has done some.
            self._begin = session.iteration + FIRST
        if session.iteration >= self._begin + COUNT:
            self._mark = contextlib.nullcontext
            self._running.close()
        elif session.iteration >= self._begin and self._mark is contextlib.nullcontext:
            path = session.run_folder.path / f"profile/rank{session.world.rank}"
            if session.world.is_root:
                text = f"profile: {path.parent}, whose files open at https://ui.perfetto.dev"
                self._running.callback(say, text)
            self._running.enter_context(_profile(session.framework, path))
            self._mark = _mark(session.framework)

    @hookimpl
    def rltrain_shutdown(self) -> None:
        """End the profile of a run that ends before."""
        self._running.close()


def _mark(framework: str) -> Any:
    if framework == "jax":
        from jax.profiler import TraceAnnotation

        return TraceAnnotation
    from torch.profiler import record_function

    return record_function


@contextlib.contextmanager
def _profile(framework: str, path: Path) -> Iterator[None]:
    """Write a profile of what is done inside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if framework == "jax":
        import jax

        with jax.profiler.trace(path):
            yield
    else:
        from torch.profiler import profile

        with profile() as profiled:
            yield
        profiled.export_chrome_trace(f"{path}.json.gz")
