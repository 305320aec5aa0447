"""skrl's Runner for jax on the session."""

from __future__ import annotations

import jax
from skrl import config
from skrl.models.jax import CategoricalMixin, Model, MultiCategoricalMixin
from skrl.resources.preprocessors.jax import RunningStandardScaler
from skrl.utils.runner.jax import Runner

from rltrain_jax.devices import local_device
from rltrain_jax.moments import pool_moments
from rltrain_jax.trees import watch_tree
from rltrain_skrl.run import runner
from rltrain_skrl.run.jax import algorithms
from rltrain_skrl.run.jax.env import SkrlEnv
from rltrain_skrl.run.jax.keys import keyed
from rltrain_skrl.run.jax.normalizers import PooledScaler, ValueScaler
from rltrain_skrl.run.jax.workarounds import (
    CategoricalEntropy,
    FreshNoise,
    MultiCategoricalEntropy,
    SeededRandomActions,
)


class StochasticModel(FreshNoise, SeededRandomActions):
    """Mixin of a policy that samples its actions."""


class CategoricalModel(CategoricalEntropy, SeededRandomActions):
    """Mixin of a policy that samples one choice."""


class MultiCategoricalModel(MultiCategoricalEntropy, SeededRandomActions):
    """Mixin of a policy that samples several choices."""


def extend_model(model: Model) -> None:
    """Give a model the mixin of its kind."""
    mixin: type[SeededRandomActions] = SeededRandomActions
    if isinstance(model, CategoricalMixin):
        mixin = CategoricalModel
    elif isinstance(model, MultiCategoricalMixin):
        mixin = MultiCategoricalModel
    elif keyed([model]):
        mixin = StochasticModel
    runner.extend(model, mixin)


class CheckedRunner(runner.CheckedRunner, Runner):
    """skrl's Runner; wrong options are a `UsageError`."""


class SessionRunner(runner.BaseSessionRunner, CheckedRunner):
    """Builds the components that the options name, and trains; see `BaseSessionRunner`."""

    algorithms = algorithms
    scaler = RunningStandardScaler
    scalers = PooledScaler, ValueScaler
    pool_moments = staticmethod(pool_moments)

    def make_env(self, log_key: str) -> SkrlEnv:
        """Return the session's environments in skrl's wrapper."""
        return SkrlEnv(self._session.env, local_device(self._session.world.device), log_key)

    def wrap_scaler(self, scaler: PooledScaler, role: str) -> PooledScaler:
        """Return a preprocessor with rank 0's statistics."""
        scaler.state_dict = self._session.wrap_model(scaler.state_dict.params, role)
        watch_tree(self._session, role, lambda: scaler.state_dict.params)
        return scaler

    def wrap(self, model: Model, role: str) -> Model:
        """Return a model with rank 0's parameters."""
        if role == "critic_2":
            # skrl gives all models one key: this critic would begin as the other, and stay it.
            model.init_state_dict(role=role, key=jax.random.fold_in(config.jax.key, 2))
        extend_model(model)
        params = self._session.wrap_model(model.state_dict.params, role)
        model.state_dict = model.state_dict.replace(params=params)
        watch_tree(self._session, role, lambda: model.state_dict.params)
        return model

    def begin_learning(self) -> None:
        """Give skrl, and everything that samples, this rank's key."""
        config.jax.key = self._session.seeds.learner
        self.agent.begin_learning()
