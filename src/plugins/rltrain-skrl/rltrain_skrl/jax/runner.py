"""skrl's Runner for jax on the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skrl import config
from skrl.agents.jax.base import ExperimentCfg
from skrl.models.jax import Model
from skrl.resources.preprocessors.jax import RunningStandardScaler
from skrl.trainers.jax import SequentialTrainerCfg
from skrl.utils.runner.jax import Runner

from rltrain_jax.devices import local_device
from rltrain_jax.trees import watch_tree
from rltrain_skrl.jax.agents import AGENTS
from rltrain_skrl.jax.env import SkrlEnv
from rltrain_skrl.jax.models import extend_model
from rltrain_skrl.jax.moment_pool import MomentPool
from rltrain_skrl.jax.scaler import PooledScaler, ValueScaler
from rltrain_skrl.runner import OnSession

__all__ = ["SessionRunner"]


class SessionRunner(OnSession, Runner):
    """Builds the components that the options name, and trains; see `OnSession`."""

    agents = AGENTS
    scaler = RunningStandardScaler
    experiment_options = ExperimentCfg
    trainer_options = SequentialTrainerCfg
    dropped_options = frozenset({"mixed_precision"})

    def make_pool(self) -> MomentPool:
        """Return what pools the moments of all ranks' data."""
        return MomentPool(self._session.group)

    def make_env(self, log_key: str) -> SkrlEnv:
        """Return the session's environments in skrl's wrapper."""
        return SkrlEnv(self._session.env, local_device(self._session.world.device), log_key)

    def make_scaler(self, role: str, size: Any, options: Mapping[str, Any]) -> PooledScaler:
        """Return a preprocessor, with rank 0's statistics, that pools."""
        kind = ValueScaler if role == "value_preprocessor" else PooledScaler
        scaler = kind(size, pool=self._pool, **options)
        scaler.state_dict = self._session.wrap_model(scaler.state_dict.params, role)
        watch_tree(self._session, role, lambda: scaler.state_dict.params)
        return scaler

    def wrap(self, model: Model, role: str) -> Model:
        """Return a model with rank 0's parameters."""
        extend_model(model)
        params = self._session.wrap_model(model.state_dict.params, role)
        model.state_dict = model.state_dict.replace(params=params)
        watch_tree(self._session, role, lambda: model.state_dict.params)
        return model

    def begin_learning(self) -> None:
        """Give skrl, and all that draws, this rank's key."""
        config.jax.key = self._session.seeds.learner
        self.agent.begin_learning()
