"""The one place that gives skrl's models other methods."""

from __future__ import annotations

import types
from typing import Any


def extend(model: Any, mixin: type[Any]) -> None:
    """Move a model to a subclass of its class, with a mixin before it.

    skrl's model instantiators define a model's class inside a function and return an instance
    (skrl 2.1): neither the Runner nor the instantiators take another base class. The contract
    tests hold what this relies on: the model looks up its methods on its class, and `clone` of
    flax makes copies with `type(model).__init__`.

    Args:
        model: of skrl, torch or jax.
        mixin: the methods that go before the model's own. It may not be a model itself.
    """
    base = type(model)
    # Without an `__init__` in its own namespace, a subclass of a flax module is given another.
    namespace = {"__init__": base.__init__, "__module__": mixin.__module__}
    name = f"{mixin.__name__}{base.__name__}"
    model.__class__ = types.new_class(name, (mixin, base), {}, lambda x: x.update(namespace))
