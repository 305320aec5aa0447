"""Bad numbers, once or in every step, and what `--on-nonfinite` makes of them: each algorithm."""

from __future__ import annotations

import functools
import math
import os
from typing import Any

import numpy as np
import pytest
import torch
from claim import Claim
from claims import of_each_algorithm
from claims_jax import JAX
from gymnasium.vector import VectorWrapper
from shard_runs import RANK_LOCAL, Environments, options, prepared

from rltrain import hookimpl
from rltrain.errors import NonFiniteError, PeerLost
from rltrain.plan.resolve import make_plan
from rltrain.ranks.world import hide_rank_variables
from rltrain.records import Scalars
from rltrain.run.worker import make_session
from rltrain.testing import FakeWorld
from rltrain.testing.fake.training import current, leaves

pytestmark = pytest.mark.slow

AT = 20
"""The step, in the second iteration."""

ITERATIONS = 6

JAX_LOCAL = {"jax": ["skrl:config.jax"]}

HUGE = 3e38
"""float32 cannot hold its square."""


class Broken(VectorWrapper):
    """Puts a number in the first environment, or in the first episode that ends."""

    def __init__(self, env: Any, where: str, number: float, always: bool) -> None:
        super().__init__(env)
        self._where, self._number, self._always = where, number, always
        self._steps, self._done = 0, False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def step(self, actions: Any) -> Any:
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        self._steps += 1
        ended = info.get("_final_obs")
        if self._steps >= AT and (self._always or not self._done):
            if self._where == "observations":
                observations = self._put(observations, 0)
            elif self._where == "rewards":
                rewards = self._put(rewards, 0)
            elif ended is not None and ended.any():
                place = int(np.flatnonzero(np.asarray(ended))[0])
                info = {**info, "final_obs": self._put(info["final_obs"], place)}
        return observations, rewards, terminations, truncations, info

    def _put(self, values: Any, environment: int) -> Any:
        self._done = True
        if isinstance(values, dict):
            return {name: self._put(value, environment) for name, value in values.items()}
        if "float" not in str(values.dtype):
            return values
        place = (environment, *[0] * (values.ndim - 1))
        if not isinstance(values, torch.Tensor):  # jax's.
            return values.at[place].set(self._number)
        values = values.clone()
        values[place] = self._number
        return values


class Watched:
    """Breaks the last rank's environments, and keeps the parameters of every iteration."""

    def __init__(self, where: str, number: float, always: bool) -> None:
        self._how = where, number, always
        self._models: dict[str, Any] = {}
        self.parameters: list[dict[str, np.ndarray]] = []
        self.error: BaseException | None = None

    @hookimpl(wrapper=True, tryfirst=True)
    def rltrain_make_env(self, session: Any) -> Any:
        env = yield
        self._session = session
        last = session.world.rank == session.world.world_size - 1
        return Broken(env, *self._how) if last else env

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, role: str) -> Any:
        self._models[role] = model = yield
        return model

    @hookimpl
    def rltrain_write(self, record: Any) -> None:
        if isinstance(record, Scalars):
            trees = {r: current(self._session, r, model) for r, model in self._models.items()}
            named = ((f"{r}.{x}", tree) for r, t in trees.items() for x, tree in leaves(t).items())
            self.parameters.append({name: _copied(x) for name, x in named})

    @hookimpl
    def rltrain_shutdown(self, error: BaseException | None) -> None:
        self.error = error


def _copied(x: Any) -> np.ndarray:
    return x.detach().clone().numpy() if isinstance(x, torch.Tensor) else np.array(x)


def of_each_on_jax() -> list[Claim]:
    """Return a claim of each of skrl's algorithms, to train with jax."""
    tasks = {"discrete": "rltrain/CartPole-v1", "continuous": "rltrain/CartPoleContinuous-v1"}
    found = {x.algorithm: x for x in reversed(JAX) if x.action in tasks}
    replay = {"agent.learning_starts": 2, "agent.random_timesteps": 2}
    replay |= {"agent.experiment.write_interval": 8}
    jax = functools.partial(Claim, library="skrl", features="jax")
    agents = {
        name: replay if "agent.gradient_steps" in x.agent else {} for name, x in found.items()
    }
    return [
        jax(algorithm=name, agent={**x.agent, **agents[name]}, task=tasks[x.action])
        for name, x in found.items()
    ]


def train(
    watched: list[Watched], claim: Claim, ranks: int, reaction: str, folder: Any, **how: Any
) -> None:
    """Train a claim on fake ranks, or alone, each of which is watched."""
    claim = prepared(claim, folder)
    chosen = {**options(claim, 1, folder), "max_iterations": ITERATIONS, "on_nonfinite": reaction}
    chosen["framework"] = "jax" if claim.features == "jax" else "torch"

    def watch() -> Watched:
        watched.append(Watched(**how))
        return watched[-1]

    def alone(_: Any) -> None:
        hide_rank_variables(os.environ)
        plan = make_plan({**chosen, "device": "cpu", "writers": ()})
        more = [("environments", Environments(claim)), ("watched", watch())]
        make_session(plan.config, plan.world, plan.registry, more).run()

    rank_local = [*RANK_LOCAL.get(claim.library, ()), *JAX_LOCAL.get(chosen["framework"], ())]
    world = FakeWorld(ranks, rank_local=rank_local)
    if ranks == 1:  # Not distributed, as most runs are.
        world.run(alone)
    else:
        world.train(observers=[lambda: Environments(claim), watch], **chosen)


def named(claim: Claim) -> str:
    return "-".join([claim.library, *["jax"] * (claim.features == "jax"), claim.algorithm])


CLAIMS = [*of_each_algorithm(), *of_each_on_jax()]


@pytest.mark.parametrize(
    ("number", "always"),
    [(math.nan, False), (math.nan, True), (math.inf, False), (HUGE, False)],
    ids=["nan", "nan-always", "inf", "huge"],
)
@pytest.mark.parametrize("where", ["observations", "rewards", "final observations"])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("claim", CLAIMS, ids=named)
def test_learning_goes_on_without_a_bad_number(claim, ranks, where, number, always, tmp_path):
    watched: list[Watched] = []
    how = {"where": where, "number": number, "always": always}
    train(watched, claim, ranks, "skip", tmp_path, **how)
    seen = watched[0].parameters
    assert len(seen) == ITERATIONS
    assert [name for each in seen for name, x in each.items() if not np.isfinite(x).all()] == []
    assert any(not np.array_equal(x, seen[-2][name]) for name, x in seen[-1].items())


@pytest.mark.parametrize("where", ["observations", "rewards", "final observations"])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("claim", CLAIMS, ids=named)
def test_a_run_stops_where_a_bad_number_comes(claim, ranks, where, tmp_path):
    watched: list[Watched] = []
    with pytest.raises((NonFiniteError, PeerLost)):
        train(watched, claim, ranks, "stop", tmp_path, where=where, number=math.nan, always=False)
    # A library may stumble over what follows before the ranks tell each other: one says it.
    assert f"rank {ranks - 1}: {where}" in str(watched[-1].error)
