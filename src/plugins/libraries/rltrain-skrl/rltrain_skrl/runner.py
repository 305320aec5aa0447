"""skrl's Runner on the session: it wraps the models; seeds and length are the run's."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ClassVar

from rltrain.errors import StopTraining
from rltrain.session import Session
from rltrain_skrl.agent import ENVIRONMENT_INFO
from rltrain_skrl.components import CheckedRunner
from rltrain_skrl.iterations import steps_per_iteration, total_iterations
from rltrain_skrl.moment_pool import MomentPool
from rltrain_skrl.skrl1 import rename_states
from rltrain_skrl.workarounds import restored_hash_seed

_PREPROCESSORS = ("observation_preprocessor", "state_preprocessor", "value_preprocessor")


class BaseSessionRunner(CheckedRunner):
    """Mixin for skrl's Runner of a framework: builds what the options name, and trains.

    skrl must know this rank's place already (`rltrain_skrl.bootstrap.configured`).
    """

    agents: ClassVar[Mapping[str, Any]]
    """By lower-case name, the classes that replace skrl's own."""
    scaler: ClassVar[type[Any]]
    """skrl's preprocessor whose statistics are pooled."""
    scalers: ClassVar[tuple[type[Any], type[Any]]]
    """Those that replace it: for observations and states, and for values."""
    pool_moments: ClassVar[Callable[..., list[Any]]]
    """The framework's; see `MomentPool`."""

    # skrl's, read by this class.
    _env: Any
    _cfg: dict[str, Any]
    agent: Any
    trainer: Any

    def __init__(self, session: Session) -> None:
        """Build models, agent and trainer; load the checkpoint; start the stream `learner`."""
        self._session = session
        skips = session.config.on_nonfinite == "skip"
        self._pool = MomentPool(session.group, self.pool_moments, on_one_rank=skips)
        options = runner_options(session)
        log_key = options["trainer"].get("environment_info", ENVIRONMENT_INFO)
        env = self.make_env(log_key)
        rename_states(options, env.state_space is not None)
        with restored_hash_seed():
            super().__init__(env, options)  # type: ignore[call-arg]
        if session.checkpoint is not None:
            self.agent.resume(session.checkpoint)
        self.trainer.cfg.timesteps = self.agent.timesteps_left()
        session.seed("learner")
        self.begin_learning()

    # What depends on the framework

    def make_env(self, log_key: str) -> Any:
        """Return the session's environments in skrl's wrapper."""
        raise NotImplementedError

    def wrap_scaler(self, scaler: Any, role: str) -> Any:
        """Return a preprocessor with rank 0's statistics."""
        raise NotImplementedError

    def wrap(self, model: Any, role: str) -> Any:
        """Return a model with rank 0's parameters."""
        raise NotImplementedError

    def begin_learning(self) -> None:
        """Give skrl its key; the stream `learner` has started."""
        raise NotImplementedError

    def train(self) -> None:
        """Train until the last iteration or until the session says stop."""
        with contextlib.suppress(StopTraining):
            self.run("train")  # type: ignore[attr-defined]

    # skrl's: what builds the parts

    def _component(self, name: str) -> Any:
        agent = self.agents.get(name.lower())
        if agent is not None:
            return functools.partial(agent, session=self._session)
        if name.lower() == "randommemory" and self._agent_class in self.agents:
            return functools.partial(self.agents[self._agent_class].memory_class, pool=self._pool)
        return super()._component(name)

    @property
    def _agent_class(self) -> str:
        return str(self._cfg["agent"]["class"]).lower()

    def _process_cfg(self, cfg: dict[str, Any]) -> dict[str, Any]:
        cfg = super()._process_cfg(cfg)  # type: ignore[misc]
        for role in _PREPROCESSORS:
            # Without states their scaler is empty: there is nothing to pool or to broadcast.
            empty = role == "state_preprocessor" and self._env.state_space is None
            if cfg.get(role) is self.scaler and not empty:
                cfg[role] = self._pooled_scaler(role)
        return cfg

    def _pooled_scaler(self, role: str) -> Any:
        """Return what skrl calls in place of its scaler's class."""
        for_data, for_values = self.scalers
        kind = for_values if role == "value_preprocessor" else for_data

        # A function, because skrl copies the options deeply: it would copy a partial's arguments.
        def make(size: Any, **options: Any) -> Any:
            return self.wrap_scaler(kind(size, pool=self._pool, **options), role)

        return make

    def _generate_models(self, env: Any, cfg: dict[str, Any]) -> dict[str, dict[str, Any]]:
        models = super()._generate_models(env, cfg)
        wrapped: dict[int, Any] = {}
        for roles in models.values():
            for role, model in roles.items():
                if id(model) not in wrapped:
                    wrapped[id(model)] = self.wrap(model, role)
                roles[role] = wrapped[id(model)]
        return models


def by_algorithm(*modules: ModuleType) -> dict[str, type[Any]]:
    """Return the agents that modules export, such as `SessionPPO`, by lower-case algorithm.

    Each replaces skrl's own in the Runner. It takes `session` too.
    """
    names = [(module, name) for module in modules for name in module.__all__]
    return {name.removeprefix("Session").lower(): getattr(x, name) for x, name in names}


def runner_options(session: Session) -> dict[str, Any]:
    """Return the Runner's options, with the run's seed, length, files and window."""
    options: dict[str, Any] = copy.deepcopy(dict(session.config.agent))
    options["seed"] = session.seeds.model
    if session.config.framework == "torch":
        # skrl adds the rank to the seed of a distributed run, but models must be built equal.
        options["seed"] -= session.world.rank
    trainer = options["trainer"] = dict(options["trainer"])
    steps = steps_per_iteration(options["agent"])
    trainer["timesteps"] = total_iterations(session.config) * steps
    trainer["headless"] = session.config.headless
    trainer["disable_progressbar"] = True
    trainer["close_environment_at_exit"] = False
    return options
