"""Ranks and their machine: where they run, what they log, and how a failure is reported.

The names below are for launchers, backends, suites and observers. The modules in this package are
internal.
"""

from collections.abc import Callable
from pathlib import Path

from rltrain.config import Placement
from rltrain.files.disk import whole
from rltrain.launch.preflight import environments_are_made_here
from rltrain.ranks.devices import rank_device
from rltrain.ranks.folders import Notes, private_folder, shared_folder
from rltrain.ranks.guarded import end_with_parent
from rltrain.ranks.hangs import HangWatch
from rltrain.ranks.logs import RankLog, console_stream, say, view_file
from rltrain.ranks.machine import available_cores, bind_cores, cores_of_rank
from rltrain.ranks.pulse import pulse_files
from rltrain.ranks.reports import failure, make_report, write_report
from rltrain.ranks.signals import OF_SCHEDULERS, ask_to_end, ended_by_signal
from rltrain.ranks.world import hide_rank_variables, rank_from_env, rank_variables

__all__ = [
    "OF_SCHEDULERS",
    "Notes",
    "RankLog",
    "ask_to_end",
    "available_cores",
    "bind_cores",
    "console_stream",
    "cores_of_rank",
    "end_with_parent",
    "ended_by_signal",
    "environments_are_made_here",
    "failure",
    "hang_watch",
    "hide_rank_variables",
    "make_report",
    "private_folder",
    "rank_device",
    "rank_from_env",
    "rank_variables",
    "say",
    "shared_folder",
    "view_file",
    "whole",
    "write_report",
]


def hang_watch(config: Placement, reports: Path) -> Callable[[], None]:
    """Return a function for a launcher to call again and again: it ends ranks that hang.

    Args:
        config: where the run runs.
        reports: the folder where its ranks report.
    """
    watch = HangWatch(lambda: pulse_files(reports), config.hang_timeout, config.nnodes)

    def look() -> None:
        if (hang := watch.look()) is not None:
            hang.write_report(reports)
            hang.end()

    return look
