"""Measures what rltrain adds to a step of the environments.

    python benchmarks/stepping.py
    python benchmarks/stepping.py --task envpool/Ant-v5 --num-envs 64 512

Each row steps a task with random actions in one thread. "own" is the step of the simulator's own
vector environment, with actions in its own format: what the suite cannot avoid. "suite" is the
step of the suite's environments, which convert actions and observations, and reset what has
finished; "counted" the same as a library sees it, with episodes counted and numbers checked. All
three step environments of their own, and take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from rltrain.metrics.environment import CountedEnv
from rltrain.testing import RankSession, RunPlugins, make_config
from rltrain.types import World
from rltrain_envpool.env import EnvPoolEnv
from rltrain_gymnasium.arrays import make_arrays
from rltrain_gymnasium.batched import make_batched
from rltrain_gymnasium.suite import make_converted
from rltrain_torch.arrays import TorchArrays

TASKS = (
    "rltrain/CartPoleContinuous-v1",
    "rltrain/Pendulum-v1",
    "CartPole-v1",
    "InvertedPendulum-v5",
    "envpool/CartPole-v1",
    "envpool/InvertedPendulum-v5",
)
TURN = 50
"""Steps of one way before the next one has its turn."""


class Ways(NamedTuple):
    """The steps of one task, each without arguments."""

    own: Callable[[], Any] | None
    suite: Callable[[], Any]
    counted: Callable[[], Any]


def make(task: str, num_envs: int) -> Any:
    """Make a suite's environments."""
    if task.startswith("envpool/"):
        arrays = {"torch": TorchArrays()}
        session = RankSession(make_config(), World(), RunPlugins(), arrays=arrays)
        return EnvPoolEnv(task, num_envs, {}, 1, session)
    if task.startswith("rltrain/"):
        return make_batched(num_envs, task, "torch")
    return make_converted(task, num_envs, {}, make_arrays("torch"))


def ways(task: str, num_envs: int) -> Ways:
    """Make environments for each way, and reset them."""
    suite, beneath = make(task, num_envs), make(task, num_envs)
    counted = CountedEnv(make(task, num_envs), 1, arrays=TorchArrays())
    for env in (suite, beneath, counted):
        env.reset(seed=1)
    drawn = suite.action_space.sample()
    actions = torch.as_tensor(drawn)
    own: Callable[[], Any] | None = None
    if task.startswith("envpool/"):
        own = partial(beneath._pool.step, beneath._actions.decode(drawn))
    elif not task.startswith("rltrain/"):
        own = partial(beneath._env.step, beneath._actions(actions))
    return Ways(own, partial(suite.step, actions), partial(counted.step, actions))


def measure(task: str, num_envs: int, rounds: int) -> list[list[float] | None]:
    """Return the microseconds a step of each way, a value a round."""
    steps = ways(task, num_envs)
    taken: list[list[float] | None] = [None if step is None else [] for step in steps]
    for round_ in range(rounds + 1):
        for step, times in zip(steps, taken, strict=True):
            if step is None or times is None:
                continue
            began = time.perf_counter()
            for _ in range(TURN):
                step()
            if round_:  # The first one warms up.
                times.append((time.perf_counter() - began) / TURN * 1e6)
    return taken


def main() -> None:
    """Print a row for each task and number of environments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="+", default=TASKS)
    parser.add_argument("--num-envs", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| task | environments | own (µs) | suite | counted | suite minus own | counting |")
    print(f"|{'---|' * 7}", flush=True)
    for task in given.task:
        for num_envs in given.num_envs:
            own, suite, counted = measure(task, num_envs, given.rounds)
            cells = [task, str(num_envs), *map(_cell, (own, suite, counted))]
            cells += [_difference(suite, own), _difference(counted, suite)]
            print(f"| {' | '.join(cells)} |", flush=True)


def _cell(times: list[float] | None) -> str:
    return "" if times is None else f"{statistics.median(times):,.0f}"


def _difference(more: list[float] | None, less: list[float] | None) -> str:
    if more is None or less is None:
        return ""
    return f"{statistics.median(x - y for x, y in zip(more, less, strict=True)):,.0f}"


if __name__ == "__main__":
    main()
