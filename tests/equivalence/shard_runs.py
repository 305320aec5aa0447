"""The two runs that a claim compares: N ranks, and one rank with all their environments."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from claim import Claim
from watcher import Watcher

from rltrain import hookimpl
from rltrain.plan.resolve import make_plan
from rltrain.ranks.world import hide_rank_variables
from rltrain.run.worker import make_session
from rltrain.seeding import SeedPlan
from rltrain.testing import FakeWorld
from rltrain_devkit.as_one.rounding import AllInFloat64, OffByRounding, in_float64
from rltrain_devkit.as_one.united import Rows, UnitedEnv, VirtualRanks
from rltrain_gymnasium.batched import make_batched

RANK_LOCAL = {"skrl": ["skrl:config.torch"]}
"""What a library has once in a process, and each fake rank must have of its own."""


class Environments:
    def __init__(self, claim: Claim, wrap: Callable[[Any], Any] = lambda env: env) -> None:
        self._claim, self._wrap = claim, wrap

    @hookimpl(tryfirst=True)
    def rltrain_make_env(self, session: Any) -> Any:
        make_env = self._claim.make_env
        return make_env and self._wrap(make_env(session.config.num_envs))


class Whole:
    """An observer that gives one rank the environments and the random numbers of several."""

    def __init__(self, claim: Claim, ranks: int) -> None:
        blocks = claim.mini_batches if claim.cut == "environments" else 1
        self._claim, self._rows = claim, Rows(ranks, claim.num_envs, blocks)
        self._noise = VirtualRanks(self._rows, self._chunk)
        self._seeds: list[SeedPlan] = []

    def _chunk(self, rows: int) -> int:
        return self._claim.batch_size or rows // self._claim.mini_batches

    def _rank_env(self, device: str) -> Any:
        claim = self._claim
        if claim.make_env is not None:
            return claim.make_env(claim.num_envs)
        return make_batched(claim.num_envs, claim.task, "torch", device, **claim.env)

    @hookimpl(tryfirst=True)
    def rltrain_make_env(self, session: Any) -> UnitedEnv:
        ranks = range(self._rows.ranks)
        self._seeds = [SeedPlan(session.config.seed, rank) for rank in ranks]
        seeds = [plan.environment for plan in self._seeds]
        self._device = session.world.device
        return UnitedEnv([self._rank_env(self._device) for _ in ranks], self._rows, seeds)

    @hookimpl(wrapper=True)
    def rltrain_seed(self, stream: str) -> Any:
        result = yield
        if stream == "learner":
            self._noise.begin([plan.learner for plan in self._seeds], self._device)
        return result

    @hookimpl(wrapper=True)
    def rltrain_train(self) -> Any:
        with self._noise:
            return (yield)


def prepared(claim: Claim, folder: Any) -> Claim:
    if claim.teacher is None:
        return claim
    teacher = claim.teacher
    observers = [lambda: Environments(teacher)]
    (taught,) = FakeWorld(1).train(observers=observers, **options(teacher, 1, folder))
    return dataclasses.replace(claim, checkpoint=taught.result.checkpoint)


def split_run(claim: Claim, ranks: int, folder: Any, *more: Callable[[], object]) -> list[Watcher]:
    """Train on the ranks of a fake world; return the learned state by rank."""
    world = FakeWorld(ranks, rank_local=RANK_LOCAL.get(claim.library, ()))
    observers = [Watcher, lambda: Environments(claim), *more]
    runs = world.train(observers=observers, **options(claim, 1, folder))
    return [run.observers[0] for run in runs]


def whole_run(claim: Claim, ranks: int, folder: Any, device: str = "cpu", *more: object) -> Watcher:
    """Train on one rank, not distributed, with the environments and the noise of several."""
    watcher = Watcher()

    def train(_: Any) -> None:
        hide_rank_variables(os.environ)
        plan = make_plan({**options(claim, ranks, folder), "device": device, "writers": ()})
        whole = Whole(claim, ranks)
        observers = [("watcher", watcher), ("whole", whole)]
        observers += [(f"observer {number}", x) for number, x in enumerate(more)]
        make_session(plan.config, plan.world, plan.registry, observers).run()

    # Not for its group, but because it restores what a training changes in the process.
    FakeWorld(1, rank_local=RANK_LOCAL.get(claim.library, ())).run(train)
    return watcher


@dataclasses.dataclass(frozen=True)
class Again:
    """Runs of a claim that tell rounding from faults."""

    claim: Claim
    ranks: int
    folder: Any
    device: str = "cpu"
    """Of the one rank."""
    observers: tuple[Callable[[], object], ...] = ()
    """On every rank, as in the run that is judged."""

    def control(self, seed: int) -> Watcher:
        noise = OffByRounding(1e-7, seed)
        return whole_run(self.claim, self.ranks, self.folder, self.device, noise)

    def in_float64(self) -> tuple[list[Watcher], Watcher]:
        with in_float64():
            split = split_run(self.claim, self.ranks, self.folder, AllInFloat64, *self.observers)
            return split, whole_run(self.claim, self.ranks, self.folder, "cpu", AllInFloat64())


def options(claim: Claim, times: int, folder: Any) -> dict[str, Any]:
    """Return the fields of `RunConfig`, with scaled options multiplied by `times`."""
    agent = dict(claim.agent)
    agent.update({name: agent[name] * times for name in claim.scaled})
    names = ("library", "algorithm", "task", "max_iterations", "checkpoint", "on_nonfinite")
    return {
        **{name: getattr(claim, name) for name in names},
        "env": dict(claim.env),
        "num_envs": claim.num_envs * times,
        "agent": agent,
        "log_root": str(folder),
        "grad_sync": claim.grad_sync if times == 1 else None,
    }
