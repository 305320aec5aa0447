"""A made-up framework: arrays that are numpy's, and may be on a device that is not the host."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest


class OfKind:
    """Tests that hold for every kind of arrays: here those of numpy."""

    arrays: Any = None
    """See `rltrain.types.Arrays`."""
    make = staticmethod(np.array)
    """Makes an array of a list."""

    @pytest.fixture
    def array(self):
        made = functools.partial(self.make)
        made.arrays = self.arrays
        return made


class Tensor(np.ndarray):
    """An array of the framework; what is computed from it is one, too."""

    device = "cpu"

    def __array_finalize__(self, made_from):
        self.device = getattr(made_from, "device", "cpu")


def tensor(values, device="cpu", dtype=None):
    made = np.array(values, dtype).view(Tensor)
    made.device = device
    return made


class MadeUpArrays:
    """See `rltrain.types.Arrays`."""

    def owns(self, x):
        return isinstance(x, Tensor)

    def to_host(self, x):
        return x.view(np.ndarray), x.device == "cpu"

    def view_on_host(self, x):
        return x

    def from_host(self, array, device):
        return tensor(array, device)

    def zeros_like(self, x):
        return np.zeros_like(x)

    def floats(self, values):
        return tuple(map(float, values))

    def finite(self, x):
        return np.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)

    def norms(self, gradients):
        if not any(gradient is not None for gradient in gradients):
            return None
        return tensor([0.0 if x is None else np.abs(x).max() for x in gradients])

    def names(self, parameters, models):
        """Models are mappings of parameters by name."""
        named = {
            id(parameter): f"{role}.{name}"
            for role, model in models.items()
            for name, parameter in model.items()
        }
        return [named.get(id(x), f"parameter {index}") for index, x in enumerate(parameters)]

    def compile(self, function):
        return np.errstate(all="ignore")(function)
