"""Ranks and their machine: where they are, what they print, and how a failure is reported.

What launchers, backends and suites use of it is named here; the modules below are the core's own.
"""

from rltrain.launch.drawing import check_mujoco_draws
from rltrain.launch.network import NCCL_FALLBACKS, interface_towards
from rltrain.launch.rank_log import console_stream
from rltrain.launch.ranks import available_cores, hide_rank_variables, rank_variables
from rltrain.launch.reports import ended_by_signal, failure, make_report, write_report
from rltrain.storage.pickling import jax_device

__all__ = [
    "NCCL_FALLBACKS",
    "available_cores",
    "check_mujoco_draws",
    "console_stream",
    "ended_by_signal",
    "failure",
    "hide_rank_variables",
    "interface_towards",
    "jax_device",
    "make_report",
    "rank_variables",
    "write_report",
]
