"""Mixins for skrl's models for jax."""

from __future__ import annotations

from skrl.models.jax import CategoricalMixin, Model, MultiCategoricalMixin

from rltrain_skrl.jax.keys import keyed
from rltrain_skrl.jax.workarounds import (
    CategoricalEntropy,
    FreshNoise,
    MultiCategoricalEntropy,
    SeededRandomActions,
)
from rltrain_skrl.models import extend


class SessionModel(SeededRandomActions):
    """Mixin of a model that does not sample; see `rltrain_skrl.models.extend`."""


class StochasticModel(FreshNoise, SessionModel):
    """Mixin of a policy that samples its actions."""


class CategoricalModel(CategoricalEntropy, SessionModel):
    """Mixin of a policy that samples one choice."""


class MultiCategoricalModel(MultiCategoricalEntropy, SessionModel):
    """Mixin of a policy that samples several choices."""


def extend_model(model: Model) -> None:
    """Give a model the mixin of its kind."""
    mixin: type[SessionModel] = SessionModel
    if isinstance(model, CategoricalMixin):
        mixin = CategoricalModel
    elif isinstance(model, MultiCategoricalMixin):
        mixin = MultiCategoricalModel
    elif keyed([model]):
        mixin = StochasticModel
    extend(model, mixin)
