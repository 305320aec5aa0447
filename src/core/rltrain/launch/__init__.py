"""Ranks and their machine: where they run, what they log, and how a failure is reported.

The names below are for launchers, backends, suites and observers. The modules in this package are
internal.
"""

from rltrain.files.disk import PARTIAL, whole
from rltrain.launch.preflight import environments_are_made_here
from rltrain.ranks.devices import rank_device
from rltrain.ranks.folders import Notes, private_folder, shared_folder
from rltrain.ranks.guarded import end_with_parent
from rltrain.ranks.logs import RankLog, console_stream, say, view_file
from rltrain.ranks.machine import (
    address_towards,
    available_cores,
    bind_cores,
    cores_of_rank,
    own_address,
)
from rltrain.ranks.reports import failure, make_report, ranks_done, write_report
from rltrain.ranks.signals import (
    OF_SCHEDULERS,
    REQUESTS,
    ask_to_end,
    ended_by_signal,
    may_catch,
)
from rltrain.ranks.stacks import Process
from rltrain.ranks.world import hide_rank_variables, rank_from_env, rank_variables

__all__ = [
    "OF_SCHEDULERS",
    "PARTIAL",
    "REQUESTS",
    "Notes",
    "Process",
    "RankLog",
    "address_towards",
    "ask_to_end",
    "available_cores",
    "bind_cores",
    "console_stream",
    "cores_of_rank",
    "end_with_parent",
    "ended_by_signal",
    "environments_are_made_here",
    "failure",
    "hide_rank_variables",
    "make_report",
    "may_catch",
    "own_address",
    "private_folder",
    "rank_device",
    "rank_from_env",
    "rank_variables",
    "ranks_done",
    "say",
    "shared_folder",
    "view_file",
    "whole",
    "write_report",
]
