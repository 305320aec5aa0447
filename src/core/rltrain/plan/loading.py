"""Whether a checkpoint fits the task and the options of a run, before its ranks start."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rltrain.config import RunConfig
from rltrain.config.declare import Scope, scoped
from rltrain.errors import DoesNotFit
from rltrain.launch.preflight import preflight
from rltrain.plugins.manager import RunPlugins
from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.given import agent_for_state
from rltrain.types import TaskInfo, World


def check_fits(checkpoint: Checkpoint, config: RunConfig, task: TaskInfo) -> None:
    """Load the policy of a checkpoint in a child process, for the spaces that a suite tells.

    With the options that it was saved with, it fits. Of a task with images, a suite may tell of a
    part of the observations: nothing is checked then.
    """
    state = checkpoint.state
    before: Mapping[str, Any] = state["circumstances"] if state else {}
    same = all(before.get(name) == getattr(config, name) for name in ("task", "algorithm"))
    same &= (state or {}).get("agent") in (None, agent_for_state(config))
    if same or task.has_images or task.observations is None or task.actions is None:
        return
    kept = {name: getattr(config, name) for name in scoped(RunConfig, Scope.KEPT)}
    of_run = {"agent": config.agent, "no_plugins": config.no_plugins}
    start = {"checkpoint": str(checkpoint.path), "trust_checkpoint": config.trust_checkpoint}
    known = {
        "action": task.action,
        "actions": task.actions,
        "observations": {name: (x.shape, x.dtype) for name, x in task.observations.items()},
    }
    placed = {"backend": config.backend, "grad_sync": config.grad_sync, "num_envs": 1}
    given = kept | of_run | start | placed
    reason = preflight("rltrain.plan.loading:misfit", given, known, in_child=True)
    if reason is None:
        return
    other = before.get("task")
    trained = f" It was trained on {other}." if other not in (None, config.task) else ""
    raise DoesNotFit(f"{reason}{trained}")


def misfit(given: dict[str, Any], task: dict[str, Any]) -> str | None:
    """Return why a checkpoint does not fit, or None if it does, or if that is not known.

    Args:
        given: fields of a `RunConfig`.
        task: what a suite tells of it: its kind of action, actions, and observations.
    """
    config, plugins = RunConfig(**given), RunPlugins()
    plugins.choose(discover(config.no_plugins).get(LibrarySpec, config.library))
    try:
        plugins.hook.rltrain_load_policy(session=_session(config, task))
    except DoesNotFit as error:
        return str(error)
    except Exception:
        # What cannot be known from spaces alone; the ranks say it.
        return None
    return None


def _session(config: RunConfig, task: dict[str, Any]) -> Any:
    """Return what a library reads of a session to load a policy."""
    import numpy as np
    from gymnasium import spaces

    groups: dict[str, spaces.Space[Any]] = {
        name: spaces.Box(-np.inf, np.inf, tuple(shape), np.dtype(dtype).type)
        if np.issubdtype(np.dtype(dtype), np.floating)
        else spaces.Box(0, 255, tuple(shape), np.dtype(dtype).type)
        for name, (shape, dtype) in task["observations"].items()
    }
    seen = groups["policy"] if set(groups) == {"policy"} else spaces.Dict(groups)
    counts = task["actions"]
    acts: Any = spaces.Box(-1, 1, tuple(counts))
    if task["action"] != "continuous":
        acts = spaces.MultiDiscrete(counts) if len(counts) > 1 else spaces.Discrete(counts[0])
    env = SimpleNamespace(single_observation_space=seen, single_action_space=acts, num_envs=1)
    return SimpleNamespace(
        config=config, env=env, world=World(), checkpoint=Path(str(config.checkpoint))
    )
