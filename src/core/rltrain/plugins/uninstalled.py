"""Plugins that no distribution provides: of a test, or of a script."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from rltrain.errors import UsageError
from rltrain.plugins.installed import GROUP, InstalledPlugin

__all__ = ["MODULES", "check_travel", "given", "given_plugins", "without_given"]

MODULES = "RLTRAIN_MODULES"
"""The variable that names modules that are plugins, separated by commas: ranks inherit it."""

_HERE: list[tuple[object, InstalledPlugin]] = []
"""What is given in this process."""


@contextlib.contextmanager
def given(plugins: Iterable[object]) -> Iterator[None]:
    """Use plugins inside as if they were installed, here and on ranks that are started here.

    Args:
        plugins: modules, or objects with the hook `rltrain_provides`. Such an object is found in
            this process only. One that is installed, too, is not found twice.
    """
    before, saved = _HERE[:], os.environ.get(MODULES)
    _HERE.extend((each, _plugin(_name(each), each)) for each in plugins)
    names = [each.__name__ for each, _ in _HERE if isinstance(each, ModuleType)]
    os.environ[MODULES] = ",".join(dict.fromkeys([*_named(), *names]))
    try:
        yield
    finally:
        _HERE[:] = before
        del os.environ[MODULES]
        os.environ.update({} if saved is None else {MODULES: saved})


@contextlib.contextmanager
def without_given(options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a run's options without the plugins that they give, which are used inside."""
    plugins = options.get("plugins", ())
    if isinstance(plugins, Mapping):  # Options of plugins, by name.
        yield dict(options)
        return
    with given(plugins):
        yield {name: value for name, value in options.items() if name != "plugins"}


def given_plugins() -> list[InstalledPlugin]:
    """Return the plugins that are given."""
    here = {name for each, _ in _HERE for name in [_name(each)]}
    inherited = [_plugin(name, None) for name in _named() if name not in here]
    return [*(plugin for _, plugin in _HERE), *inherited]


def check_travel() -> None:
    """Refuse to start ranks that would not find a plugin that is given here.

    Raises:
        UsageError: it is no module, or none that another process can import.
    """
    for each, _ in _HERE:
        if not (isinstance(each, ModuleType) and _is_found(each)):
            raise UsageError(
                f"plugins: {_name(each)} cannot be imported by ranks, which are processes of their "
                "own. Put it in a module in a folder of PYTHONPATH, or train on fake ranks."
            )


def _is_found(module: ModuleType) -> bool:
    """Whether a process with the same sys.path imports the same file under the module's name."""
    package = sys.modules.get(module.__name__.rpartition(".")[0])
    places = getattr(package, "__path__", None)
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    found = (find(module.__name__, places) for find in finders if find is not None)
    spec = next(filter(None, found), None)
    return spec is not None and spec.origin == getattr(module, "__file__", None)


def _plugin(name: str, plugin: object | None) -> InstalledPlugin:
    point = importlib.metadata.EntryPoint(name, name, GROUP)
    return InstalledPlugin(point, name, "(given)", (), plugin)


def _name(plugin: object) -> str:
    return str(getattr(plugin, "__name__", type(plugin).__name__))


def _named() -> list[str]:
    return [name.strip() for name in os.environ.get(MODULES, "").split(",") if name.strip()]
