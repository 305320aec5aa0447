"""What this plugin provides. Light: importing it imports only rltrain."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain import hookimpl
from rltrain.specs import BackendSpec, Spec

__all__ = ["rltrain_provides"]


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare the backend."""
    return [
        BackendSpec(
            name="star",
            factory="rltrain_star.backend:StarBackend",
            summary="plain sockets to rank 0, which adds up in the order of ranks",
            framework="torch",
            device="cpu",
        )
    ]
