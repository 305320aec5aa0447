"""The options of the launcher `mpi`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from rltrain.options import naming


@dataclass(frozen=True)
class MpiOptions:
    """How ranks are started."""

    mpiexec: str = field(default="", metadata=naming("command"))
    """The command that starts ranks, with its flags, such as "mpirun --bind-to core". By default,
    the mpiexec beside this Python, else the one on PATH."""

    def __post_init__(self) -> None:
        try:
            shlex.split(self.mpiexec)
        except ValueError as error:
            raise ValueError(f"mpiexec={self.mpiexec}: {error}. Close the quotation.") from None
