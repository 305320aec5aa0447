"""The two trainings that are compared: on several ranks, and on one with all their environments.

Both compute in float64: what differs then is no rounding.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from rltrain import hookimpl
from rltrain.commands import make_plan
from rltrain.config import RunConfig
from rltrain.launch import hide_rank_variables
from rltrain.plugins import discover
from rltrain.records import Record, Scalars
from rltrain.seeding import SeedPlan
from rltrain.specs import SuiteSpec
from rltrain.testing import FakeWorld, RankSession, RunPlugins, make_session
from rltrain.types import Iteration, Stream
from rltrain_devkit.as_one.alike import beyond, differences
from rltrain_devkit.as_one.rounding import AllInFloat64, in_float64
from rltrain_devkit.as_one.united import Rows, UnitedEnv, VirtualRanks

ITERATIONS = 2
"""The second one learns from what the first has learned."""

_RANKS = 2

_TOLERANCE = 1e-6
"""Of computations in float64, as a share of a tensor's scale. Numbers that a library carries in
float32 outside of torch are the same on both sides."""

_SEED = 42


def apart_from_one(
    options: Mapping[str, Any], scaled: Sequence[str], rank_local: Sequence[str]
) -> dict[str, float]:
    """Return what two ranks and one rank with the environments of both have learned differently.

    That is, for each tensor that differs by more than rounding, by what share of its scale.
    `options` are fields of `RunOptions`; of `scaled`, the agent's options, the one rank has twice.
    """
    same = {**options, "seed": _SEED, "max_iterations": ITERATIONS, "device": "cpu"}
    agent = dict(options["agent"])
    for name in scaled:
        agent[name] *= _RANKS
    of_all_ranks = {**same, "agent": agent, "num_envs": options["num_envs"] * _RANKS}
    with in_float64():
        runs = FakeWorld(_RANKS, rank_local=rank_local).train(
            observers=[_Learned, AllInFloat64], **same
        )
        split: _Learned = runs[0].observers[0]
        whole = _on_one_rank(of_all_ranks, rank_local)
    return beyond(differences(split.states, whole.states), _TOLERANCE)


def _on_one_rank(options: Mapping[str, Any], rank_local: Sequence[str]) -> _Learned:
    learned = _Learned()

    def train(_: object) -> None:
        hide_rank_variables(os.environ)
        plan = make_plan({**options, "writers": ()})
        assert plan.world is not None, "a run that starts no ranks has a place in the world"
        observers = [
            ("learned", learned),
            ("float64", AllInFloat64()),
            ("ranks", _Ranks(plan.config, plan.iteration)),
        ]
        make_session(plan.config, plan.world, plan.registry, observers).run()

    # Not for its group, but because it restores what a training changes in the process.
    FakeWorld(1, rank_local=rank_local).run(train)
    return learned


class _Learned:
    """An observer that keeps on rank 0 what has been learned after each iteration."""

    def __init__(self) -> None:
        self._models: dict[str, Any] = {}
        self.states: list[dict[str, Any]] = []

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, role: str) -> Generator[None, Any, Any]:
        self._models[role] = model = yield
        return model

    @hookimpl
    def rltrain_write(self, record: Record) -> None:
        if isinstance(record, Scalars):
            named = (
                (f"{role}.{name}", x)
                for role, model in self._models.items()
                for name, x in model.state_dict().items()
            )
            self.states.append({name: x.detach().clone() for name, x in named})


class _Ranks:
    """An observer that gives one rank the environments and the random numbers of several."""

    def __init__(self, config: RunConfig, iteration: Iteration | None) -> None:
        self._rows = Rows(_RANKS, config.num_envs // _RANKS)
        parts = (iteration.mini_batches if iteration else None) or 1
        self._noise = VirtualRanks(self._rows, lambda rows: rows // parts)
        self._seeds = [SeedPlan(_SEED, rank) for rank in range(_RANKS)]

    @hookimpl(tryfirst=True)
    def rltrain_make_env(self, session: RankSession) -> UnitedEnv:
        plugins = RunPlugins()
        suite = session.config.suite
        plugins.choose(discover().get(SuiteSpec, suite), session.config.plugins)
        envs = []
        for seeds in self._seeds:
            rank = copy.copy(session)  # As a suite sees it on a rank.
            rank.seeds = seeds
            rank.config = dataclasses.replace(session.config, num_envs=self._rows.envs)
            envs.append(plugins.first("rltrain_make_env", f"suite {suite!r}", session=rank))
        return UnitedEnv(envs, self._rows, [seeds.environment for seeds in self._seeds])

    @hookimpl(wrapper=True)
    def rltrain_seed(self, stream: Stream) -> Generator[None, Any, Any]:
        result = yield
        if stream == "learner":
            self._noise.begin([seeds.learner for seeds in self._seeds])
        return result

    @hookimpl(wrapper=True)
    def rltrain_train(self) -> Generator[None, Any, Any]:
        with self._noise:
            return (yield)
