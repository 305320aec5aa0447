"""The probe of `LibraryConformance`: an observer of each rank's hooks."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from rltrain.hookspecs import hookimpl
from rltrain.records import CheckpointSaved, Record, Scalars
from rltrain.testing import RankSession, current, leaves
from rltrain.types import GradientSync, Stream, TrainResult
from rltrain_devkit.kits.arrays import to_numpy

Arrays = Mapping[str, Any]
"""Copies as numpy arrays, by name."""


def differing(one: Arrays, other: Arrays) -> list[str]:
    """Return the names of arrays that are not bitwise equal; NaN equals NaN."""

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
    steps: int = 0
    """Steps of its optimizer, where the framework tells them."""
    first: Arrays = field(default_factory=dict)
    """The gradients of the first call."""

    def __call__(self, gradients: Any) -> Any:
        """Average with the wrapped sync."""
        found = {name: x for name, x in leaves(gradients).items() if x is not None}
        self.first = self.first or _copies(found)
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
    """Watches the hooks of one rank."""

    session: RankSession
    first_observations: Arrays
    """Of the last reset before the first step."""
    first_parameters: Arrays
    """The models' parameters at the first step."""
    first_generators: Mapping[str, str]
    """State of each global random generator at the first step."""

    def __init__(self, on_step: Callable[[Probe], object]) -> None:
        """Create a probe that calls `on_step(probe)` before every step of the environment."""
        self.rank = -1  # Until the environment is made.
        # What happened, in order: "seed learner", "wrap policy", and the first "step".
        self.events: list[str] = []
        self.models: dict[str, Any] = {}  # By role, as they were wrapped.
        self.syncs: list[CountedSync] = []
        self.steps = 0
        self.first_steps: list[Step] = []  # As long as no model has changed.
        # On rank 0, for each record of scalars its iteration and the calls of each sync so far.
        self.recorded: list[tuple[int, list[int]]] = []
        # On rank 0, for each checkpoint its path, the models' parameters, and iterations done.
        self.saved: list[tuple[str, Arrays, int]] = []
        self.result: TrainResult | None = None
        self.error: BaseException | None = None  # What the library raised.
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

    @property
    def state(self) -> Arrays:
        """Copies of all parameters and buffers."""
        return {**self.parameters, **self.buffers}

    def synchronizes(self, x: Any) -> bool:
        """Return whether an array is in a gradient sync."""
        return any(x is each for sync in self.syncs for each in sync.parameters)

    def _trained(self) -> list[str]:
        """Return the roles of modules, and of trees of which a part is in a gradient sync."""
        return [
            role
            for role, model in self.models.items()
            if hasattr(model, "named_buffers")
            or any(self.synchronizes(x) for x in leaves(model).values())
        ]

    def _now(self, role: str) -> Any:
        return current(self.session, role, self.models[role])

    @hookimpl
    def rltrain_seed(self, stream: Stream) -> None:
        """Note the stream."""
        self.events.append(f"seed {stream}")

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session: RankSession) -> Generator[None, Any, Any]:
        """Watch the environment."""
        self.session, self.rank = session, session.world.rank
        return _ProbedEnv((yield), self)

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
            self.saved.append((record.path, self.parameters, record.iteration))

    def on_reset(self, observations: Any) -> None:
        """Take what the environment returned."""
        self._observations = observations
        if not self.steps:
            self.first_observations = _copies(leaves(observations))

    def on_step(self, actions: Any) -> None:
        """Take what the library gives to the environment."""
        if not self.steps:
            self.events.append("step")
            self.first_parameters = self.parameters
            self._first_state = self.state
            self.first_generators = _generators(self.session.framework)
        state = self.state if len(self.first_steps) == self.steps else {}
        if state and not differing(self._first_state, state):
            self.first_steps.append(Step(_copies(leaves(self._observations)), to_numpy(actions)))
        self.steps += 1
        self._on_step(self)

    def on_result(self, observations: Any, done: Any) -> None:
        """Take what came of it."""
        self._observations = observations
        if len(self.first_steps) == self.steps:
            self.first_steps[-1].done = to_numpy(done)


@contextlib.contextmanager
def counting_steps(framework: str, probes: Sequence[Probe]) -> Iterator[None]:
    """Count the steps of torch's optimizers, for the syncs of their parameters."""
    if framework != "torch":
        yield
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def count(optimizer: Any, *_: Any) -> None:
        stepped = {id(x) for group in optimizer.param_groups for x in group["params"]}
        for sync in [sync for probe in probes for sync in probe.syncs]:
            sync.steps += not stepped.isdisjoint(map(id, sync.parameters))

    handle = register_optimizer_step_post_hook(count)
    try:
        yield
    finally:
        handle.remove()


class _ProbedEnv(VectorWrapper):  # type: ignore[type-arg]
    """Passes all calls on, and reports resets and steps to a probe."""

    def __init__(self, env: VectorEnv[Any, Any, Any], probe: Probe) -> None:
        super().__init__(env)
        self._probe = probe

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        observations, info = self.env.reset(seed=seed, options=options)
        self._probe.on_reset(observations)
        return observations, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._probe.on_step(actions)
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        self._probe.on_result(observations, terminations | truncations)
        return observations, rewards, terminations, truncations, info
