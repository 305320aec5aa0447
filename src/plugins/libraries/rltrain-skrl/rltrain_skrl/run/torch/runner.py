"""skrl's Runner for torch on the session."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from skrl import config
from skrl.models.torch import Model
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.utils.runner.torch import Runner

from rltrain_skrl.declare.options import networks
from rltrain_skrl.run import runner
from rltrain_skrl.run.torch import algorithms
from rltrain_skrl.run.torch.env import SkrlEnv
from rltrain_skrl.run.torch.normalizers import PooledScaler, ValueScaler
from rltrain_skrl.run.torch.workarounds import SeededRandomActions
from rltrain_torch.moments import pool_moments

_OBSERVED = re.compile(r"^\s*(?:OBSERVATIONS|STATES)(?:\[[^]]*\])?")
"""Observations as a task gives them: images have their channels last."""


class SessionModel(SeededRandomActions):
    """Mixin of every model; see `runner.extend`."""

    average_gradients: Callable[[], Any] | None = None
    """Averages the gradients of an optimizer's models. The agent sets it on the last of them."""

    def broadcast_parameters(self, *, rank: int = 0) -> None:
        """Do nothing: `session.wrap_model` has broadcast the parameters already."""

    def reduce_parameters(self) -> None:
        """Average the gradients over ranks, together with those of the optimizer's other models.

        skrl calls this for one model after the other, which would be a collective each.
        """
        if self.average_gradients is not None:
            self.average_gradients()


class CheckedRunner(runner.CheckedRunner, Runner):
    """skrl's Runner; wrong options are a `UsageError`."""

    def _generate_models(self, env: Any, cfg: dict[str, Any]) -> dict[str, dict[str, Any]]:
        put_channels_first(cfg.get("models") or {})
        return super()._generate_models(env, cfg)


class SessionRunner(runner.BaseSessionRunner, CheckedRunner):
    """Builds the components that the options name, and trains; see `BaseSessionRunner`."""

    algorithms = algorithms
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
        runner.extend(model, SessionModel)
        wrapped: Model = self._session.wrap_model(model, role)
        return wrapped

    def begin_learning(self) -> None:
        """Give skrl its key; the session has seeded torch's generator."""
        config.torch.key = self._session.seeds.learner


def put_channels_first(models: Mapping[str, Any]) -> None:
    """Have networks that convolve observations permute them, where they expect channels first.

    Isaac Lab 3's tasks give channels first, and so say the options that come with them.
    """
    for _, network in networks(models):
        if "conv2d" in str((network.get("layers") or [])[:1]):
            network["input"] = _OBSERVED.sub(
                lambda found: f"permute({found[0].strip()}, (0, 3, 1, 2))", network["input"]
            )
