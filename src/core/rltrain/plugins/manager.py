"""The plugins of one run, on their own plugin manager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pluggy

from rltrain.config import RunConfig
from rltrain.errors import PluginError, UsageError
from rltrain.hookspecs import RunHooks
from rltrain.plugins.contract import breaches, face_of
from rltrain.plugins.options import make_plugin
from rltrain.plugins.registry import Registry
from rltrain.plugins.usual import frameworks, usual_of
from rltrain.policy import Exporter
from rltrain.specs import (
    BackendSpec,
    GradientSyncSpec,
    LibrarySpec,
    ObserverSpec,
    Spec,
    SuiteSpec,
    WriterSpec,
    load_object,
)
from rltrain.types import Arrays

__all__ = ["RunPlugins", "arrays_by_framework", "chosen_specs", "exporters"]


def chosen_specs(config: RunConfig, registry: Registry) -> list[Spec]:
    """Return the specs of the plugins that a run's ranks load."""
    return [
        registry.get(BackendSpec, config.backend),
        registry.get(GradientSyncSpec, config.grad_sync),
        registry.get(LibrarySpec, config.library),
        registry.get(SuiteSpec, config.suite),
        *(registry.get(WriterSpec, name) for name in config.writers),
        *(registry.get(ObserverSpec, name) for name in config.observers),
    ]


def arrays_by_framework(registry: Registry, backend: str | None = None) -> dict[str, Arrays]:
    """Return what handles the arrays of each framework that an installed backend knows.

    A state may hold arrays of another framework than the run's: a simulator has its own.

    Args:
        registry: the installed plugins.
        backend: that of the run.
    """
    named = {each: usual_of(registry, each, "arrays", backend) for each in frameworks(registry)}
    return {each: load_object(path)() for each, path in named.items() if path is not None}


def exporters(registry: Registry, backend: str) -> dict[str, Exporter]:
    """Return the exporter of each framework, where backends name one.

    Args:
        registry: the installed plugins.
        backend: that of the run.
    """
    named = {each: usual_of(registry, each, "exporter", backend) for each in frameworks(registry)}
    return {each: load_object(path)() for each, path in named.items() if path is not None}


class RunPlugins:
    """The plugins of one run: exactly those that were chosen, on their own plugin manager."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager("rltrain")
        self._manager.add_hookspecs(RunHooks)

    @property
    def hook(self) -> Any:
        """The callers of the run hooks."""
        return self._manager.hook

    def choose(self, spec: Spec, options: Mapping[str, Mapping[str, Any]] | None = None) -> Any:
        """Load a spec's class, create an object, and register its hooks.

        Args:
            spec: the plugin's spec.
            options: the options that the user set, by plugin's name.

        Raises:
            UsageError: an option is wrong.
            PluginError: the class cannot be loaded or lacks a hook that its kind must implement.
        """
        label = f"{spec.kind} {spec.name!r} ({spec.factory})"
        try:
            plugin = make_plugin(spec, options or {})
        except UsageError:
            raise
        except Exception as error:
            raise PluginError(
                f"The {label} could not be loaded: {type(error).__name__}: {error}"
            ) from error
        self.register(plugin, f"{spec.kind}:{spec.name}", label, type(spec).requires)
        return plugin

    def register(
        self, plugin: object, name: str, label: str = "", requires: Iterable[str] = ()
    ) -> None:
        """Register an object's hooks under a unique name.

        Raises:
            PluginError: it implements a hook that does not exist, or one with wrong arguments, or
                lacks one that it must implement.
        """
        broken = list(breaches(face_of(plugin), requires))
        if broken:
            raise PluginError(f"The {label or name} breaks the hook contract: {' '.join(broken)}")
        self._manager.register(plugin, name=name)

    def call_each(self, hook: str, **arguments: Any) -> dict[str, BaseException | None]:
        """Call a hook of every plugin, even if one raises; return the errors by plugin's name."""
        errors: dict[str, BaseException | None] = {}
        for name, call in self._by_plugin(hook).items():
            errors[name] = None
            try:
                call(**arguments)
            except BaseException as error:
                errors[name] = error
        return errors

    def collect(self, hook: str, **arguments: Any) -> dict[str, Any]:
        """Call a hook of every plugin; return the results that are not None by plugin's name."""
        called = {name: call(**arguments) for name, call in self._by_plugin(hook).items()}
        return {name: results[0] for name, results in called.items() if results}

    def call_with_state(self, hook: str, states: Mapping[str, Any], **arguments: Any) -> None:
        """Call a hook of each plugin that `states` names, with the plugin's own state."""
        for name, call in self._by_plugin(hook).items():
            if name in states:
                call(state=states[name], **arguments)

    def _by_plugin(self, hook: str) -> dict[str, Any]:
        """Return, by plugin's name, a caller that calls only this plugin's implementation."""
        named = [(name, x) for name, x in self._manager.list_name_plugin() if x is not None]
        return {
            name: self._manager.subset_hook_caller(hook, [x for _, x in named if x is not plugin])
            for name, plugin in named
        }

    def first(self, hook: str, origin: str, **arguments: Any) -> Any:
        """Call a first-result hook.

        Raises:
            PluginError: the result is None.
        """
        result = getattr(self._manager.hook, hook)(**arguments)
        if result is None:
            raise PluginError(f"{hook} returned None; it is implemented by the {origin}.")
        return result
