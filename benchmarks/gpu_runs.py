"""What happens in the processes of `gpu.py`: one trains, and says what it took."""

from __future__ import annotations

import itertools
import os
import resource
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from benchmarks.alone import TASK, train, waits

from rltrain import hookimpl

__all__ = ["Run", "cost", "counted", "reached", "timed"]

LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "hipLaunchKernel")
"""Prefixes of events that launch kernels, such as cudaLaunchKernelExC and cuLaunchKernelEx."""

COST_STEPS = 300
"""Steps in which the cost of a part is measured."""


class Run(NamedTuple):
    """The settings of a run, for each of its processes."""

    library: str
    device: str
    num_envs: int
    iterations: int
    task: str = TASK
    compiled: bool = False
    """Whether rl_games compiles its network, which takes a minute in every process."""


def timed(how: str, run: Run, folder: str) -> dict[str, Any]:
    """Return the time of each iteration in s, and the memory in MB."""
    times: list[float] = []

    def lap() -> None:
        _wait(run)
        times.append(time.perf_counter())

    return _error_of(lambda: _train(how, run, folder, lap)) or {
        "times": [after - before for before, after in itertools.pairwise(times)],
        "memory": _memory(run) / 1e6,
    }


def counted(how: str, run: Run, folder: str) -> dict[str, Any]:
    """Return the waits and launches of the last complete iteration."""
    with waits(run.device) as found:
        failed = _error_of(lambda: _train(how, run, folder, found.lap))
    if failed:
        return failed
    launches: list[int] = []
    if run.device != "cpu":
        failed = _error_of(lambda: launches.append(_launches(how, run, folder)))
    return failed or {
        "waits": sum(found.iteration.values()),
        "launches": launches[0] if launches else None,
    }


def reached(how: str, run: Run, target: float, folder: str) -> dict[str, Any]:
    """Return after how many seconds and iterations the mean return of episodes is the target."""
    returns = _Returns(run, target)
    failed = _error_of(lambda: _train(how, run, folder, returns.lap, returns.seen))
    return failed or {"seconds": returns.seconds, "after": returns.iterations}


def cost(how: str, run: Run, folder: str) -> dict[str, Any]:
    """Return the microseconds that parts of rltrain take in each step of the environments."""
    parts = _Parts(run)
    failed = _error_of(lambda: _train(how, run, folder, lambda: None, more=[("parts", parts)]))
    return failed or parts.found


def _train(
    how: str,
    run: Run,
    folder: str,
    lap: Callable[[], None],
    seen: Callable[[Any], Any] | None = None,
    more: Any = (),
) -> None:
    device = f"{run.device}:0" if how == "native" and run.device != "cpu" else run.device
    # The time of an iteration must not include saving checkpoints.
    agent: dict[str, Any] = {}
    if run.library == "skrl":
        agent = {"agent.experiment": {"checkpoint_interval": 0}}
    if run.library == "rl_games" and not run.compiled:
        agent = {"params.config.torch_compile": False}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        if os.environ.get("WORLD_SIZE") == "1":  # The port before may still be in use.
            os.environ["MASTER_PORT"] = str(free.getsockname()[1])
    where = (run.num_envs, run.iterations, folder, lap, agent)
    train(how, run.library, device, *where, more=more, task=run.task, seen=seen)


def _launches(how: str, run: Run, folder: str) -> int:
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    profile, laps = torch.profiler.profile(activities=activities), [0]

    def lap() -> None:
        laps[0] += 1
        if laps[0] == run.iterations - 1:
            profile.start()
        elif laps[0] == run.iterations:
            _wait(run)
            profile.stop()

    _train(how, run, folder, lap)
    return sum(event.name.startswith(LAUNCHES) for event in profile.events() or ())


class _Returns:
    """The mean return of the episodes that ended in an iteration, read once an iteration."""

    def __init__(self, run: Run, target: float) -> None:
        self._run, self._target = run, target
        self._own: Any = 0.0
        self._sums: Any = torch.zeros(2)
        self._began: float | None = None
        self.seconds: float | None = None
        self.iterations = 0

    def seen(self, stepped: Any) -> Any:
        _, rewards, terminations, truncations, _ = stepped
        ended = (terminations | truncations).to(rewards.dtype)
        self._own = self._own + rewards
        sums = torch.stack([(self._own * ended).sum(), ended.sum()])
        self._sums = self._sums.to(sums.device) + sums
        self._own = self._own * (1 - ended)
        return stepped

    def lap(self) -> None:
        total, number = self._sums.tolist()
        self._sums = torch.zeros(2)
        if self._began is None:
            self._began = time.perf_counter()
        elif self.seconds is None:
            self.iterations += 1
            if number and total / number >= self._target:
                self.seconds = time.perf_counter() - self._began


class _Parts:
    """Times what the environments' wrapper adds to a step, when the run ends."""

    def __init__(self, run: Run) -> None:
        self._run, self.found = run, dict[str, Any]()

    @hookimpl(wrapper=True)
    def rltrain_train(self, session: Any) -> Iterator[None]:
        result = yield
        env = session.env
        rewards = torch.zeros(env.num_envs, device=session.world.device)
        ended = torch.zeros(env.num_envs, dtype=torch.bool, device=session.world.device)
        observations = env._observations

        def pulse() -> None:
            with env._during("stepping the environment"):
                pass

        parts = {
            "counting": lambda: env.episodes.step(rewards, ended, ended, None),
            "NaN checks": lambda: env.numbers.step(observations, rewards),
            "pulses": pulse,
        }
        for name, part in parts.items():
            part()
            _wait(self._run)
            began = time.perf_counter()
            for _ in range(COST_STEPS):
                part()
            _wait(self._run)
            self.found[name] = 1e6 * (time.perf_counter() - began) / COST_STEPS
        return result


def _wait(run: Run) -> None:
    if run.device != "cpu":
        torch.cuda.synchronize()


def _memory(run: Run) -> float:
    """Return the most bytes that this process has had: on the GPU, or on the CPU in all."""
    if run.device != "cpu":
        return float(torch.cuda.max_memory_reserved())
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _error_of(work: Callable[[], None]) -> dict[str, Any]:
    try:
        work()
    except Exception:
        return {"error": traceback.format_exc()}
    return {}
