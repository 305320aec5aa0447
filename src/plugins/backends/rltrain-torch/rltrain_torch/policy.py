"""What adapters of torch libraries share to load a policy; see `rltrain.policy`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltrain.data import UnsafePickle, would_run_code
from rltrain.errors import UsageError, in_a_line
from rltrain.types import ArrayInfo
from rltrain_torch.checkpoints import load

if TYPE_CHECKING:
    from gymnasium import Space

__all__ = ["array_info", "groups_of", "read_checkpoint"]


def read_checkpoint(path: Path, device: str, trusted: bool = False) -> Mapping[str, Any]:
    """Return what `torch.save` wrote as a mapping.

    Args:
        path: the checkpoint.
        device: where its tensors go.
        trusted: whether to build anything that the file names (`config.trust`).

    Returns:
        The mapping, such as {"model": state_dict, "iteration": 7}.

    Raises:
        UsageError: it cannot be read; names the checkpoint.
    """
    try:
        loaded = load(str(path), device, trusted)
    except UnsafePickle as error:
        raise UsageError(f"--checkpoint {path}: {would_run_code(error)}") from error
    except Exception as error:
        raise UsageError(
            f"--checkpoint {path}: it cannot be read as a checkpoint ({in_a_line(error)})."
        ) from error
    if not isinstance(loaded, Mapping):
        raise UsageError(
            f"--checkpoint {path}: is not a checkpoint: it holds a {type(loaded).__name__}, not a "
            "mapping. Name one that training has saved."
        )
    return loaded


def array_info(space: Space[Any]) -> ArrayInfo:
    """Return the shape and dtype of one environment's arrays in a space that is not a `Dict`."""
    return ArrayInfo(tuple(space.shape or ()), str(space.dtype))


def groups_of(space: Space[Any]) -> dict[str, ArrayInfo]:
    """Return the observation groups of a space by name; one called "policy" if it has none.

    Args:
        space: `session.env.single_observation_space`.

    Returns:
        One environment's arrays by group, for `PolicyModule.inputs`.
    """
    from gymnasium.spaces import Dict

    groups = space.spaces if isinstance(space, Dict) else {"policy": space}
    return {name: array_info(group) for name, group in groups.items()}
