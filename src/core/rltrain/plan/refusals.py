"""What is refused of a resolved run, before any rank starts."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.config import RunConfig
from rltrain.config.checks import flag
from rltrain.errors import UsageError
from rltrain.files.dotted import get_dotted
from rltrain.plugins.registry import Registry
from rltrain.specs import LibrarySpec, ObserverSpec, Refusal, SuiteSpec
from rltrain.types import TaskInfo


def check_refusals(config: RunConfig, task: TaskInfo, registry: Registry) -> None:
    """Refuse what the run's library or one of its observers says cannot work."""
    _check(registry.get(LibrarySpec, config.library).refuses, config, task)
    for name in config.observers:
        observer = registry.get(ObserverSpec, name)
        if observer.renders:
            _check_renders(name, config.suite, task, registry)
        _check(observer.refuses, config, task)


def _check(refusals: Iterable[Refusal], config: RunConfig, task: TaskInfo) -> None:
    for refusal in refusals:
        if refusal.applies(config, task):
            value = get_dotted(config.agent, refusal.option, None) if refusal.option else None
            given = f" (agent.{refusal.option}={value})" if value is not None else ""
            raise UsageError(f"{refusal.name}{given}: {refusal.reason} Instead: {refusal.instead}")


def _check_renders(observer: str, suite: str, task: TaskInfo, registry: Registry) -> None:
    """Refuse an observer that renders environments which cannot be rendered."""
    spec = registry.get(SuiteSpec, suite)
    if spec.renders:
        reason = spec.cannot_draw(task) if spec.cannot_draw is not None else None
        if reason is not None:
            raise UsageError(
                f"{flag('observers')} {observer}: {reason}. Install it, or leave it out."
            )
        return
    able = [spec.name for spec in registry.all(SuiteSpec) if spec.renders]
    others = f" Suites that render theirs: {', '.join(able)}." if able else ""
    raise UsageError(
        f"{flag('observers')} {observer}: the suite {suite} does not render its environments. "
        f"Leave it out.{others}"
    )


def check_rollback(config: RunConfig) -> None:
    """Refuse to go back to a checkpoint without a restart."""
    if config.on_nonfinite != "rollback" or config.max_restarts:
        return
    add = "Add --max-restarts N" if config.distributed else "Add --distributed --max-restarts N"
    if config.distributed and config.launcher is None:
        add = (
            f"{config.cluster} does that: give it --max-restarts N, and the ranks --auto-resume "
            "--run-name NAME --on-nonfinite stop"
        )
    raise UsageError(
        "--on-nonfinite rollback: to go back to the newest checkpoint, the ranks start again. "
        f"{add}; or --on-nonfinite skip."
    )
