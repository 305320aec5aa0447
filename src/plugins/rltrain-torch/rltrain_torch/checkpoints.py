"""Inspecting checkpoints of libraries that write them with `torch.save`."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["top_level_keys"]


def top_level_keys(path: str) -> list[str] | str:
    """Return the keys of a checkpoint that is a mapping, or the reason why it cannot be read.

    It unpickles the file, as the libraries do. Use it for trusted files only.
    """
    import torch

    try:
        loaded = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        reason = " ".join(str(error).split())
        return f"it cannot be read as a checkpoint ({type(error).__name__}: {reason})."
    return [str(key) for key in loaded] if isinstance(loaded, Mapping) else []
