"""The values that the installed skrl takes as words, read from its sources, and as expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from rltrain.options import flatten
from rltrain.specs import Choices
from rltrain_adapters.sources import texts_in

_SCALER = Choices("preprocessor", ("RunningStandardScaler", "None"))
_NOISE = Choices("noise", ("GaussianNoise", "OrnsteinUhlenbeckNoise", "None"))
_CLASSES = {
    "learning_rate_scheduler": Choices("scheduler", ("KLAdaptiveLR", "None")),
    **dict.fromkeys((f"{x}_preprocessor" for x in ("observation", "state", "value")), _SCALER),
    **dict.fromkeys(("exploration_noise", "smooth_regularization_noise"), _NOISE),
}
"""Of an agent, by option, the classes that skrl's Runner imports."""

_NONE = ("", "None")
"""Words for no activation: skrl has any that it does not know for one."""

_COMMON = tuple(f"skrl.utils.model_instantiators.{x}.common" for x in ("torch", "jax"))


def choices(options: Mapping[str, Any]) -> dict[str, Choices]:
    """Return skrl's words by dotted key; see `OptionSchema.choices`.

    skrl itself silently leaves out an activation that it does not have.
    """
    agent = options.get("agent")
    agent = agent if isinstance(agent, Mapping) else {}
    names = frozenset().union(*(texts_in(module, "activations") for module in _COMMON)) - {""}
    activations = Choices("activation", names, ignore_case=True)
    components = texts_in("skrl.utils.runner.torch.runner", "component")
    models = Choices("model", {x for x in components if x.endswith("mixin")}, ignore_case=True)
    # A value with a call is an expression, which the Runner evaluates.
    found = {f"agent.{x}": each for x, each in _CLASSES.items() if "(" not in str(agent.get(x))}
    for key, value in flatten({"models": options.get("models") or {}}):
        if key.endswith(".class"):
            found[key] = models
        elif key.endswith(".activations"):
            several = isinstance(value, list)
            each = {f"{key}.{n}": x for n, x in enumerate(value)} if several else {key: value}
            found |= {place: activations for place, word in each.items() if word not in _NONE}
    return found


_EXPRESSIONS = ("input", "output", "exploration_scheduler")
"""Options that skrl runs as Python, by its `exec` and `eval`."""

_FUNCTIONS = frozenset(
    {
        *("concatenate", "permute", "one_hot_encoding", "min", "max", "abs"),
        *("elu", "leaky_relu", "relu", "selu", "sigmoid", "softmax", "softplus", "softsign"),
        "tanh",
    }
)

_NODES = (
    *(ast.Expression, ast.Load, ast.Name, ast.Constant, ast.Call),
    *(ast.List, ast.Tuple, ast.Subscript, ast.Slice),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult),
    *(ast.UnaryOp, ast.UAdd, ast.USub),
)
"""No attribute, no lambda, no comprehension: a call is that of a function in `_FUNCTIONS`."""


def only_computes(key: str, text: str) -> bool:
    """Return whether an option is an expression that only computes with arrays and numbers."""
    # Comments are no part of the tree; what follows one may be code for a reader that joins lines.
    if key.rpartition(".")[2] not in _EXPRESSIONS or "#" in text or not text.isprintable():
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_safe_value(node) for node in ast.walk(tree))


def _is_safe_value(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        return named and not node.keywords
    if isinstance(node, ast.Name):
        return "__" not in node.id and node.id.isascii()
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.fullmatch(r"\w*", node.value, re.ASCII) is not None
    return isinstance(node, _NODES)
