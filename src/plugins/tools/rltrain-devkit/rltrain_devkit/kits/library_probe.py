"""The probe of `LibraryConformance`: an observer of each rank's hooks."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from rltrain.hookspecs import hookimpl
from rltrain.records import CheckpointSaved, Record, Scalars
from rltrain.testing import RankSession, current, leaves
from rltrain.types import GradientSync, Stream, TrainResult
from rltrain_devkit.kits.arrays import to_numpy
from rltrain_devkit.kits.probed_env import ProbedEnv

__all__ = ["Arrays", "CountedSync", "Probe", "Step", "differing", "leaves"]

Arrays = Mapping[str, Any]
"""Copies as numpy arrays, by name."""


def differing(one: Arrays, other: Arrays) -> list[str]:
    """Return the names of arrays that are not bitwise equal; NaN equals NaN."""
    import numpy as np

    def same(name: str) -> bool:
        x, y = one.get(name), other.get(name)
        return x is not None and y is not None and np.array_equal(x, y, equal_nan=True)

    return [name for name in dict.fromkeys([*one, *other]) if not same(name)]


def _copies(tensors: Mapping[str, Any]) -> Arrays:
    return {name: to_numpy(x) for name, x in tensors.items()}


def _generators(framework: str) -> dict[str, str]:
    """Return the states of the global random generators that are loaded; jax has none."""
    states = {"random": repr(random.getstate())}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        states["numpy"] = repr(numpy.random.get_state()[1].tolist())
    if torch is not None and framework == "torch":
        states["torch"] = repr(torch.get_rng_state().tolist())
    return states


@dataclass
class CountedSync:
    """A gradient sync that counts its calls."""

    sync: GradientSync
    parameters: list[Any]
    """The parameters for which it was made."""
    calls: int = 0

    def __call__(self, gradients: Any) -> Any:
        """Average with the wrapped sync."""
        self.calls += 1
        return self.sync(gradients)


@dataclass
class Step:
    """One step of the environments, as numpy arrays."""

    observations: Arrays
    """By group; "" if there are no groups."""
    actions: Any
    done: Any = None
    """Which episodes ended in it."""


class Probe:
    """Watches the hooks of one rank.

    Attributes:
        rank: global rank; -1 until the environment is made.
        session: the rank's session.
        events: the streams that were seeded, the models that were wrapped and the first step of
            the environment, in order: "seed learner", "wrap policy", "step".
        models: the wrapped models, by role.
        syncs: the gradient syncs that were made.
        steps: calls of the environment's `step`.
        first_steps: the first steps, as long as no model has changed.
        first_observations: observations of the last reset before the first step.
        first_parameters: the models' parameters at the first step.
        first_generators: state of each global random generator at the first step.
        recorded: on rank 0, for each record of scalars its iteration and the calls of each sync
            so far.
        saved: on rank 0, for each checkpoint its path and the models' parameters.
        saved_after: on rank 0, for each checkpoint the number of iterations done.
        result: what the library returned; None if it raised.
        error: what the library raised.
    """

    session: RankSession
    first_observations: Arrays
    first_parameters: Arrays
    first_generators: Mapping[str, str]

    def __init__(self, on_step: Callable[[Probe], None]) -> None:
        """Create a probe that calls `on_step(probe)` before every step of the environment."""
        self.rank = -1
        self.events: list[str] = []
        self.models: dict[str, Any] = {}
        self.syncs: list[CountedSync] = []
        self.steps = 0
        self.first_steps: list[Step] = []
        self.recorded: list[tuple[int, list[int]]] = []
        self.saved: list[tuple[str, Arrays]] = []
        self.saved_after: list[int] = []
        self.result: TrainResult | None = None
        self.error: BaseException | None = None
        self._on_step = on_step

    @property
    def parameters(self) -> Arrays:
        """Copies of the parameters of every wrapped model, "role.name"."""
        return _copies(leaves({role: self._now(role) for role in self._trained()}))

    @property
    def buffers(self) -> Arrays:
        """Copies of the buffers of every wrapped model, "role.name".

        For torch, these are the modules' buffers; for jax, the trees that are in no gradient sync:
        normalizer statistics, and copies of trained models.
        """
        trained = self._trained()
        modules = {role: x for role, x in self.models.items() if hasattr(x, "named_buffers")}
        buffers = {
            name: x for role, m in modules.items() for name, x in m.named_buffers(prefix=role)
        }
        return _copies(
            buffers | leaves({role: self._now(role) for role in self.models if role not in trained})
        )

    def _trained(self) -> list[str]:
        """Return the roles of modules, and of trees of which a part is in a gradient sync."""
        synchronized = {id(x) for sync in self.syncs for x in sync.parameters}
        return [
            role
            for role, model in self.models.items()
            if hasattr(model, "named_buffers")
            or any(id(x) in synchronized for x in leaves(model).values())
        ]

    def _now(self, role: str) -> Any:
        return current(self.session, role, self.models[role])

    @hookimpl
    def rltrain_seed(self, stream: Stream) -> None:
        """Record the stream."""
        self.events.append(f"seed {stream}")

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session: RankSession) -> Generator[None, Any, Any]:
        """Watch the environment."""
        self.session, self.rank = session, session.world.rank
        return ProbedEnv((yield), self._reset, self._step, self._result)

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, role: str) -> Generator[None, Any, Any]:
        """Keep the model."""
        self.events.append(f"wrap {role}")
        self.models[role] = yield
        return self.models[role]

    @hookimpl(wrapper=True)
    def rltrain_gradient_sync(
        self, parameters: Any, extras: int
    ) -> Generator[None, Any, GradientSync]:
        """Count the calls of the sync."""
        own = list(leaves(parameters).values())[: -extras or None]
        self.syncs.append(CountedSync((yield), own))
        return self.syncs[-1]

    @hookimpl(wrapper=True)
    def rltrain_train(self) -> Generator[None, TrainResult, TrainResult]:
        """Keep the library's own outcome: the session may raise although the library did not."""
        try:
            self.result = yield
        except BaseException as error:
            self.error = error
            raise
        return self.result

    @hookimpl
    def rltrain_write(self, record: Record) -> None:
        """Keep the record."""
        if isinstance(record, Scalars):
            self.recorded.append((record.iteration, [sync.calls for sync in self.syncs]))
        elif isinstance(record, CheckpointSaved):
            self.saved.append((record.path, self.parameters))
            self.saved_after.append(record.iteration)

    def _reset(self, observations: Any) -> None:
        self._observations = observations
        if not self.steps:
            self.first_observations = _copies(leaves(observations))

    def _step(self, actions: Any) -> None:
        if not self.steps:
            self.events.append("step")
            self.first_parameters = self.parameters
            self._first_state = {**self.first_parameters, **self.buffers}
            self.first_generators = _generators(self.session.framework)
        if len(self.first_steps) == self.steps and self._is_unchanged():
            self.first_steps.append(Step(_copies(leaves(self._observations)), to_numpy(actions)))
        self.steps += 1
        self._on_step(self)

    def _result(self, observations: Any, done: Any) -> None:
        self._observations = observations
        if len(self.first_steps) == self.steps:
            self.first_steps[-1].done = to_numpy(done)

    def _is_unchanged(self) -> bool:
        return not differing(self._first_state, {**self.parameters, **self.buffers})
