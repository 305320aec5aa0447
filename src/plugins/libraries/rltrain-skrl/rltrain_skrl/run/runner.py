"""skrl's Runner on the session: it wraps the models; seeds and length are the run's.

Only this file and `policy/actor.py` use the private methods of the Runner; the contract tests hold
them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from gymnasium import spaces

from rltrain.errors import StopTraining, UsageError
from rltrain.session import Session
from rltrain_skrl.declare.iteration import steps_per_iteration, total_iterations
from rltrain_skrl.declare.options import ALGORITHMS, networks, rename_states
from rltrain_skrl.run.agents import ENVIRONMENT_INFO
from rltrain_skrl.run.bootstrap import restored_hash_seed
from rltrain_skrl.run.normalizers import MomentPool

_PREPROCESSORS = ("observation_preprocessor", "state_preprocessor", "value_preprocessor")


class CheckedRunner:
    """Mixin for skrl's Runner of a framework: wrong options are a `UsageError`."""

    def _component(self, name: str) -> Any:
        try:
            return super()._component(name)  # type: ignore[misc]
        except ValueError as error:
            raise UsageError(f"skrl: {error}.") from error

    def _generate_models(self, env: Any, cfg: dict[str, Any]) -> dict[str, dict[str, Any]]:
        _check_models(cfg.get("models") or {}, env)
        models: dict[str, dict[str, Any]] = super()._generate_models(env, cfg)  # type: ignore[misc]
        return models

    def _generate_agent(
        self, env: Any, cfg: dict[str, Any], models: dict[str, dict[str, Any]]
    ) -> Any:
        cfg["memory"] = {"class": "RandomMemory", "memory_size": -1, **(cfg.get("memory") or {})}
        return super()._generate_agent(env, cfg, models)  # type: ignore[misc]


def _check_models(models: Mapping[str, Any], env: Any) -> None:
    """Check that models can take the task's observations, and clip its actions."""
    space, unbounded = env.observation_space, isinstance(env.action_space, spaces.Box)
    unbounded = unbounded and not env.action_space.is_bounded()
    for role, network in networks(models):
        taken = str(network.get("input")).strip()
        if env.state_space is None and "STATES" in taken:
            raise UsageError(
                f"agent.models.{role}: its network takes STATES, but this task has no observation "
                "group `critic`. Write OBSERVATIONS, which is what skrl 1 called STATES."
            )
        if taken == "OBSERVATIONS" and not isinstance(space, spaces.Box):
            instead = "one_hot_encoding(OBSERVATION_SPACE, OBSERVATIONS)"
            if isinstance(space, spaces.Dict):
                instead = " and ".join(f'OBSERVATIONS["{name}"]' for name in space.spaces)
            elif isinstance(space, spaces.Tuple):
                instead = " and ".join(f"OBSERVATIONS[{index}]" for index in range(len(space)))
            raise UsageError(
                f"agent.models.{role}: its network takes OBSERVATIONS as one array, but this task "
                f"has {space}. Give an --agent-config whose networks take {instead}."
            )
    for role, model in models.items():
        for key in ("clip_actions", "clip_mean_actions"):
            if unbounded and isinstance(model, Mapping) and model.get(key):
                raise UsageError(
                    f"agent.models.{role}.{key}={model[key]}: this task's actions have no bounds to"
                    f" clip to, and skrl fails. Set agent.models.{role}.{key}=false."
                )


class BaseSessionRunner(CheckedRunner):
    """Mixin for skrl's Runner of a framework: builds what the options name, and trains.

    skrl must know this rank's place already (`bootstrap.configured`).
    """

    algorithms: types.ModuleType
    """The framework's, with the classes that replace skrl's agents: `Session` and skrl's name."""
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
        if name.lower() in ALGORITHMS:
            return functools.partial(self._agent_class(name), session=self._session)
        if name.lower() == "randommemory":
            memory = self._agent_class(self._cfg["agent"]["class"]).memory_class
            return functools.partial(memory, pool=self._pool)
        return super()._component(name)

    def _agent_class(self, name: str) -> Any:
        return getattr(self.algorithms, f"Session{name.upper()}")

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


def runner_options(session: Session) -> dict[str, Any]:
    """Return the Runner's options, with the run's seed, length, files and window."""
    options: dict[str, Any] = copy.deepcopy(dict(session.config.agent))
    options["seed"] = session.seeds.model
    if session.config.framework == "torch":
        # skrl adds the rank to the seed of a distributed run, but models must be built equal.
        options["seed"] -= session.world.rank
    options["trainer"] = {
        **options["trainer"],
        "timesteps": total_iterations(session.config) * steps_per_iteration(options["agent"]),
        "headless": session.config.headless,
        "disable_progressbar": True,
        "close_environment_at_exit": False,
    }
    return options


def extend(model: Any, mixin: type[Any]) -> None:
    """Move a model of skrl to a subclass of its class, with a mixin, no model itself, before it.

    skrl's model instantiators define a model's class inside a function and return an instance
    (skrl 2.1): neither the Runner nor the instantiators take another base class. The contract
    tests hold what this relies on: the model finds its methods on its class, and `clone` of flax
    makes copies with `type(model).__init__`.
    """
    base = type(model)
    # Without an `__init__` in its own namespace, a subclass of a flax module is given another.
    namespace = {"__init__": base.__init__, "__module__": mixin.__module__}
    name = f"{mixin.__name__}{base.__name__}"
    model.__class__ = types.new_class(name, (mixin, base), {}, lambda x: x.update(namespace))
