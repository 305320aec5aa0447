"""skrl's optimisers, stepped together by gradients that are averaged over ranks."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from rltrain.session import Session

__all__ = ["AveragedOptimizer", "step_together"]


class AveragedOptimizer:
    """An optimiser of skrl that is one object from its first step to its last.

    Stock optimisers are replaced by a new one in each step; skrl's checkpoints have the first of
    them, before any step, and leave it out when they are loaded. This one is saved as it is now, in
    the stock format, and loaded.
    """

    def __init__(self, optimizer: Any, model: Any) -> None:
        """Take over an optimiser of skrl and the model that it steps."""
        self.optimizer = optimizer
        self.model = model
        self._team: _Team | None = None

    @property
    def state_dict(self) -> Any:
        """The optimiser as skrl's checkpoints take what has parameters."""
        return SimpleNamespace(params=self.optimizer, replace=lambda params: params)

    @state_dict.setter
    def state_dict(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def join(self, team: _Team) -> None:
        """Step with others from now on."""
        self._team = team

    def step(self, *, grad: Any, model: Any, lr: float | None = None) -> AveragedOptimizer:
        """Step by the mean of the gradients over ranks, once all others are here; see skrl."""
        assert self._team is not None, "A step before `step_together`."
        self._team.step(self, grad, lr)
        return self

    def apply(self, grad: Any, lr: float | None) -> None:
        """Step by gradients that are averaged; skrl clips them then."""
        self.optimizer = self.optimizer.step(grad=grad, model=self.model, lr=lr)


def step_together(session: Session, optimizers: Mapping[str, AveragedOptimizer]) -> None:
    """Average the gradients of several optimisers in one go.

    Args:
        session: this rank's side of the run.
        optimizers: by name, all that skrl steps one after the other, the last
            last, with no use of a model in between that an earlier one steps.
    """
    team = _Team(session, optimizers)
    for optimizer in optimizers.values():
        optimizer.join(team)


class _Team:
    def __init__(self, session: Session, optimizers: Mapping[str, AveragedOptimizer]) -> None:
        self._optimizers = optimizers
        parameters = {name: x.model.state_dict.params for name, x in optimizers.items()}
        self._sync = session.gradient_sync(parameters)
        self._waiting: dict[int, tuple[Any, float | None]] = {}

    def step(self, optimizer: AveragedOptimizer, grad: Any, lr: float | None) -> None:
        self._waiting[id(optimizer)] = grad, lr
        if len(self._waiting) < len(self._optimizers):
            return
        waiting = {name: self._waiting[id(x)] for name, x in self._optimizers.items()}
        self._waiting = {}
        averaged = self._sync({name: grad for name, (grad, _) in waiting.items()})
        for name, own in self._optimizers.items():
            own.apply(averaged[name], waiting[name][1])
