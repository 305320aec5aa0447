"""What the agents that learn from rollouts have in common, for every framework."""

from __future__ import annotations

from typing import Any, ClassVar

from rltrain.session import Session
from rltrain_skrl.agent import SessionAgent

__all__ = ["EarlyStopping"]


class EarlyStopping(SessionAgent):
    """Mixin for an agent of skrl that ends an epoch when the KL divergence is too high."""

    threshold_class: ClassVar[type[Any]]
    """Of `kl_threshold` on several ranks: compares with the mean over ranks."""

    def __init__(self, *, session: Session, **components: Any) -> None:
        """Build skrl's agent; see `SessionAgent`."""
        super().__init__(session=session, **components)
        if session.group.world_size > 1:
            self.cfg.kl_threshold = self.threshold_class(self.cfg.kl_threshold, session.group)
