"""The contract documents itself: every hook has types, a description and an example."""

from __future__ import annotations

import inspect

import pytest

from rltrain.hookspecs import DeclarationHooks, RunHooks
from rltrain.specs import KINDS

HOOKS = {
    name: hook
    for hooks in (DeclarationHooks, RunHooks)
    for name, hook in vars(hooks).items()
    if name.startswith("rltrain_")
}


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_typed_documented_and_has_an_example(name):
    signature = inspect.signature(HOOKS[name])
    text = inspect.getdoc(HOOKS[name])
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in list(signature.parameters.values())[1:]:
        assert parameter.annotation is not inspect.Parameter.empty
        assert f"`{parameter.name}`" in text or parameter.name == "session"
    example = text.partition("Example:")[2]
    assert f"def {name}(" in example
    assert "@hookimpl" in example


def test_required_hooks_exist():
    known = set(HOOKS) | {"launch", "add_arguments", "run"}
    for kind in KINDS.values():
        assert set(kind.requires) <= known
        assert kind.requires or kind.kind in ("cluster", "observer")
