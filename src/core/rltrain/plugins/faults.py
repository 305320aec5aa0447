"""What is wrong with plugins: a plan refuses what would fail; their authors are told all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rltrain.errors import PluginError, UsageError
from rltrain.plugins.contract import breaches, find_module, imported, read_face
from rltrain.plugins.declared import heavy_for
from rltrain.plugins.options import dataclass_of, describe_options
from rltrain.plugins.registry import Registry
from rltrain.specs import Spec

IMPORT_STRINGS = (
    *("factory", "arrays", "exporter", "refuse", "network", "cannot_share", "count_devices"),
    *("read_checkpoint", "options"),
)
"""The fields of specs that are import strings."""


def faults(spec: Spec) -> Iterator[str]:
    """Yield what a run would fail by, each in a line, without importing it."""
    for module in getattr(spec, "preload", {}).values():
        try:
            find_module(module)
        except PluginError as error:
            yield f"preload: {error}"
    for field in IMPORT_STRINGS:
        if not (path := getattr(spec, field, None)):
            continue
        requires = type(spec).requires if field == "factory" else ()
        try:
            face = read_face(path, requires)
        except PluginError as error:
            yield f"{field}: {error}"
            continue
        if face is not None and field == "factory":
            yield from (f"{path}: {each}" for each in breaches(face, requires))
            if spec.options is not None and face.whole and "__init__" not in face.methods:
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
        if not any(spec is each for each in record.specs):
            continue
        heavy = set(record.heavy)
        if record.plugin is not None and record.plugin.given is None:
            # Its sources tell it too where somebody else had imported that before.
            tops = {name.partition(".")[0] for name in imported(record.plugin.point.module)}
            heavy |= tops & heavy_for(record.plugin)
        if heavy:
            yield (
                f"its module imports {', '.join(sorted(heavy))} whenever plugins are listed. "
                "Import inside functions, or in the factory's module."
            )


def check_chosen(specs: Iterable[Spec], registry: Registry) -> list[str]:
    """Return what is to be told of the plugins of a run."""
    told = []
    for spec in specs:
        label = f"The {spec.kind} {spec.name!r}:"
        for fault in faults(spec):
            raise UsageError(f"{label} {fault} All: `rltrain plugins --check {spec.name}`.")
        told += [f"{label} {each}" for each in lapses(spec, registry)]
    return told
