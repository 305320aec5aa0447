"""A plugin's own options: the dataclass that its spec names, and the values that the user set."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rltrain.errors import PluginError, RltrainError, UsageError, in_a_line, suggest
from rltrain.plugins.installed import is_strict
from rltrain.specs import Spec, load_object

_SECTIONS = ("agent", "env")
"""Prefixes of dotted options that are not plugins' names."""


@dataclass(frozen=True)
class PluginOption:
    """One option of a plugin, as `rltrain plugins NAME` lists it."""

    key: str
    """As the user types it: "csv.flush"."""
    type: str
    default: Any
    help: str
    """The docstring under the field."""


def make_plugin(spec: Spec, given: Mapping[str, Mapping[str, Any]]) -> Any:
    """Load a spec's class and create the object."""
    try:
        factory = load_object(spec.factory)
        return factory(make_options(spec, given)) if spec.options is not None else factory()
    except RltrainError:
        raise
    except Exception as error:
        if is_strict():
            raise
        raise PluginError(
            f"The {spec.kind} {spec.name!r} ({spec.factory}) could not be loaded: it raises "
            f"{in_a_line(error)}."
        ) from error


def make_options(spec: Spec, given: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return an instance of a spec's options, with the values that the user set.

    OmegaConf converts the values to the dataclass' types, as for Hydra's structured configs.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    cls = dataclass_of(spec)
    config = OmegaConf.structured(cls)
    OmegaConf.set_readonly(config, False)  # A frozen dataclass makes a read-only config.
    known = {field.name: _type_of(field) for field in dataclasses.fields(cls)}
    for name, value in given.get(spec.name, {}).items():
        if name not in known:
            raise UsageError(
                f"{spec.name}.{name}: the {spec.kind} {spec.name} has no such option."
                f"{suggest(name, known)} Its options: {', '.join(sorted(known)) or 'none'}."
            )
        try:
            OmegaConf.update(config, name, value)
        except OmegaConfBaseException as error:
            raise UsageError(f"{spec.name}.{name}={value}: must be {known[name]}.") from error
    try:
        return OmegaConf.to_object(config)
    except ValueError as error:  # From __post_init__.
        raise UsageError(f"{spec.name}: {error}") from error
    except Exception as error:
        raise PluginError(f"{spec.options} raises {in_a_line(error)}.") from error


def check_options(specs: Iterable[Spec], given: Mapping[str, Mapping[str, Any]]) -> None:
    """Check all options of the run's plugins, before any rank starts."""
    specs = list(specs)
    for name in given:
        named = [spec for spec in specs if spec.name == name]
        if not named:
            running = sorted({spec.name for spec in specs if spec.options is not None})
            hint = suggest(name, [*running, *_SECTIONS])
            raise UsageError(
                f"{name}: no plugin of this run has this name.{hint} "
                f"Plugins with options: {', '.join(running) or 'none'}. Options of the library are "
                "written agent.key=value, of the task env.key=value."
            )
        if all(spec.options is None for spec in named):
            raise UsageError(f"{name}: the {named[0].kind} {name} has no options.")
    for spec in specs:
        if spec.options is not None:
            make_options(spec, given)


def describe_options(spec: Spec) -> list[PluginOption]:
    """Return a plugin's options with their defaults; none if the spec names no dataclass."""
    if spec.options is None:
        return []
    cls = dataclass_of(spec)
    helps, fields = _docstrings(cls), dataclasses.fields(cls)
    return [
        PluginOption(f"{spec.name}.{x.name}", _type_of(x), _default_of(x), helps.get(x.name, ""))
        for x in fields
    ]


def dataclass_of(spec: Spec) -> type[Any]:
    """Return the dataclass of a spec's options, which it must name."""
    assert spec.options is not None
    label = f"The options of the {spec.kind} {spec.name!r} ({spec.options})"
    cls = load_object(spec.options)
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise PluginError(f"{label} must be a dataclass.")
    lacking = [f.name for f in dataclasses.fields(cls) if _default_of(f) is dataclasses.MISSING]
    if lacking:
        raise PluginError(f"{label} must have a default for each field: {', '.join(lacking)}.")
    return cls


def _type_of(field: dataclasses.Field[Any]) -> str:
    return field.type.__name__ if isinstance(field.type, type) else str(field.type)


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _docstrings(cls: type[Any]) -> dict[str, str]:
    """Return the docstrings below the fields, which Python itself does not keep."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):  # The source is not available.
        return {}
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    found = {}
    for field, after in itertools.pairwise(body):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and is_text:
            found[ast.unparse(field.target)] = inspect.cleandoc(str(after.value.value))  # type: ignore[attr-defined]
    return found
