"""Separates the random numbers of one batch of environments from all others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


class SeparateGenerators:
    """A separate state of the global generators, for mjlab, which draws only from those.

    So the random numbers of a library do not depend on mjlab's steps in between, nor mjlab's on
    the library's.
    """

    def __init__(self, device: str) -> None:
        """Start from the current state of the global generators.

        Args:
            device: the device whose torch generator is included, besides the CPU's.
        """
        self._device = torch.device(device)
        self._states = self._get()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Use this state in the global generators, and restore theirs at the end."""
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
