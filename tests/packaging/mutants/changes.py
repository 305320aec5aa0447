"""One-line faults of Python's sources, found in their syntax trees."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Change", "changes"]

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}

_OPERATIONS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
}

_NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "ceil": "floor",
    "floor": "ceil",
    "rank": "local_rank",
    "local_rank": "rank",
    "setdefault": "__setitem__",
    "True": "False",
    "False": "True",
}
"""Names that are called, attributes and words, each with another one."""


@dataclass(frozen=True)
class Change:
    """A piece of a file in place of another one."""

    path: Path
    line: int
    start: int
    """Where it begins, in bytes."""
    before: str
    after: str

    def apply(self) -> str:
        source, end = self.path.read_bytes(), self.start + len(self.before.encode())
        assert source[self.start : end].decode() == self.before
        return (source[: self.start] + self.after.encode() + source[end:]).decode()


def changes(path: Path) -> list[Change]:
    """Return all changes of a file, by place."""
    source = path.read_bytes()
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda change: (change.start, change.after))


class _Finder(ast.NodeVisitor):
    """Walks through a file; annotations, decorators and texts are no code that runs."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.found: list[Change] = []
        self._path, self._source = path, source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def _start(self, node: ast.AST) -> int:
        return self._lines[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def _end(self, node: ast.AST) -> int:
        return self._lines[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def _add(self, start: int, end: int, before: str, after: str) -> None:
        at = self._source.find(before.encode(), start, end)
        if at >= 0:
            line = self._source.count(b"\n", 0, at) + 1
            self.found.append(Change(self._path, line, at, before, after))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for each in [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]:
            self.visit(each)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in node.body:
            self.visit(each)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(each, ast.Name) and each.id == "__all__" for each in node.targets):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave a text alone."""

    def visit_Compare(self, node: ast.Compare) -> None:
        before, after = _COMPARISONS[type(node.ops[0])]
        self._add(self._end(node.left), self._start(node.comparators[0]), before, after)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self._add(self._end(node.values[0]), self._start(node.values[1]), *words)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(self._start(node), self._start(node.operand), "not ", "")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _OPERATIONS and not any(map(_is_text, (node.left, node.right))):
            between = self._end(node.left), self._start(node.right)
            self._add(*between, *_OPERATIONS[type(node.op)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        text = self._source[self._start(node) : self._end(node)].decode()
        if text in _NAMES:
            self._add(self._start(node), self._end(node), text, _NAMES[text])
        elif isinstance(node.value, int | float):
            self._add(self._start(node), self._end(node), text, f"({text} + 1)")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
            self._add(
                self._start(node.func), self._end(node.func), node.func.id, _NAMES[node.func.id]
            )
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in _NAMES and isinstance(node.ctx, ast.Load):
            self._add(self._end(node.value), self._end(node), node.attr, _NAMES[node.attr])
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        """Turn a bare condition around; other parts of it are changed on their own."""
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            text = self._source[self._start(node.test) : self._end(node.test)].decode()
            self._add(self._start(node.test), self._end(node.test), text, f"not {text}")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            text = self._source[self._start(node) : self._end(node)].decode()
            self._add(self._start(node), self._end(node), text, "pass")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )
