"""What a rank knows of its place, and the environment variables that say it: torchrun's names."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, MutableMapping

from rltrain.errors import UsageError

SAFE_PATH = ("PYTHONSAFEPATH", "rltrain")
"""What -P is for a Python that multiprocessing starts. With -c and -m, Python would else look first
in the current folder: a file `torch.py` or `token.py` there is another one than what it needs."""

_NEEDED = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
_VARIABLES = {
    "rank": "RANK",
    "local_rank": "LOCAL_RANK",
    "world_size": "WORLD_SIZE",
    "local_world_size": "LOCAL_WORLD_SIZE",
    "node_rank": "GROUP_RANK",
    "num_nodes": "GROUP_WORLD_SIZE",
}


@dataclasses.dataclass(frozen=True)
class World:
    """A rank's place in the run."""

    rank: int = 0
    """Global rank: 0 to world_size - 1. Seeds and rank-0 I/O use this one."""
    local_rank: int = 0
    """Rank on this node."""
    node_rank: int = 0
    world_size: int = 1
    """Number of ranks of the run, on all nodes."""
    local_world_size: int = 1
    """Number of ranks on this node."""
    num_nodes: int = 1
    device: str = "cpu"
    """The device of this rank, such as "cpu" or "cuda:1"."""

    @property
    def is_root(self) -> bool:
        """Whether this is global rank 0, the only one that writes."""
        return self.rank == 0

    @property
    def slot(self) -> int:
        """Number among the ranks of this node; differs even where all are local rank 0."""
        return self.rank % self.local_world_size


def rank_from_env(environ: Mapping[str, str]) -> World | None:
    """Return this rank's place by torchrun's variables, which rltrain's launchers set too.

    None unless RANK, LOCAL_RANK and WORLD_SIZE are all set.
    """
    if not all(environ.get(name) for name in _NEEDED):
        return None
    return read_rank(environ, **_VARIABLES)


def export_rank_env(
    world: World, address: str, port: int, environ: MutableMapping[str, str]
) -> None:
    """Set torchrun's variables for a joined rank: backends read them, whichever tool started it.

    What already gives this place stays untouched: torchrun's own store listens on its port.
    """
    if rank_from_env(environ) == dataclasses.replace(world, device="cpu"):
        return
    environ.update(rank_variables(world))
    environ.update(MASTER_ADDR=address, MASTER_PORT=str(port))


def rank_variables(world: World) -> dict[str, str]:
    """Return a rank's place as torchrun's environment variables."""
    return {name: str(getattr(world, field)) for field, name in _VARIABLES.items()}


def hide_rank_variables(environ: MutableMapping[str, str]) -> None:
    """Remove variables that would make a library believe it is one of several ranks.

    What starts with the others imports nothing of the current folder in place of a package.
    """
    for name in _NEEDED:
        environ.pop(name, None)
    environ[SAFE_PATH[0]] = environ.get(SAFE_PATH[0]) or SAFE_PATH[1]


def read_numbers(environ: Mapping[str, str], *names: str) -> tuple[int, ...]:
    """Return variables that must all be numbers from 0 on."""
    with contextlib.suppress(KeyError, ValueError):
        numbers = tuple(int(environ[name]) for name in names)
        if min(numbers, default=0) >= 0:
            return numbers
    raise UsageError(
        f"The environment variables {shown(environ, names)} are not valid rank numbers. "
        "Unset or correct them."
    )


def read_rank(
    environ: Mapping[str, str],
    *,
    rank: str,
    local_rank: str,
    world_size: str,
    local_world_size: str,
    node_rank: str = "",
    num_nodes: str = "",
) -> World:
    """Return a rank's place from the variables with these names.

    The last three may be missing: then all ranks are on one node, or fill the nodes in order.
    """
    given = (rank, local_rank, world_size)
    number, local, size = read_numbers(environ, *given)
    optional = [name for name in (local_world_size, node_rank, num_nodes) if environ.get(name)]
    found = dict(zip(optional, read_numbers(environ, *optional), strict=True))
    here = found.get(local_world_size, size)
    if not (0 <= number < size and 0 <= local < here <= size):
        names = (*given, local_world_size) if local_world_size in found else given
        raise UsageError(
            f"The environment variables contradict each other: {shown(environ, names)}. Unset or "
            "correct them."
        )
    node = found.get(node_rank, number // here)
    return World(number, local, node, size, here, found.get(num_nodes, -(-size // here)))


def shown(environ: Mapping[str, str], names: tuple[str, ...] | list[str]) -> str:
    """Return variables as the user would set them, for a message."""
    return ", ".join(
        f"{name}={environ[name]:.200}" if name in environ else f"{name} (not set)" for name in names
    )
