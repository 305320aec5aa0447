"""What is refused of a resolved run, before any rank starts."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.config import RunConfig
from rltrain.errors import UsageError
from rltrain.options.aliases import chosen_by
from rltrain.plugins.registry import Registry
from rltrain.specs import LibrarySpec, ObserverSpec, Refusal, SuiteSpec
from rltrain.types import TaskInfo

__all__ = ["check_refusals"]


def check_refusals(config: RunConfig, task: TaskInfo, registry: Registry) -> None:
    """Refuse what the run's library or one of its observers says cannot work.

    Raises:
        UsageError: it cannot; the message says why, and what works.
    """
    _check(registry.get(LibrarySpec, config.library).refuses, config, task)
    for name in config.observers:
        observer = registry.get(ObserverSpec, name)
        if observer.renders:
            _check_renders(name, config.suite, task, registry)
        _check(observer.refuses, config, task)


def _check(refusals: Iterable[Refusal], config: RunConfig, task: TaskInfo) -> None:
    for refusal in refusals:
        if refusal.applies(config, task):
            raise UsageError(f"{refusal.name}: {refusal.reason} Instead: {refusal.instead}")


def _check_renders(observer: str, suite: str, task: TaskInfo, registry: Registry) -> None:
    """Refuse an observer that renders environments which cannot be rendered."""
    spec = registry.get(SuiteSpec, suite)
    if spec.renders:
        reason = spec.cannot_draw(task) if spec.cannot_draw is not None else None
        if reason is not None:
            raise UsageError(f"{chosen_by(observer)}: {reason}. Install it, or leave it out.")
        return
    able = [spec.name for spec in registry.all(SuiteSpec) if spec.renders]
    others = f" Suites that render theirs: {', '.join(able)}." if able else ""
    raise UsageError(
        f"{chosen_by(observer)}: the suite {suite} does not render its environments. "
        f"Leave it out.{others}"
    )
