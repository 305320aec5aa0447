"""What all kits share: rules that state themselves when they are broken, and plugins to judge."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, NoReturn, TypeVar
from unittest.mock import patch

from rltrain.plugins import PluginRecord, adapted, discover, given
from rltrain.specs import KINDS

Test = TypeVar("Test", bound=Callable[..., Any])

_DECLARE = """
import sys
from rltrain.plugins import discover
discover()
print(*(name for name in sys.argv[1:] if name in sys.modules))
"""


def skip(reason: str) -> NoReturn:
    """Skip the running rule: what it is about does not exist."""
    import pytest

    pytest.skip(reason)


def environ() -> dict[str, str]:
    """Return the variables of a process that imports what this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}


def after(*rules: str) -> Callable[[Test], Test]:
    """Judge a rule only if these earlier ones hold: a mistake is reported once."""

    def decorate(test: Test) -> Test:
        test.after = rules  # type: ignore[attr-defined]
        return test

    return decorate


def varied(test: Test) -> Test:
    """Judge a rule for each variant, too: what varies can change the outcome."""
    test.varied = True  # type: ignore[attr-defined]
    return test


def _rule(test: Callable[..., None]) -> Any:
    """Let a test's docstring, which is the rule, begin the message of its failure."""
    rule = "RULE: " + " ".join((test.__doc__ or "").partition("\n\n")[0].split())

    @functools.wraps(test)
    def judged(self: Kit, *arguments: Any, **options: Any) -> None:
        own, earlier = test.__name__ + self._variant, {*getattr(test, "after", ())}
        if self._variant:  # A mistake that shows without it is reported there.
            earlier |= {test.__name__, *(name + self._variant for name in earlier)}
        if broken := self._broken & earlier:
            skip(f"{min(broken)} has failed")
        try:
            test(self, *arguments, **options)
        except Exception as error:
            self._broken.add(own)
            raise AssertionError(f"{rule}\n{type(error).__name__}: {error}") from error

    judged.__doc__ = rule
    return judged


class Kit:
    """Judges plugins, installed or not, by tests whose docstrings are the rules."""

    plugins: ClassVar[Sequence[object]] = ()
    """Plugins that are not installed, as for `rltrain.train`: their modules."""

    _opened: ClassVar[contextlib.ExitStack]
    _broken: ClassVar[set[str]] = set()
    _variant = ""

    def __init_subclass__(cls) -> None:
        """Make rules of a kit's tests, one a variant; an author's own stay as they are."""
        super().__init_subclass__()
        for variant, settings in vars(cls).get("variants", {}).items():
            for name in dir(cls):
                if getattr(getattr(cls, name), "varied", False):
                    setattr(cls, f"{name}[{variant}]", _of_variant(name, variant, settings))
        if cls.__module__.startswith(f"{__package__}."):
            for name, test in list(vars(cls).items()):
                if name.startswith("test_"):
                    setattr(cls, name, _rule(test))

    @classmethod
    def setup_class(cls) -> None:
        """Let the plugins be found. What a wrong one sets in this process is undone."""
        cls._broken = set()
        cls._opened = contextlib.ExitStack()
        cls._opened.enter_context(patch.dict(os.environ))
        cls._opened.enter_context(given(cls.plugins))

    @classmethod
    def teardown_class(cls) -> None:
        """Forget them."""
        cls._opened.close()

    @_rule
    def test_declaring_is_light(self) -> None:
        """Declaring the plugin imports no tensor framework, no numpy and no simulator."""
        registry = discover()
        for kind in KINDS.values():
            name = getattr(self, kind.kind.replace("gradient_sync", "grad_sync"), None)
            if name is None:
                continue
            spec = registry.get(kind, name)
            (record,) = (record for record in registry.records if spec in record.specs)
            module = record.plugin and record.plugin.given
            if module is not None and not isinstance(module, ModuleType):
                skip("the plugin is an object: give the module that it is to be published in")
            imported = heavy_imports(record)
            assert not imported, (
                f"the plugin {record.name!r} imports {', '.join(imported)} when plugins are "
                "listed. Import inside functions, or in the factory's module, which an import "
                "string names."
            )


def _of_variant(name: str, variant: str, settings: Mapping[str, Any]) -> Callable[[Kit], None]:
    def test(self: Kit) -> None:
        for setting, value in settings.items():
            own = getattr(self, setting)
            setattr(self, setting, {**own, **value} if isinstance(value, Mapping) else value)
        self._variant = f"[{variant}]"
        getattr(self, name)()

    return test


def heavy_imports(record: PluginRecord) -> list[str]:
    """Return what heavy a plugin's module imports in a child process that lists it alone."""
    requires = record.plugin.requires if record.plugin is not None else ()
    adapts = [each.name.replace("-", "_") for each in adapted(requires, record.name)]
    child = subprocess.run(
        [sys.executable, "-c", _DECLARE, "gymnasium", "jax", "numpy", "torch", *adapts],
        env={**environ(), "RLTRAIN_PLUGINS": record.name},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not child.returncode, child.stderr
    return child.stdout.split()
