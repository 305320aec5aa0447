"""A resolved run for unit tests."""

from __future__ import annotations

from typing import Any

from rltrain.config import RunConfig
from rltrain.options.run import DEFAULT_TASK

__all__ = ["make_config"]


def make_config(**fields: Any) -> RunConfig:
    """Return a resolved run without planning it: nothing is looked up or checked.

    Args:
        **fields: fields that matter to the test; the others describe a small run on the CPU.

    Example:
        ```python
        config = make_config(library="mine", agent={"gamma": 0.9}, num_envs=4)
        assert REFUSAL.applies(config, task)
        ```
    """
    defaults: dict[str, Any] = {
        "backend": "gloo",
        "library": "rl_games",
        "algorithm": "ppo",
        "task": DEFAULT_TASK,
        "suite": "gymnasium",
        "grad_sync": "flat",
        "num_envs": 8,
    }
    return RunConfig(**{**defaults, **fields})
