"""skrl's Runner on the session: the models are wrapped, the seeds and the length are the run's."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Mapping, Set
from typing import Any

from skrl import config
from skrl.agents.torch.base import ExperimentCfg
from skrl.models.torch import Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainerCfg
from skrl.utils.runner.torch import Runner

from rltrain.errors import StopTraining, UsageError, suggest
from rltrain.session import Session
from rltrain_skrl import bootstrap
from rltrain_skrl.iterations import steps_per_iteration, total_iterations
from rltrain_skrl.torch.agents import AGENTS
from rltrain_skrl.torch.env import SkrlEnv
from rltrain_skrl.torch.moment_pool import MomentPool
from rltrain_skrl.torch.scaler import PooledScaler, ValueScaler

__all__ = ["SessionRunner"]

_PREPROCESSORS = ("observation_preprocessor", "state_preprocessor", "value_preprocessor")


class SessionRunner(Runner):
    """Builds the components that the options name, and trains.

    skrl's place in the world must be configured (`rltrain_skrl.bootstrap.configured`).
    """

    def __init__(self, session: Session) -> None:
        """Build models, agent and trainer; load the checkpoint; begin the stream `learner`.

        Raises:
            UsageError: the options or the checkpoint do not fit skrl or the task.
        """
        self._session = session
        self._pool = MomentPool(session.group)
        options = runner_options(session)
        log_key = options["trainer"].get("environment_info", SequentialTrainerCfg.environment_info)
        with bootstrap.kept_hash_seed():
            super().__init__(SkrlEnv(session.env, session.world.device, log_key), options)
        if session.checkpoint is not None:
            self.agent.resume(session.checkpoint)
        self.trainer.cfg.timesteps = self.agent.timesteps_left()
        session.seed("learner")
        config.torch.key = session.seeds.learner

    def train(self) -> None:
        """Train until the iterations are done or the session says stop."""
        with contextlib.suppress(StopTraining):
            self.run("train")

    def _component(self, name: str) -> Any:
        agent = AGENTS.get(name.lower())
        if agent is not None:
            return functools.partial(agent, session=self._session)
        if name.lower() == "randommemory" and self._agent_class in AGENTS:
            return functools.partial(AGENTS[self._agent_class].memory_class, pool=self._pool)
        try:
            return super()._component(name)
        except ValueError as error:
            raise UsageError(f"skrl: {error}.") from error

    @property
    def _agent_class(self) -> str:
        return str(self._cfg["agent"]["class"]).lower()

    def _process_cfg(self, cfg: dict[str, Any]) -> dict[str, Any]:
        cfg = super()._process_cfg(cfg)
        for role in _PREPROCESSORS:
            # Without states their scaler is empty: there is nothing to pool or to broadcast.
            empty = role == "state_preprocessor" and self._env.state_space is None
            if cfg.get(role) is RunningStandardScaler and not empty:
                cfg[role] = self._pooled_scaler(role)
        return cfg

    def _pooled_scaler(self, role: str) -> Any:
        """Return what skrl calls in place of its scaler's class."""

        # A function, because skrl copies the options deeply: it would copy a partial's arguments.
        def make(size: Any, **options: Any) -> Any:
            scaler = ValueScaler if role == "value_preprocessor" else PooledScaler
            return self._session.wrap_model(scaler(size, pool=self._pool, **options), role)

        return make

    def _generate_models(self, env: SkrlEnv, cfg: dict[str, Any]) -> dict[str, dict[str, Model]]:
        if env.state_space is None:
            _check_no_states(cfg.get("models") or {})
        models: dict[str, dict[str, Model]] = super()._generate_models(env, cfg)
        wrapped: dict[int, Model] = {}
        for roles in models.values():
            for role, model in roles.items():
                if id(model) not in wrapped:
                    wrapped[id(model)] = self._session.wrap_model(model, role)
                roles[role] = wrapped[id(model)]
                # The agent's constructor would broadcast a second time.
                roles[role].broadcast_parameters = lambda rank=0: None
        return models

    def _generate_agent(
        self, env: SkrlEnv, cfg: dict[str, Any], models: dict[str, dict[str, Model]]
    ) -> Any:
        agent_cfg = self._component(f"{cfg['agent']['class']}_CFG")
        _check_keys("agent.agent", cfg["agent"], agent_cfg, also={"class", "rewards_shaper_scale"})
        _check_keys("agent.agent.experiment", cfg["agent"].get("experiment") or {}, ExperimentCfg)
        _check_keys("agent.trainer", cfg["trainer"], SequentialTrainerCfg, also={"class"})
        cfg["memory"] = {"class": "RandomMemory", "memory_size": -1, **(cfg.get("memory") or {})}
        return super()._generate_agent(env, cfg, models)


def runner_options(session: Session) -> dict[str, Any]:
    """Return the Runner's options with what the run decides put in: seed, length, files, window."""
    options: dict[str, Any] = copy.deepcopy(dict(session.config.agent))
    # skrl adds the rank to the seed of a distributed run, but models must be built equal.
    options["seed"] = session.seeds.model - session.world.rank
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


def _check_no_states(models: Mapping[str, Any]) -> None:
    for role, model in models.items():
        networks = model.get("network") or [] if isinstance(model, Mapping) else []
        if any("STATES" in str(network.get("input")) for network in networks):
            raise UsageError(
                f"agent.models.{role}: its network takes STATES, but this task has no observation "
                "group `critic`. Write OBSERVATIONS, which is what skrl 1 called STATES."
            )
