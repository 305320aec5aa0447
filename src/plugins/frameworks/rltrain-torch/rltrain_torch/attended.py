"""A rendezvous that lets the launcher look after its run while torch elastic has its thread.

torch elastic asks every tenth of a second, in the thread that started it, whether nodes wait to
join. Only torch's documented interfaces are used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    rendezvous_handler_registry,
)

NAME = "rltrain-attended"
"""The rendezvous backend, as torch elastic knows it."""


def register() -> str:
    """Make the rendezvous known to torch elastic, and return its name.

    Its settings are those of another one; `of` is its name, and `looks` has functions without
    arguments, which are called again and again while ranks run.
    """
    rendezvous_handler_registry.register(NAME, _create)
    return NAME


def _create(parameters: RendezvousParameters) -> AttendedRendezvous:
    inner = copy.copy(parameters)
    inner.backend = str(parameters.get("of"))
    looks = parameters.config["looks"]
    return AttendedRendezvous(rendezvous_handler_registry.create_handler(inner), looks)


class AttendedRendezvous(RendezvousHandler):
    """Does what another rendezvous does, and looks."""

    def __init__(self, inner: RendezvousHandler, looks: Iterable[Callable[[], None]]) -> None:
        """Attend a rendezvous.

        Args:
            inner: the other one.
            looks: may raise what ends the run.
        """
        self._inner, self._looks = inner, looks

    @property
    def use_agent_store(self) -> bool:
        """As the other one."""
        return self._inner.use_agent_store

    def get_backend(self) -> str:
        """Return its name."""
        return NAME

    def get_run_id(self) -> str:
        """As the other one."""
        return self._inner.get_run_id()

    def is_closed(self) -> bool:
        """As the other one."""
        return self._inner.is_closed()

    def set_closed(self) -> None:
        """As the other one."""
        self._inner.set_closed()  # type: ignore[no-untyped-call]

    def next_rendezvous(self) -> RendezvousInfo:
        """As the other one."""
        return self._inner.next_rendezvous()

    def num_nodes_waiting(self) -> int:
        """As the other one, after a look."""
        for look in self._looks:
            look()
        return self._inner.num_nodes_waiting()

    def shutdown(self) -> bool:
        """As the other one."""
        return self._inner.shutdown()
