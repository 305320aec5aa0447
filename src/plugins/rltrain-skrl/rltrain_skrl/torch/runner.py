"""skrl's Runner for torch on the session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skrl import config
from skrl.agents.torch.base import ExperimentCfg
from skrl.models.torch import Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainerCfg
from skrl.utils.runner.torch import Runner

from rltrain_skrl.models import extend
from rltrain_skrl.runner import OnSession
from rltrain_skrl.torch.agents import AGENTS
from rltrain_skrl.torch.env import SkrlEnv
from rltrain_skrl.torch.models import SessionModel
from rltrain_skrl.torch.moment_pool import MomentPool
from rltrain_skrl.torch.scaler import PooledScaler, ValueScaler

__all__ = ["SessionRunner"]


class SessionRunner(OnSession, Runner):
    """Builds the components that the options name, and trains; see `OnSession`."""

    agents = AGENTS
    scaler = RunningStandardScaler
    experiment_options = ExperimentCfg
    trainer_options = SequentialTrainerCfg

    def make_pool(self) -> MomentPool:
        """Return what pools the moments of all ranks' data."""
        return MomentPool(self._session.group)

    def make_env(self, log_key: str) -> SkrlEnv:
        """Return the session's environments in skrl's wrapper."""
        return SkrlEnv(self._session.env, self._session.world.device, log_key)

    def make_scaler(self, role: str, size: Any, options: Mapping[str, Any]) -> PooledScaler:
        """Return a preprocessor, with rank 0's statistics, that pools."""
        kind = ValueScaler if role == "value_preprocessor" else PooledScaler
        scaler: PooledScaler = self._session.wrap_model(
            kind(size, pool=self._pool, **options), role
        )
        return scaler

    def wrap(self, model: Model, role: str) -> Model:
        """Return a model with rank 0's parameters."""
        extend(model, SessionModel)
        wrapped: Model = self._session.wrap_model(model, role)
        return wrapped

    def begin_learning(self) -> None:
        """Give skrl its key; torch's generator is the session's."""
        config.torch.key = self._session.seeds.learner
