"""Tasks that installed packages register with Gymnasium when imported, told by their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions

from rltrain_adapters.sources import mentions, registered_names

_NEEDS_GYMNASIUM = re.compile(r"gymnasium(?![\w.-])(?!.*\bextra\b)", re.IGNORECASE)


def tasks_of_packages(module: str | None = None) -> list[str]:
    """Return the names "module:Name-v0" in the packages that need Gymnasium; none is imported.

    Those of Isaac Lab's projects are the suite `isaaclab`'s.
    """
    if module is not None:
        return [f"{module}:{name}" for name in registered_names(module, "register", "id")]
    modules = {
        module
        for package in distributions()
        if any(_NEEDS_GYMNASIUM.match(needed) for needed in package.requires or ())
        for module in _modules(package)
    }
    return [
        f"{module}:{name}"
        for module in sorted(modules)
        if not mentions(module, "env_cfg_entry_point")
        for name in registered_names(module, "register", "id")
        if re.search(r"-v\d+$", name)
    ]


def _modules(package: Distribution) -> Iterator[str]:
    yield from (package.read_text("top_level.txt") or "").split()
    for path in package.files or ():
        if path.suffix == ".py" and len(path.parts) > 1:
            yield path.parts[0]
