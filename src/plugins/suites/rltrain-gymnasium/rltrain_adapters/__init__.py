"""What plugins share that adapt a library, a framework or a suite.

`rltrain_adapters.sources` reads packages' sources, and `rltrain_adapters.unpickling` pickled files.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.options import get_dotted, load_yaml
from rltrain.session import Session
from rltrain.terminal import note
from rltrain.types import ArrayInfo, TaskInfo

__all__ = [
    "MANY_ENVS",
    "as_given",
    "cannot_render",
    "check_mujoco_draws",
    "drop_removed_options",
    "get_positive_int",
    "is_image",
    "set_child",
    "tuned_options_from",
    "unknown_env_option",
]

MANY_ENVS = 64
"""With at least this many environments per rank, a library's defaults use short rollouts, which
learn faster. Fewer environments need long ones."""


def get_positive_int(agent: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """Return the agent option at a dotted key; another value than a positive int is refused."""
    value = get_dotted(agent, key, default)
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"agent.{key}={value!r}: must be a whole number, at least 1.")
    return value


def is_image(space: Any) -> bool:
    """Return whether a Gymnasium space is an image as suites give them; see `ArrayInfo`."""
    from gymnasium.spaces import Box

    return isinstance(space, Box) and ArrayInfo(space.shape, str(space.dtype)).is_image


@contextlib.contextmanager
def as_given(session: Session, owner: Any, places: Mapping[str, Iterable[str]]) -> Iterator[None]:
    """Keep what the user gives again (`session.given_anew`) while a checkpoint is loaded.

    By pattern of keys in `config.agent`, `places` are where an option's value is, from `owner` on,
    the library's algorithm: attributes ("entropy_coef"), in the groups of torch's optimizers too
    ("optimizer.lr"), or a whole part ("optimizer"). `*` is the end of the key. What is not there is
    skipped.
    """
    paths = [
        path.replace("*", key.rpartition(".")[2])
        for pattern, found in places.items()
        for key in session.given_anew
        if fnmatchcase(key, pattern)
        for path in found
    ]
    kept = [copy.deepcopy([_get(x, name) for x, name in _of(owner, path)]) for path in paths]
    yield
    for path, values in zip(paths, kept, strict=True):
        for (holder, name), value in zip(_of(owner, path), values, strict=True):
            if isinstance(holder, dict):
                holder[name] = value
            elif hasattr(getattr(holder, name, None), "load_state_dict"):
                getattr(holder, name).load_state_dict(value)
            elif value is not None:
                setattr(holder, name, value)


def _of(owner: Any, path: str) -> list[tuple[Any, str]]:
    *parts, name = path.split(".")
    for part in parts:
        owner = getattr(owner, part, None)
    return [(holder, name) for holder in getattr(owner, "param_groups", [owner])]


def _get(holder: Any, name: str) -> Any:
    value: Any = holder[name] if isinstance(holder, dict) else getattr(holder, name, None)
    return value.state_dict() if hasattr(value, "load_state_dict") else value


def set_child(node: Any, name: str, value: Any) -> None:
    """Set a child of a node in a suite's tree of `env.` options.

    The node is a dict, whose keys need not be strings, a list, or an object with attributes; the
    name is an existing key, the index of an item, or an attribute, as the user writes it.
    """
    if isinstance(node, dict):
        node[next(key for key in node if str(key) == name)] = value
    elif isinstance(node, list):
        node[int(name)] = value
    else:
        setattr(node, name, value)


def unknown_env_option(task: str, key: str, known: Iterable[str]) -> UsageError:
    """Return the error for a dotted `env.` key that a task does not have, which knows others."""
    names = list(known)
    return UsageError(
        f"env.{key}: the task {task} has no such option.{suggest(key, names)} "
        f"Its options: {', '.join(names) or 'none'}."
    )


def drop_removed_options(
    options: Mapping[str, Any],
    training: Any,
    played: Any,
    parts: Callable[[Any], Mapping[str, Any]],
    prefix: str = "env.",
) -> dict[str, Any]:
    """Return options without those for parts that a task has only in training, and name these.

    Such are the options of pushes, with which a run was trained. `training` and `played` are the
    task's configurations; `parts` returns those of one by name, none for plain values.
    """
    before, now = parts(training), parts(played)
    kept: dict[str, Any] = {}
    for name, value in options.items():
        if name in now and isinstance(value, Mapping) and parts(before.get(name)):
            kept[name] = drop_removed_options(
                value, before[name], now[name], parts, f"{prefix}{name}."
            )
        elif name in now or name not in before:
            kept[name] = value
        elif value is not None:
            note(f"{prefix}{name}: is left out: the task has no such part as it is played")
    return kept


def tuned_options_from(folder: Path) -> Callable[[TaskInfo, str, str], Mapping[str, Any] | None]:
    """Return a function for `SuiteSpec.tuned`: options that are known to learn a task.

    The folder holds `TASK/LIBRARY_ALGORITHM.yaml`, such as `Hopper-v4/rsl_rl_ppo.yaml`, in the
    library's own format. A "/" in a task's name is written "-".
    """

    def tuned(task: TaskInfo, library: str, algorithm: str) -> Mapping[str, Any] | None:
        path = folder / task.name.replace("/", "-") / f"{library}_{algorithm}.yaml"
        return load_yaml(str(path), "the tuned options") if path.is_file() else None

    return tuned


def cannot_render(error: Exception) -> UsageError:
    """Return the error for environments that could not be rendered."""
    return UsageError(
        "--video, a viewer, or an observer that renders: the environments could not be rendered: "
        f"{type(error).__name__}: {error}. MuJoCo needs a display, or the environment variable "
        "MUJOCO_GL: egl renders without a display, on a GPU or, with Mesa, in software; osmesa "
        "renders in software."
    )


def check_mujoco_draws() -> None:
    """Refuse early what MuJoCo cannot render here, for suites that would find out too late."""
    fault = _mujoco_fault()
    if fault is not None:
        raise cannot_render(fault) from fault


@functools.cache
def _mujoco_fault() -> Exception | None:
    """Return why MuJoCo cannot render. Cached: after a failure, a second try kills the process."""
    mujoco = importlib.import_module("mujoco")
    try:
        mujoco.Renderer(mujoco.MjModel.from_xml_string("<mujoco/>"), 8, 8).close()
    except Exception as error:
        return error
    return None
