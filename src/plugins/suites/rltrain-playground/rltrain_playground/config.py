"""Applies the user's `env.` options to Playground's configuration of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mujoco_playground import registry

from rltrain.errors import UsageError
from rltrain.options import leaves
from rltrain_adapters import unknown_env_option


def find(name: str) -> Any | None:
    """Return the default configuration of a task, or None if Playground does not have the task."""
    try:
        return registry.get_default_config(name)
    except ValueError:
        return None


def with_options(task: str, options: Mapping[str, Any], device: str) -> Any:
    """Return the configuration of a task with some of its values replaced.

    The default physics implementation (`env.impl`) is Playground's choice on a GPU, and "jax" on
    the CPU, where "warp" is much slower.

    Args:
        task: "Name", or "module:Name".
        options: values nested like the configuration.
        device: this rank's device, such as "cuda:1".
    """
    config = find(task.rpartition(":")[2])
    assert config is not None, task
    if device == "cpu" and "impl" in config:
        config.impl = "jax"
    known = sorted(key for key, _ in leaves(config.to_dict()))
    for key, value in leaves(options):
        if key not in known:
            raise unknown_env_option(task, key, known)
        try:
            config.update_from_flattened_dict({key: value})
        except (TypeError, ValueError) as error:
            raise UsageError(f"env.{key}={value!r} (task {task}): {error}") from error
    if config.get("vision"):
        raise UsageError(
            f"env.vision=True (task {task}): image observations are not supported. Leave it out."
        )
    if episode_steps(config) < 1:
        raise UsageError(f"env.episode_length={config.episode_length}: must be 1 or more.")
    return config


def episode_steps(config: Any) -> int:
    """Return the length of an episode in steps; a step with `action_repeat` counts once."""
    return -(-int(config.episode_length) // int(config.get("action_repeat", 1)))
