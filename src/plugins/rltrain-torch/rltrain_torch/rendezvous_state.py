"""The state of nodes that number themselves, which torch keeps pickled in a store.

Whoever reaches the store's port can put another one in its place, and torch would run what that
says. Only torch's documented interfaces are used, and the names of what it pickles.
"""

from __future__ import annotations

import io
from typing import Any

from torch.distributed.elastic.rendezvous import RendezvousStateError
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend, Token

from rltrain.unpickling import DataUnpickler, UnsafePickle

__all__ = ["DataOnly"]

_OF_TORCH = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
_NAMES = {
    *((_OF_TORCH, name) for name in ("_NodeDesc", "_RendezvousState")),
    *(("datetime", name) for name in ("datetime", "timedelta", "timezone")),
}
"""What a state is made of, besides containers, numbers and text."""


class DataOnly(RendezvousBackend):
    """Does what another backend does, and refuses a state that is not data only."""

    def __init__(self, inner: RendezvousBackend) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """Return the other one's name."""
        return self._inner.name

    def get_state(self) -> tuple[bytes, Token] | None:
        """Return the state and its token.

        Raises:
            RendezvousStateError: it would run code.
        """
        found = self._inner.get_state()
        if found is not None:
            _check(found[0])
        return found

    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        """Set the state, and return the one that is there now, its token, and whether it was set.

        Raises:
            RendezvousStateError: the one that is there would run code.
        """
        found = self._inner.set_state(state, token)
        if found is not None:
            _check(found[0])
        return found


def _check(state: bytes) -> None:
    try:
        _Unpickler(io.BytesIO(state)).load()
    except UnsafePickle as error:
        raise RendezvousStateError(
            f"somebody has replaced what the nodes know of each other: it would run code ({error})."
        ) from error


class _Unpickler(DataUnpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _NAMES:
            # Their names are checked: nothing else of these modules can be had.
            return super(DataUnpickler, self).find_class(module, name)
        return super().find_class(module, name)
