"""What the plugin provides. Light, because listing plugins imports it."""

from __future__ import annotations

from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec, ObserverSpec, Refusal, Spec


@hookimpl
def rltrain_provides() -> list[Spec]:
    """Declare the commands, and an observer."""
    return [
        CommandSpec(
            name="report",
            factory="rltrain_report.command:ReportCommand",
            summary="write what runs have done as one HTML page, with its pictures next to it",
        ),
        CommandSpec(
            name="scale",
            factory="rltrain_report.scale:ScaleCommand",
            summary="compare runs on several numbers of ranks: how much faster more are, and why",
        ),
        ObserverSpec(
            name="profile",
            factory="rltrain_report.profile:Profiler",
            summary="the profiler of torch or jax, on each rank, for three iterations",
            refuses=(
                Refusal(
                    name="--observer profile",
                    applies=lambda config, task: config.framework not in ("torch", "jax"),
                    reason="only torch and jax have a profiler.",
                    instead="leave it out.",
                ),
            ),
        ),
    ]
