"""The building blocks of configurations."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from dataclasses import MISSING


def configclass(cls):
    """Make a dataclass whose defaults may be mutable or missing, and need no annotation."""
    own = {name: value for name, value in vars(cls).items() if _is_field(cls, name, value)}
    annotations = inspect.get_annotations(cls)
    cls.__annotations__ = {**{name: "object" for name in own}, **annotations}
    for name in cls.__annotations__:
        value = vars(cls).get(name, MISSING)
        setattr(cls, name, dataclasses.field(default_factory=lambda v=value: copy.deepcopy(v)))
    cls.to_dict = lambda self: to_dict(self)
    return dataclasses.dataclass(cls)


def _is_field(cls, name, value):
    return not name.startswith("__") and not isinstance(value, type) and not callable(value)


def to_dict(value):
    """Convert to a dictionary; like Isaac Lab's, it turns MISSING into an empty mapping."""
    if value is MISSING:
        return {}
    if dataclasses.is_dataclass(value):
        return {field.name: to_dict(getattr(value, field.name)) for field in _fields(value)}
    if isinstance(value, dict):
        return {name: to_dict(part) for name, part in value.items()}
    return value


def _fields(value):
    return dataclasses.fields(value)
