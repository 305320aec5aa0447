"""The plugins of one run: which they are, what is usual for its framework, and their hooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pluggy

from rltrain.config import RunConfig
from rltrain.errors import PluginError, UsageError
from rltrain.hookspecs import RunHooks
from rltrain.plugins.installed import register
from rltrain.plugins.options import make_plugin
from rltrain.plugins.registry import Registry
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


def usual_of(
    registry: Registry,
    framework: str,
    what: Literal["launcher", "grad_sync", "arrays", "exporter"],
    backend: str | None = None,
) -> str | None:
    """Return what the run's backend names in a field, else what the framework's usual ones do.

    It is never the first by name. Of the usual ones, the one for the same kind of device comes
    first, or for the CPU. Only where a framework has no usual backend do its others count. Raises
    `UsageError` if they name several.
    """
    specs = [spec for spec in registry.all(BackendSpec) if spec.framework == framework]
    own = [spec for spec in specs if spec.name == backend]
    device = own[0].device if own else "cpu"
    of_usual = [spec for spec in specs if spec.is_default]
    of_device = [spec for spec in of_usual if spec.device == device]
    for group in (own, of_device, of_usual, specs):
        named = {str(name): spec for spec in group if (name := getattr(spec, what)) is not None}
        if len(named) > 1:
            backends = ", ".join(f"{spec.name} names {name}" for name, spec in named.items())
            raise UsageError(
                f"The usual {what.replace('_', ' ')} of {framework} is not clear: {backends}. "
                "Leave one of their plugins out with --no-plugin, or name it where there is a flag."
            )
        if named:
            return next(iter(named))
    return None


def arrays_by_framework(registry: Registry, backend: str | None = None) -> dict[str, Arrays]:
    """Return what handles the arrays of each framework that an installed backend knows.

    A state may hold arrays of another framework than the run's: a simulator has its own.
    """
    return _made(registry, "arrays", backend)


def exporters(registry: Registry, backend: str) -> dict[str, Exporter]:
    """Return the exporter of each framework for which backends, first the run's, name one."""
    return _made(registry, "exporter", backend)


def _made(
    registry: Registry, what: Literal["arrays", "exporter"], backend: str | None
) -> dict[str, Any]:
    frameworks = sorted({spec.framework for spec in registry.all(BackendSpec)})
    named = {each: usual_of(registry, each, what, backend) for each in frameworks}
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

    def __getitem__(self, name: str) -> Any:
        """Return what was registered under a name, such as "observer:video"."""
        return self._manager.get_plugin(name)

    def choose(self, spec: Spec, options: Mapping[str, Mapping[str, Any]] | None = None) -> Any:
        """Load a spec's class, create an object with its options, and register its hooks."""
        plugin = make_plugin(spec, options or {})
        name, label = f"{spec.kind}:{spec.name}", f"{spec.kind} {spec.name!r} ({spec.factory})"
        self.register(plugin, name, label, type(spec).requires)
        for caller in self._manager.get_hookcallers(plugin) or ():
            answers = [x for x in caller.get_hookimpls() if x.plugin is plugin and not x.wrapper]
            first = caller.spec is not None and caller.spec.opts["firstresult"]
            if isinstance(spec, ObserverSpec) and first and answers:
                raise PluginError(
                    f"The {label}: {caller.name}: another plugin answers: wrap it, with "
                    "@rltrain.hookimpl(wrapper=True)."
                )
        return plugin

    def register(
        self, plugin: object, name: str, label: str = "", requires: Iterable[str] = ()
    ) -> None:
        """Register an object's hooks under a unique name, if it has those that it must have."""
        broken = f"The {label or name} breaks the hook contract:"
        try:
            register(self._manager, plugin, name)
        except PluginError as error:
            raise PluginError(f"{broken} {error}") from error
        hooks = {caller.name for caller in self._manager.get_hookcallers(plugin) or ()}
        for each in requires:
            is_hook = each.startswith("rltrain_")
            if each not in hooks if is_hook else not callable(getattr(plugin, each, None)):
                self._manager.unregister(name=name)
                mark = " with @rltrain.hookimpl" if is_hook else ""
                raise PluginError(f"{broken} implement {each}{mark}.")

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
        """Call a first-result hook, whose result must not be None."""
        caller = getattr(self._manager.hook, hook)
        result = caller(**arguments)
        if result is None:
            wrapping = [x.plugin_name for x in caller.get_hookimpls() if x.wrapper]
            also = f", and wrapped by {', '.join(wrapping)}: each must return it" * bool(wrapping)
            raise PluginError(f"{hook} returned None; it is implemented by the {origin}{also}.")
        return result
