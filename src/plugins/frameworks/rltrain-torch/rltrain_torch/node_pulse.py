"""Signs of life of nodes that number themselves, in a store that they share."""

from __future__ import annotations

import threading
import time

from torch.distributed.distributed_c10d import Store

_BEAT = 2.0
"""Seconds between two signs of life that the other nodes watch."""

_LONGEST = 20.0
"""Seconds in which the store answers a call, or counts as gone."""


class NodePulse:
    """Gives signs of life, and looks for those of other nodes, in a thread."""

    def __init__(self, store: Store, name: str, silence: float) -> None:
        """Begin to give signs of life.

        Args:
            store: for these; nobody else may use it.
            name: of this node; it begins with the host's.
            silence: seconds after which a node without a sign of life is lost.
        """
        self._store, self._name, self._silence = store, name, silence
        self._heard: dict[str, tuple[int, float]] = {}
        """By node, its last sign of life and when it was new."""
        self._looked = 0.0
        """When this thread last looked: if it cannot, it is not the others that are silent."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="rltrain-pulse", daemon=True)
        self._thread.start()

    def watch(self, names: set[str]) -> None:
        """Watch these nodes from now on, and no others."""
        now = time.monotonic()
        self._heard = {name: (-1, now) for name in names}

    def lost(self) -> list[str]:
        """Return the host names of the nodes that are lost."""
        oldest = self._looked - self._silence
        return [name.split()[0] for name, (_, when) in self._heard.items() if when < oldest]

    def stop(self) -> None:
        """Stop, and wait for the thread: at exit, Python cannot end one that is in the store."""
        self._stopped.set()
        self._thread.join(_LONGEST)

    def _beat(self) -> None:
        while not self._stopped.is_set():
            try:
                self._store.add(self._name, 1)
                self._look()
            except RuntimeError:
                return  # The node with the store is gone: torch elastic notices it, too.
            self._stopped.wait(_BEAT)

    def _look(self) -> None:
        heard = self._heard  # `watch` may put another in its place.
        for name, (before, _) in heard.items():
            count = self._store.add(name, 0)
            if count != before:
                heard[name] = count, time.monotonic()
        self._looked = time.monotonic()
