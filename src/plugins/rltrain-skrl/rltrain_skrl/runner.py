"""skrl's Runner on the session: it wraps the models; seeds and length are the run's."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Set
from types import ModuleType
from typing import Any, ClassVar

from gymnasium import spaces

from rltrain.errors import StopTraining, UsageError, suggest
from rltrain.session import Session
from rltrain_skrl.agent import ENVIRONMENT_INFO
from rltrain_skrl.iterations import steps_per_iteration, total_iterations
from rltrain_skrl.moment_pool import MomentPool
from rltrain_skrl.skrl1 import rename_states
from rltrain_skrl.workarounds import restored_hash_seed

__all__ = ["BaseSessionRunner", "by_algorithm", "runner_options"]

_PREPROCESSORS = ("observation_preprocessor", "state_preprocessor", "value_preprocessor")


class BaseSessionRunner:
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
    experiment_options: ClassVar[type[Any]]
    trainer_options: ClassVar[type[Any]]
    dropped_options: ClassVar[frozenset[str]] = frozenset()
    """Of the agent: known, and left out by skrl's Runner itself."""

    # skrl's, read by this class.
    _env: Any
    _cfg: dict[str, Any]
    agent: Any
    trainer: Any

    def __init__(self, session: Session) -> None:
        """Build models, agent and trainer; load the checkpoint; start the stream `learner`.

        Raises:
            UsageError: the options or the checkpoint do not fit skrl or the task.
        """
        self._session = session
        self._pool = MomentPool(session.group, self.pool_moments)
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
        try:
            return super()._component(name)  # type: ignore[misc]
        except ValueError as error:
            raise UsageError(f"skrl: {error}.") from error

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
        if env.state_space is None:
            _check_no_states(cfg.get("models") or {})
        _check_clipped(cfg.get("models") or {}, env.action_space)
        _check_inputs(cfg.get("models") or {}, env.observation_space)
        models: dict[str, dict[str, Any]] = super()._generate_models(env, cfg)  # type: ignore[misc]
        wrapped: dict[int, Any] = {}
        for roles in models.values():
            for role, model in roles.items():
                if id(model) not in wrapped:
                    wrapped[id(model)] = self.wrap(model, role)
                roles[role] = wrapped[id(model)]
        return models

    def _generate_agent(
        self, env: Any, cfg: dict[str, Any], models: dict[str, dict[str, Any]]
    ) -> Any:
        agent_cfg = self._component(f"{cfg['agent']['class']}_CFG")
        also = {"class", "rewards_shaper_scale"} | self.dropped_options
        _check_keys("agent.agent", cfg["agent"], agent_cfg, also=also)
        experiment = cfg["agent"].get("experiment") or {}
        _check_keys("agent.agent.experiment", experiment, self.experiment_options)
        _check_keys("agent.trainer", cfg["trainer"], self.trainer_options, also={"class"})
        cfg["memory"] = {"class": "RandomMemory", "memory_size": -1, **(cfg.get("memory") or {})}
        return super()._generate_agent(env, cfg, models)  # type: ignore[misc]


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


def _check_keys(
    where: str, options: Mapping[str, Any], known: Any, also: Set[str] = frozenset()
) -> None:
    fields = {field.name for field in dataclasses.fields(known)} | also
    for key in options:
        if key not in fields:
            raise UsageError(f"{where}.{key}: skrl has no such option.{suggest(key, fields)}")


def _check_clipped(models: Mapping[str, Any], space: spaces.Space[Any]) -> None:
    if not isinstance(space, spaces.Box) or space.is_bounded():
        return
    for role, model in models.items():
        for key in ("clip_actions", "clip_mean_actions"):
            if isinstance(model, Mapping) and model.get(key):
                raise UsageError(
                    f"agent.models.{role}.{key}={model[key]}: this task's actions have no bounds to"
                    f" clip to, and skrl fails. Set agent.models.{role}.{key}=false."
                )


def _inputs(models: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the role of each model with the input of each of its networks."""
    for role, model in models.items():
        networks = model.get("network") or [] if isinstance(model, Mapping) else []
        yield from ((role, str(network.get("input")).strip()) for network in networks)


def _check_inputs(models: Mapping[str, Any], space: spaces.Space[Any]) -> None:
    """Check that no layer takes observations as one array if they are not."""
    if isinstance(space, spaces.Box):
        return
    for role, taken in _inputs(models):
        if taken != "OBSERVATIONS":
            continue
        instead = "one_hot_encoding(OBSERVATION_SPACE, OBSERVATIONS)"
        if isinstance(space, spaces.Dict):
            instead = " and ".join(f'OBSERVATIONS["{name}"]' for name in space.spaces)
        elif isinstance(space, spaces.Tuple):
            instead = " and ".join(f"OBSERVATIONS[{index}]" for index in range(len(space.spaces)))
        raise UsageError(
            f"agent.models.{role}: its network takes OBSERVATIONS as one array, but this task has "
            f"{space}. Give an --agent-config whose networks take {instead}."
        )


def _check_no_states(models: Mapping[str, Any]) -> None:
    for role, taken in _inputs(models):
        if "STATES" in taken:
            raise UsageError(
                f"agent.models.{role}: its network takes STATES, but this task has no observation "
                "group `critic`. Write OBSERVATIONS, which is what skrl 1 called STATES."
            )
