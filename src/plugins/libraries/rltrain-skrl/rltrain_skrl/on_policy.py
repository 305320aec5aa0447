"""What the agents that learn from rollouts have in common, for every framework."""

from __future__ import annotations

from typing import Any, ClassVar

from rltrain_skrl.agent import SessionAgent


class EarlyStopping(SessionAgent):
    """Mixin for an agent of skrl that ends an epoch when the KL divergence is too high."""

    threshold_class: ClassVar[type[Any]]
    """Of `kl_threshold` on several ranks: compares with the mean over ranks."""

    def share_threshold(self) -> None:
        """Let all ranks end an epoch together."""
        group = self._session.group
        if group.world_size > 1:
            self.cfg.kl_threshold = self.threshold_class(self.cfg.kl_threshold, group)
