"""Resuming from a checkpoint: exactly if nothing has changed, else as far as possible."""

from __future__ import annotations

import copy
import dataclasses
import json
import socket
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from rltrain.data import UnsafePickle, unpack_state, would_run_code
from rltrain.errors import UsageError
from rltrain.files.dotted import flatten, get_dotted, leaves, set_dotted
from rltrain.files.secrets import hide
from rltrain.metrics.episodes import EpisodeWindow
from rltrain.storage.checkpoint import Checkpoint
from rltrain.storage.run_options import shortened
from rltrain.types import Arrays, World

if TYPE_CHECKING:
    from rltrain.config import RunConfig


def _shown(value: object, letters: int = 60) -> str:
    """Return what a state says, for a line."""
    return textwrap.shorten(str(value)[: letters + 1], letters, placeholder="...")


@dataclass(frozen=True)
class Resumption:
    """The state from which one rank resumes."""

    progress: Mapping[str, Any] | None = None
    """For `Progress.set_state`; None if nothing is known."""
    rank: Mapping[str, Any] = field(default_factory=dict)
    """This rank's own state; empty if it does not fit this run."""
    curricula: Mapping[str, Any] = field(default_factory=dict)
    """The state of the task's curricula; empty if it does not say, or the task is another."""
    anew: Mapping[str, str] = field(default_factory=dict)
    """What counts over the checkpoint; see `given_anew`."""
    agent: Mapping[str, Any] | None = None
    """The library's options of the run that wrote it, if they are known."""
    summary: str = ""
    """What the run resumes from, and what has changed."""

    @property
    def text(self) -> str:
        """The summary, and what counts over the checkpoint, for the user."""
        given = ", ".join(self.anew.values())
        return self.summary + (f" As given: {given}." if given else "")

    @property
    def exact(self) -> bool:
        """Whether the run continues as if it had never stopped."""
        return bool(self.rank) and self.rank["env"] is not None

    @property
    def iteration(self) -> int:
        """Iterations done before; 0 if unknown."""
        return int(self.progress["iteration"]) if self.progress else 0


def circumstances(config: RunConfig, world: World) -> dict[str, Any]:
    """Return what must not change for a run to resume exactly, by the name shown to the user."""
    return {
        "algorithm": config.algorithm,
        "ranks": world.world_size,
        # CPU and GPU generators give different numbers, and cannot load each other's state.
        "device": world.device.partition(":")[0],
        "environments a rank": config.num_envs,
        "task": config.task,
        "suite": config.suite,
        "seed": config.seed,
        "framework": config.framework,
        **{f"env.{name}": hide(value, name) for name, value in flatten(dict(config.env))},
    }


def iterations_left(total: int, done: int) -> int:
    """Return how many iterations are left of `total`, at least one, after `done` were done."""
    if done >= total:
        raise UsageError(
            f"--max-iterations {total}: the checkpoint was written after iteration {done}, so "
            "no iterations are left. Iterations before the checkpoint count: give a larger number."
        )
    return total - done


def over_by(checkpoint: Checkpoint, config: RunConfig, iterations: int | None) -> str:
    """Return the limit (option and value) that a checkpoint's run has reached; "" if none."""
    state = checkpoint.state
    # From a checkpoint of another algorithm, such as a teacher's, iterations start at 0.
    if state is None or state["circumstances"].get("algorithm") != config.algorithm:
        return ""
    if iterations and state["iteration"] >= iterations:
        return f"--max-iterations {iterations}"
    window = EpisodeWindow(state["progress"]["window"])
    return (
        f"--target-return {config.target_return:g}" if window.reaches(config.target_return) else ""
    )


def agent_for_state(config: RunConfig) -> Any:
    """Return the library's options as data, without secrets, for the state of a checkpoint."""
    return json.loads(json.dumps(hide(dict(config.agent)), default=repr))


