"""skrl's Runner for torch on the session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from skrl import config
from skrl.models.torch import Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.utils.runner.torch import Runner

from rltrain_skrl import components
from rltrain_skrl.models import extend
from rltrain_skrl.runner import BaseSessionRunner
from rltrain_skrl.torch.agents import AGENTS
from rltrain_skrl.torch.env import SkrlEnv
from rltrain_skrl.torch.models import SessionModel
from rltrain_skrl.torch.scaler import PooledScaler, ValueScaler
from rltrain_torch.moments import pool_moments

_OBSERVED = re.compile(r"^\s*(?:OBSERVATIONS|STATES)(?:\[[^]]*\])?")
"""Observations as a task gives them: images have their channels last."""


class CheckedRunner(components.CheckedRunner, Runner):
    """skrl's Runner; wrong options are a `UsageError`."""

    def _generate_models(self, env: Any, cfg: dict[str, Any]) -> dict[str, dict[str, Any]]:
        put_channels_first(cfg.get("models") or {})
        return super()._generate_models(env, cfg)


class SessionRunner(BaseSessionRunner, CheckedRunner):
    """Builds the components that the options name, and trains; see `BaseSessionRunner`."""

    agents = AGENTS
    scaler = RunningStandardScaler
    scalers = PooledScaler, ValueScaler
    pool_moments = staticmethod(pool_moments)

    def make_env(self, log_key: str) -> SkrlEnv:
        """Return the session's environments in skrl's wrapper."""
        return SkrlEnv(self._session.env, self._session.world.device, log_key)

    def wrap_scaler(self, scaler: PooledScaler, role: str) -> PooledScaler:
        """Return a preprocessor with rank 0's statistics."""
        wrapped: PooledScaler = self._session.wrap_model(scaler, role)
        return wrapped

    def wrap(self, model: Model, role: str) -> Model:
        """Return a model with rank 0's parameters."""
        extend(model, SessionModel)
        wrapped: Model = self._session.wrap_model(model, role)
        return wrapped

    def begin_learning(self) -> None:
        """Give skrl its key; the session has seeded torch's generator."""
        config.torch.key = self._session.seeds.learner


def put_channels_first(models: Mapping[str, Any]) -> None:
    """Have networks that convolve observations permute them, where they expect channels first.

    Isaac Lab 3's tasks give channels first, and so say the options that come with them.
    """
    for model in models.values():
        for network in (model.get("network") or []) if isinstance(model, Mapping) else []:
            if "conv2d" in str((network.get("layers") or [])[:1]):
                network["input"] = _OBSERVED.sub(
                    lambda found: f"permute({found[0].strip()}, (0, 3, 1, 2))", network["input"]
                )
