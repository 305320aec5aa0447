"""Mixin for skrl's models for torch."""

from __future__ import annotations

from collections.abc import Callable

from rltrain_skrl.torch.workarounds import SeededRandomActions


class SessionModel(SeededRandomActions):
    """Mixin of every model; see `rltrain_skrl.models.extend`."""

    average_gradients: Callable[[], None] | None = None
    """Averages the gradients of an optimizer's models. The agent sets it on the last of them."""

    def broadcast_parameters(self, *, rank: int = 0) -> None:
        """Do nothing: `session.wrap_model` has broadcast the parameters already."""

    def reduce_parameters(self) -> None:
        """Average the gradients over ranks, together with those of the optimizer's other models.

        skrl calls this for one model after the other, which would be a collective each.
        """
        if self.average_gradients is not None:
            self.average_gradients()
