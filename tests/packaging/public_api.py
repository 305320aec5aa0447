"""The public API: names, arguments, fields.

    python tests/packaging/public_api.py

writes them to `public_api.txt`, so that who reads a change sees what it does to plugins.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rltrain.specs import KINDS

__all__ = ["FILE", "current", "written"]

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("public_api.txt")
PAGES = ROOT / "docs/reference"
MODULES = re.findall(r"^\| \[?`([\w.]+)`", (PAGES / "public-api.md").read_text(), re.MULTILINE)
SHOWN = {
    module: re.findall(r"^      members: \[(.*)\]", block, re.MULTILINE)
    for page in sorted(PAGES.glob("*.md"))
    for module, block in re.findall(
        r"^::: ([a-z_.]+)\n((?:    .*\n)*)", page.read_text(), re.MULTILINE
    )
}
"""By module that a page shows, the names that it shows; none if it shows `__all__`."""

Api = Mapping[str, list[str] | None]
"""By dotted name, what it takes: "x", or "x=VALUE" where it has a default; None if it cannot be
called. Of a class, what its constructor takes."""


def current() -> dict[str, list[str] | None]:
    """Return the public API of the modules that the page names and that are installed."""
    found: dict[str, list[str] | None] = {}
    for module in dict.fromkeys([*MODULES, *SHOWN]):
        loaded = importlib.import_module(module)
        shown = [name for names in SHOWN.get(module, ()) for name in names.split(", ")]
        listed = module in MODULES or not shown
        for name in {*shown, *(getattr(loaded, "__all__", ()) if listed else ())}:
            found.update(_described(f"{module}.{name}", getattr(loaded, name)))
    for kind, spec in KINDS.items():
        found.update({f"a {kind} must implement {name}": None for name in spec.requires})
    return dict(sorted(found.items()))


def _described(name: str, value: Any) -> Iterator[tuple[str, list[str] | None]]:
    if not inspect.isclass(value):
        yield name, _takes(value) if inspect.isroutine(value) else None
        return
    is_protocol = getattr(value, "_is_protocol", False)
    # That of an exception is Python's, unless it is ours.
    yield name, None if is_protocol or not _is_ours(value, "__init__") else _takes(value)
    is_data = dataclasses.is_dataclass(value)
    fields = {each.name for each in dataclasses.fields(value)} if is_data else set()
    for member in sorted({each for each in dir(value) if not each.startswith("_")} - fields):
        found = inspect.getattr_static(value, member)
        function = getattr(found, "__func__", found)
        if _is_ours(value, member):
            yield f"{name}.{member}", _takes(function) if inspect.isfunction(function) else None
    for each in value.__mro__:
        if each.__module__.startswith("rltrain"):
            for member in inspect.get_annotations(each).keys() - fields:
                if not member.startswith("_"):  # Which need no value.
                    yield f"{name}.{member}", None


def _is_ours(value: type, member: str) -> bool:
    """Whether a member is defined in one of our classes, not in a library's or Python's."""
    owner = next(each for each in value.__mro__ if member in vars(each))
    return owner.__module__.partition(".")[0].startswith("rltrain")


def _takes(function: Any) -> list[str]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    described = []
    for each in parameters:
        by_name = "--" if each.kind is inspect.Parameter.KEYWORD_ONLY else ""
        default = "" if each.default is inspect.Parameter.empty else f"={_shown(each.default)}"
        described.append(f"{stars.get(each.kind, by_name)}{each.name}{default}")
    return [each for each in described if each not in ("self", "cls") and each[0] != "_"]


def _shown(default: Any) -> str:
    simple = isinstance(default, str | int | float | tuple | frozenset | None)
    return re.sub(r"\s+", "", repr(default)) if simple else "..."


def written(api: Api) -> str:
    return "".join(
        f"{name}\n" if takes is None else f"{name}({', '.join(takes)})\n"
        for name, takes in api.items()
    )


if __name__ == "__main__":
    FILE.write_text(written(current()))
    print(f"{FILE.relative_to(ROOT)}: {len(current())} names")
