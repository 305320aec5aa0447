"""The state of nodes that number themselves, which torch keeps pickled in a store.

Whoever reaches the store's port can put another one in its place, and torch would run what that
says. So torch is given a copy, pickled here from what was read as data. Only torch's documented
interfaces are used, and the names and fields of what it pickles.
"""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from torch.distributed.elastic.rendezvous import RendezvousStateError, dynamic_rendezvous
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend, Token

from rltrain.unpickling import UnsafePickle
from rltrain_adapters.unpickling import Name, load_data


class DataOnly(RendezvousBackend):
    """Does what another backend does, and refuses a state that is not data only."""

    def __init__(self, inner: RendezvousBackend) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """Return the other one's name."""
        return self._inner.name

    def get_state(self) -> tuple[bytes, Token] | None:
        """Return the state and its token."""
        found = self._inner.get_state()
        return found and (_as_data(found[0]), found[1])

    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        """Set the state, and return the one that is there now, its token, and if it was set."""
        found = self._inner.set_state(state, token)
        return found and (_as_data(found[0]), *found[1:])


def _as_data(state: bytes) -> bytes:
    """Return a state that was read as data, pickled again."""
    try:
        found = load_data(state, names=_NAMES)
        if type(found) is not _STATE:
            raise UnsafePickle(f"a {type(found).__name__}")
    except pickle.UnpicklingError as error:
        raise RendezvousStateError(
            f"somebody has replaced what the nodes know of each other: it would run code ({error})."
            if isinstance(error, UnsafePickle)
            else f"what the nodes know of each other is damaged ({error})."
        ) from error
    return pickle.dumps(found)


def _is_map(key: type, value: type) -> Callable[[Any], bool]:
    return lambda x: (
        type(x) is dict and all(type(k) is key and type(v) is value for k, v in x.items())
    )


def _is_set(x: Any) -> bool:
    return type(x) is set and all(type(element) is _NODE for element in x)


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda x: type(x) in kinds


def _fill(fields: Mapping[str, Callable[[Any], bool]]) -> Callable[[Any, Any], None]:
    """Return what gives an object its fields: these, each of its type."""

    def fill(made: Any, state: Any) -> None:
        if type(state) is not dict or state.keys() != fields.keys():
            raise UnsafePickle(f"other fields of {type(made).__name__}")
        for name, is_one in fields.items():
            if not is_one(state[name]):
                raise UnsafePickle(f"another {name}")
        vars(made).update(state)

    return fill


_NODE, _STATE = dynamic_rendezvous._NodeDesc, dynamic_rendezvous._RendezvousState
_TIME = datetime.datetime
_OF_TORCH = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"

_NAMES = {
    f"{_OF_TORCH}._NodeDesc": Name(
        lambda: object.__new__(_NODE),
        _fill({"addr": _is(str), "pid": _is(int), "local_id": _is(int)}),
    ),
    f"{_OF_TORCH}._RendezvousState": Name(
        _STATE,
        _fill(
            {
                "round": _is(int),
                "complete": _is(bool),
                "deadline": _is(_TIME, type(None)),
                "closed": _is(bool),
                "participants": _is_map(_NODE, int),
                "wait_list": _is_set,
                "redundancy_list": _is_set,
                "last_heartbeats": _is_map(_NODE, _TIME),
            }
        ),
    ),
    **{
        f"datetime.{kind.__name__}": Name(kind)
        for kind in (datetime.datetime, datetime.timedelta, datetime.timezone)
    },
}
"""What a state is made of, besides containers, numbers and text."""
