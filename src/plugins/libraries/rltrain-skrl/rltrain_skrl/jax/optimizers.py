"""skrl's optimizers with gradients averaged over ranks, several in one collective."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from rltrain.session import Session
from rltrain_skrl.jax.divergence import PooledDivergence


class AveragedOptimizer:
    """An optimizer of skrl that stays one object, and that checkpoints save and load.

    skrl's `step` returns a new optimizer, but its checkpoints keep the first one, from before any
    step, and loading skips it (a bug of skrl 2.1.0 to 2.1.1). This one saves its current state in
    skrl's format.
    """

    def __init__(self, optimizer: Any, model: Any) -> None:
        """Take an optimizer of skrl and the model that it steps."""
        self.optimizer = optimizer
        self.model = model
        self._group: _StepGroup | None = None

    @property
    def state_dict(self) -> Any:
        """The optimizer under the names with which skrl's checkpoints read and set parameters."""
        return SimpleNamespace(params=self.optimizer, replace=lambda params: params)

    @state_dict.setter
    def state_dict(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def join(self, group: _StepGroup) -> None:
        """Step together with the optimizers of this group from now on."""
        self._group = group

    def step(self, *, grad: Any, model: Any, lr: float | None = None) -> AveragedOptimizer:
        """Step by the mean gradients over ranks, once all of the group have theirs; see skrl."""
        assert self._group is not None, "A step before `step_together`."
        self._group.step(self, grad, lr)
        return self

    def apply(self, grad: Any, lr: float | None) -> None:
        """Step by averaged gradients, which skrl clips first."""
        self.optimizer = self.optimizer.step(grad=grad, model=self.model, lr=lr)


def step_together(
    session: Session,
    optimizers: Mapping[str, AveragedOptimizer],
    divergence: PooledDivergence | None = None,
) -> None:
    """Average the gradients of several optimizers in one collective.

    Args:
        session: this rank's side of the run.
        optimizers: by name, in the order in which skrl steps them. skrl may not use a model of an
            earlier one in between: it is stepped only with the last one.
        divergence: what decides on their learning rates, averaged in the same collective.
    """
    group = _StepGroup(session, optimizers, divergence)
    for optimizer in optimizers.values():
        optimizer.join(group)


class _StepGroup:
    def __init__(
        self,
        session: Session,
        optimizers: Mapping[str, AveragedOptimizer],
        divergence: PooledDivergence | None,
    ) -> None:
        self._optimizers = optimizers
        self._divergence = divergence
        parameters = {name: x.model.state_dict.params for name, x in optimizers.items()}
        extras = self._extras()
        self._sync = session.gradient_sync((parameters, extras), extras=len(extras))
        self._waiting: dict[int, tuple[Any, float | None]] = {}

    def step(self, optimizer: AveragedOptimizer, grad: Any, lr: float | None) -> None:
        self._waiting[id(optimizer)] = grad, lr
        if len(self._waiting) < len(self._optimizers):
            return
        waiting = {name: self._waiting[id(x)] for name, x in self._optimizers.items()}
        self._waiting = {}
        gradients = {name: grad for name, (grad, _) in waiting.items()}
        averaged = self._sync((gradients, self._extras()))
        if averaged is None:
            return
        means, extras = averaged
        rates = {} if self._divergence is None else self._divergence.take(*extras)
        for name, own in self._optimizers.items():
            rate = rates.get(name.removesuffix("_optimizer"), waiting[name][1])
            own.apply(means[name], rate)

    def _extras(self) -> list[Any]:
        return [] if self._divergence is None else [self._divergence.number]
