"""What ranks of a fake world have come to, compared."""

from __future__ import annotations

import torch

from rltrain import hookimpl
from rltrain.testing import FakeWorld


def skrl_world(ranks: int, **options) -> FakeWorld:
    """Return a fake world whose ranks each have a place of their own in skrl's configuration."""
    return FakeWorld(ranks, rank_local=["skrl:config.torch"], **options)


def differing(runs) -> set[str]:
    """Name the tensors of the ranks' models that are not the first rank's, bit for bit."""
    first, *others = (run.state() for run in runs)
    assert len(first) >= 5
    assert all(other.keys() == first.keys() for other in others)
    return {name for name in first for other in others if not torch.equal(first[name], other[name])}


class LocalGradients:
    """An observer that keeps what a rank gives to its gradient sync."""

    def __init__(self) -> None:
        self.given: list[torch.Tensor] = []

    @hookimpl(wrapper=True)
    def rltrain_gradient_sync(self):
        sync = yield

        def observed(gradients):
            self.given.append(torch.cat([gradient.reshape(-1) for gradient in gradients]))
            return sync(gradients)

        return observed