def given_anew(config: RunConfig, before: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what counts over a checkpoint: by key in `config.agent`, how it is said.

    If the options of the run that wrote it are not known, overrides count, and no file, which may
    well be that run's own.
    """
    now = agent_for_state(config)
    values = {
        key: (get_dotted(before, key, None), get_dotted(now, key, None)) for key in config.given
    }
    return {
        key: f"agent.{key} {f'{shortened(old)} -> ' if before else ''}{shortened(new)}"
        for key, (old, new) in values.items()
        if (old != new if before else config.given[key])
    }


def with_kept(
    config: RunConfig, before: Mapping[str, Any], anew: Collection[str], restored: Collection[str]
) -> RunConfig:
    """Return a run that keeps the run before's `restored` options: numbers, no code.

    What is given `anew` is not among them; see `rltrain.specs.OptionSchema.restored`.
    """
    agent = copy.deepcopy(dict(config.agent))
    for key, value in leaves(before):
        each = value if isinstance(value, list) else [value]
        kept = key not in anew and any(fnmatchcase(key, pattern) for pattern in restored)
        kept &= all(isinstance(number, (int, float)) for number in each)
        if kept and isinstance(get_dotted(agent, key.rpartition(".")[0]), dict):
            set_dotted(agent, key, value)
    return dataclasses.replace(config, agent=agent)


def nothing_to_resume(config: RunConfig) -> Resumption:
    """Return the beginning of a run that would have continued from a checkpoint of its name."""
    return Resumption(
        summary=f"No checkpoint of runs named {config.run_name} below {config.log_root}: starting "
        "from the beginning."
    )


def resumption(
    checkpoint: Checkpoint, config: RunConfig, world: World, arrays: Mapping[str, Arrays]
) -> Resumption:
    """Return what a rank continues from: what all share, and its own part."""
    path = checkpoint.path
    if not path.is_file():
        raise UsageError(
            f"--checkpoint {path}: rank {world.rank} on {socket.gethostname()} cannot see "
            "this file. Every rank loads it: put it on a disk that all nodes share, or copy it, "
            "with the folder `ranks` next to it."
        )
    state = checkpoint.state
    if state is None:
        return Resumption(
            anew=given_anew(config, None),
            summary=f"Starting from {path}, which has no saved rank state next to it: frames, "
            "environments and random numbers start fresh.",
        )
    before, now = state["circumstances"], circumstances(config, world)
    if before.get("algorithm") != now["algorithm"]:
        # For example a student that starts from its teacher: nothing is resumed.
        return Resumption(
            summary=f"Starting {now['algorithm']} from {path}, which a run of "
            f"{_shown(before.get('algorithm'))} wrote: counters, environments and random numbers "
            "fresh."
        )
    changed = [
        f"{_shown(name)} {_shown(before.get(name))} -> {_shown(now.get(name))}"
        for name in dict.fromkeys([*before, *now])
        if before.get(name) != now.get(name)
    ]
    agent = state.get("agent")
    options: dict[str, Any] = {"anew": given_anew(config, agent), "agent": agent}
    summary = f"Resuming {path} after iteration {state['iteration']}"
    same_task = all(before.get(name) == now[name] for name in ("task", "suite"))
    # A rank that was not there before continues from where another one was.
    saved = (state.get("curricula") if same_task else None) or [{}]
    curricula = saved[world.rank % len(saved)]
    if changed:
        kept = "normalizers, counters and curricula" if curricula else "normalizers and counters"
        return Resumption(
            state["progress"],
            curricula=curricula,
            summary=f"{summary}. Changed: {_shown(', '.join(changed), 800)}. Environments and "
            f"random numbers start fresh; model, optimizer, {kept} continue.",
            **options,
        )
    rank = _state_of_rank(checkpoint, config, world, arrays)
    if rank["env"] is None:
        summary += ". The task cannot save its state: environments and random numbers start fresh"
        summary += "; its curricula continue" if curricula else ""
    return Resumption(state["progress"], rank, curricula, summary=f"{summary}.", **options)


def _state_of_rank(
    checkpoint: Checkpoint, config: RunConfig, world: World, arrays: Mapping[str, Arrays]
) -> Mapping[str, Any]:
    """Return this rank's own part of a state: that of its plugins, environments and library."""
    try:
        saved = checkpoint.part(world.rank)
        rank = unpack_state(saved, world.device, arrays, config.trust)
        if not (isinstance(rank, dict) and {"plugins", "env", "library"} <= rank.keys()):
            raise ValueError("a part is missing")
    except UnsafePickle as error:
        raise UsageError(f"--checkpoint {checkpoint.path}: {would_run_code(error)}") from error
    except (ValueError, LookupError) as error:
        raise UsageError(
            f"--checkpoint {checkpoint.path}: the state of rank {world.rank} next to it is not one "
            f"({error}). Without the folder `ranks`, the run continues from the checkpoint alone."
        ) from error
    return rank
