"""What is usual for a framework, as its backends declare it: never the first by name."""

from __future__ import annotations

from typing import Literal

from rltrain.errors import UsageError
from rltrain.plugins.registry import Registry
from rltrain.specs import BackendSpec

__all__ = ["frameworks", "usual_of"]

What = Literal["launcher", "grad_sync", "arrays", "exporter", "refuse"]


def usual_of(
    registry: Registry, framework: str, what: What, backend: str | None = None
) -> str | None:
    """Return what the run's backend names, else what the framework's usual backends do.

    Of these, the one for the same kind of device comes first, or for the CPU. Only where a
    framework has no usual backend do its others count.

    Args:
        registry: the installed plugins.
        framework: the tensor framework.
        what: the field of `BackendSpec`.
        backend: the run's backend, if it is known.

    Raises:
        UsageError: they name several.
    """
    specs = [spec for spec in registry.all(BackendSpec) if spec.framework == framework]
    own = [spec for spec in specs if spec.name == backend]
    device = own[0].device if own else "cpu"
    of_usual = [spec for spec in specs if spec.usual]
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


def frameworks(registry: Registry) -> list[str]:
    """Return the frameworks that installed backends know, sorted."""
    return sorted({spec.framework for spec in registry.all(BackendSpec)})
