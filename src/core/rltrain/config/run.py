"""The resolved run: every choice made, as each rank receives it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Never

from rltrain.config.declare import settled
from rltrain.config.options import AMOUNT, NODE, RUN, START, Options


def endpoint(host: str, port: int) -> str:
    """Return "host:port", with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, kw_only=True)
class Placement(Options[Never, Never]):
    """A run whose ranks have their places: what a launcher and a backend need to know of it.

    Its fields are the run's options, each with its help, and with what the plan has chosen. Some
    have a narrower meaning here:

    `device`: that of the user's choice, of a single process perhaps with its index; None leaves it
    to the backend. A rank's own is in its `World`.
    `distributed`: whether there is a process group of the backend, even of one rank.
    `nproc_per_node`: ranks that this node starts; None if it starts none.
    `max_restarts`: on one node rltrain restarts the ranks, and launchers are given 0.
    """

    device_kind: str = settled("cpu", RUN | NODE)
    """The kind of the ranks' devices."""

    def __post_init__(self) -> None:
        """Set what nothing has chosen."""
        for field in dataclasses.fields(Options):
            usual = field.metadata["option"].resolved
            if usual is not None and getattr(self, field.name) is None:
                object.__setattr__(self, field.name, usual)

    @property
    def endpoint(self) -> str:
        """Where the nodes meet, host:port: on node 0."""
        return endpoint(self.master_addr, self.master_port)

    @property
    def on_several_ranks(self) -> bool:
        """Whether more than one rank may take part."""
        return self.distributed and (self.nnodes > 1 or self.nproc_per_node != 1)


@dataclass(frozen=True, kw_only=True)
class RunConfig(Placement):
    """One training job, resolved.

    `agent` has all of the library's options, in its own format, and `env` those of the task that
    differ from its defaults; `checkpoint` is the path of the one to start from, and `resume` the
    run folder of the run that this one continues; `checkpoint_interval` is a number of iterations,
    or a time such as "600s".
    """

    given: Mapping[str, bool] = settled({}, AMOUNT)
    """By key in `agent`, what this command gives: whether by an override, not in a file."""
    run_dir: str | None = settled(None, START)
    """The run folder, for ranks that are started again; None for a new one."""
    renders: bool = settled(False, START)
    """Whether rank 0's environments are rendered, because an observer needs it."""
