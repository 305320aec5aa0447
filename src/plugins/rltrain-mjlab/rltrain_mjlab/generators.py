"""Random numbers of one batch of environments, apart from everybody else's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

__all__ = ["OwnGenerators"]


class OwnGenerators:
    """A place of its own in the global generators, from which mjlab draws.

    What a library draws does not depend on how mjlab's environments are stepped in between, nor
    they on what it draws.
    """

    def __init__(self, device: str) -> None:
        """Begin where the generators are now.

        Args:
            device: whose generator of torch is used, beside that of the processor.
        """
        self._device = torch.device(device)
        self._states = self._get()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have the global generators go on from here, and then put them back."""
        others = self._get()
        self._set(self._states)
        try:
            yield
        finally:
            self._states = self._get()
            self._set(others)

    def _get(self) -> tuple[Any, ...]:
        on_device = None
        if self._device.type == "cuda":
            on_device = torch.cuda.get_rng_state(self._device)
        return random.getstate(), np.random.get_state(), torch.get_rng_state(), on_device

    def _set(self, states: tuple[Any, ...]) -> None:
        of_python, of_numpy, of_torch, on_device = states
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        torch.set_rng_state(of_torch)
        if on_device is not None:
            torch.cuda.set_rng_state(on_device, self._device)
