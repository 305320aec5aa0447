"""Which of skrl's expressions only compute. skrl runs them as Python (its `exec` and `eval`)."""

from __future__ import annotations

import ast
import re

_KEYS = ("input", "output", "exploration_scheduler")
"""Options that are expressions."""

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
    if key.rpartition(".")[2] not in _KEYS or "#" in text or not text.isprintable():
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_harmless(node) for node in ast.walk(tree))


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        named = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        return named and not node.keywords
    if isinstance(node, ast.Name):
        return "__" not in node.id and node.id.isascii()
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.fullmatch(r"\w*", node.value, re.ASCII) is not None
    return isinstance(node, _NODES)
