"""What is wrong with a plugin, for its author: what a run would fail by, and what should not be."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rltrain.errors import PluginError, in_a_line
from rltrain.plugins.contract import breaches
from rltrain.plugins.declared import heavy_for
from rltrain.plugins.installed import InstalledPlugin
from rltrain.plugins.options import dataclass_of, describe_options
from rltrain.plugins.registry import Registry
from rltrain.specs import Spec, load_object

IMPORT_STRINGS = (
    *("factory", "arrays", "exporter", "refuse", "network", "cannot_share", "count_devices"),
    *("read_checkpoint", "options"),
)
"""The fields of specs that are import strings."""


def faults(spec: Spec) -> Iterator[str]:
    """Yield what a run would fail by, each in a line. It imports what the spec names."""
    preload = getattr(spec, "preload", None) or {}
    preloaded = [preload] if isinstance(preload, str) else preload.values()
    named = [("preload", f"{module}:__name__") for module in preloaded]
    named += [(field, path) for field in IMPORT_STRINGS if (path := getattr(spec, field, None))]
    for field, path in named:
        try:
            found = load_object(path)
        except (ImportError, PluginError) as error:
            yield f"{field}: {path}: {error}"
            continue
        except Exception as error:
            yield f"{field}: {path} raises {in_a_line(error)}."
            continue
        if field == "factory" and isinstance(found, type):
            yield from (f"{path}: {each}" for each in breaches(found, type(spec).requires))
            if spec.options is not None and found.__init__ is object.__init__:  # type: ignore[misc]
                yield f"{path}: is given its options, {spec.options}: write an __init__ for them."
        if field == "options":
            try:
                dataclass_of(spec)
            except PluginError as error:
                yield str(error)


def lapses(spec: Spec, registry: Registry) -> Iterator[str]:
    """Yield what does not keep a plugin without faults from running, but should not be."""
    if spec.options is not None:
        cls: Any = dataclass_of(spec)
        if not cls.__dataclass_params__.frozen:
            yield f"{spec.options}: make it @dataclass(frozen=True): a run's options are fixed."
        if bare := [option.key for option in describe_options(spec) if not option.help]:
            yield (
                f"{', '.join(bare)}: say under the field in {spec.options} what it is, in a "
                f"docstring, for `rltrain plugins {spec.name}`."
            )
    for record in registry.records:
        if record.plugin is None or not any(spec is each for each in record.specs):
            continue
        # Its sources tell it too where something else had imported that before.
        if heavy := {*record.heavy} | (_imported(record.plugin) & heavy_for(record.plugin)):
            yield (
                f"its module imports {', '.join(sorted(heavy))} whenever plugins are listed. "
                "Import inside functions, or in the factory's module."
            )


def _imported(plugin: InstalledPlugin) -> set[str]:
    """Return the packages that a plugin's module imports first of all, as its sources say."""
    spec = importlib.util.find_spec(plugin.point.module) if plugin.given is None else None
    if spec is None or not str(spec.origin).endswith(".py"):
        return set()
    nodes = ast.parse(Path(str(spec.origin)).read_bytes()).body
    names = [each.name for x in nodes if isinstance(x, ast.Import) for each in x.names]
    names += [str(x.module) for x in nodes if isinstance(x, ast.ImportFrom) and not x.level]
    return {name.partition(".")[0] for name in names}
