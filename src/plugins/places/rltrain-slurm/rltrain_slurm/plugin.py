"""What the plugin provides, and its options. Light, because listing plugins imports it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rltrain.hookspecs import hookimpl
from rltrain.options import naming
from rltrain.specs import LauncherSpec

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")

_GRACE = 120
"""Seconds of grace unless the user says otherwise."""

_LONGEST_GRACE = 600
"""Seconds. With more, submitit takes the signal for a preemption."""

_REFUSED = {
    "--array": "a job is one run. For several seeds give slurm.seeds=[1,2,3].",
    "--export": "ranks need the variables of this shell. Set others in it before the command.",
    "--export-file": "ranks need the variables of this shell. Set others in it before the command.",
    "--signal": "rltrain sets it: slurm.grace=SECONDS before the time limit.",
    "--wrap": "the script is rltrain's. Commands before the run: slurm.setup=[...].",
}
"""Flags of sbatch with which no run comes about, and what to do instead."""


@dataclass(frozen=True)
class SlurmOptions:
    """What the job asks for. Names and formats are those of sbatch."""

    time: str = field(default="", metadata=naming("text"))
    """Time limit, such as 4:00:00 or 1-12:00:00. Needed. Before it, the job is queued again, and
    then continues from its latest checkpoint."""
    partition: str | None = field(default=None, metadata=naming("text"))
    """Partition."""
    account: str | None = field(default=None, metadata=naming("text"))
    """Account."""
    qos: str | None = field(default=None, metadata=naming("text"))
    """Quality of service."""
    cpus_per_rank: int = 1
    """Cores for each rank."""
    mem: str | None = field(default=None, metadata=naming("text"))
    """Memory of each node, such as 64G."""
    sbatch: list[str] = field(default_factory=list, metadata=naming("command"))
    """Further flags of sbatch, such as [--constraint=a100, --exclusive]."""
    setup: list[str] = field(default_factory=list, metadata=naming("command"))
    """Shell commands before the run, such as [module load cuda]."""
    grace: int | None = None
    """Seconds before the time limit at which the run is asked to end with a checkpoint, and then
    the job is queued again. By default 120, or fewer if the time is short."""
    seeds: list[int] = field(default_factory=list)
    """Seeds, such as [1, 2, 3]: one job for each. Outputs are shown one after the other."""
    cancel: bool = False
    """Whether Ctrl-C cancels the job. If not, it continues, and its output is no longer shown."""
    folder: str | None = field(default=None, metadata=naming("path"))
    """Folder for the job's script and output, on a disk that all nodes have. By default, the folder
    `slurm` in --log-root."""

    def __post_init__(self) -> None:
        if minutes(self.time) is None:
            raise ValueError(
                f"time={self.time or '(not given)'}: say how long the job may take, such as "
                "slurm.time=4:00:00 or 1-12:00:00. In a YAML file it needs quotes."
            )
        if self.cpus_per_rank < 1:
            raise ValueError(f"cpus_per_rank={self.cpus_per_rank} must be at least 1.")
        if self.grace is not None and not 1 <= self.grace <= _LONGEST_GRACE:
            raise ValueError(f"grace={self.grace} must be from 1 to {_LONGEST_GRACE} seconds.")
        if self.grace is not None and self.grace >= 60 * (minutes(self.time) or 0):
            raise ValueError(
                f"grace={self.grace} seconds are not less than time={self.time}: the job would be "
                "queued again as soon as it starts."
            )
        sbatch_flags(self.sbatch)

    @property
    def seconds_of_grace(self) -> int:
        """`grace`, or what it is by default."""
        # SLURM may send the signal a minute earlier.
        short = (60 * (minutes(self.time) or 0) - 60) // 2
        return self.grace or min(_GRACE, max(10, short))


def minutes(time: str) -> int | None:
    """Return a time limit in minutes, rounded up as SLURM does; None if it is none.

    The formats are those of sbatch's manual, but for minutes alone: YAML reads 4:00:00 without
    quotes as a number of seconds.
    """
    found = _TIME.fullmatch(time)
    if found is None or found[0].isdecimal():
        return None
    numbers = [int(found[name] or 0) for name in ("first", "second", "third")]
    if found["days"] is None and found["third"] is None:
        numbers = [0, *numbers[:2]]  # Minutes and seconds.
    hours, mins, seconds = numbers
    return -(-(((int(found["days"] or 0) * 24 + hours) * 60 + mins) * 60 + seconds) // 60) or None


def sbatch_flags(flags: list[str]) -> dict[str, str | bool]:
    """Return flags such as --constraint=a100 by their names."""
    found: dict[str, str | bool] = {}
    for flag in flags:
        name, equals, value = flag.partition("=")
        if not re.fullmatch(r"--[a-z][a-z-]+", name):
            raise ValueError(
                f"sbatch={flag}: must be a long flag, with its value after =, such as "
                "--constraint=a100."
            )
        if instead := _REFUSED.get(name):
            raise ValueError(f"sbatch={flag}: {instead}")
        found[name.removeprefix("--")] = value if equals else True
    return found


@hookimpl
def rltrain_provides() -> list[LauncherSpec]:
    """Declare the launcher."""
    return [
        LauncherSpec(
            name="slurm",
            factory="rltrain_slurm.launcher:SlurmLauncher",
            options="rltrain_slurm.plugin:SlurmOptions",
            frameworks=("torch", "jax"),
            starts_nodes=True,
            summary="submits the run as a job; queued again, it continues from its checkpoint",
        )
    ]
