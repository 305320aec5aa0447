"""The run's own options. A library's pass through untouched: see `rltrain.agent_options`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError, suggest

__all__ = ["DEFAULT_TASK", "RunConfig", "flag", "load_yaml"]

DEFAULT_TASK = "rltrain/CartPoleContinuous-v1"
"""The embedded continuous-force cart-pole: every library can learn it, on any machine."""

DEFAULT_SEED = 42


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training job. Each field is a flag of the command line; None means "decide for me"."""

    library: str = "rl_games"
    """The RL library."""
    algorithm: str | None = None
    """The library's algorithm; by default the first that it offers."""
    task: str = DEFAULT_TASK
    """What is to be learned."""
    suite: str | None = None
    """The suite that makes the task; by default the one that knows it."""
    framework: str = "torch"
    """The tensor framework: torch or jax."""
    backend: str | None = None
    """The backend; by default nccl where there is a GPU, else gloo."""
    device: str | None = None
    """Kind of device (cpu, cuda), or for a run without --distributed one device (cuda:1)."""

    distributed: bool = False
    """Run several ranks, or join those that a launcher started."""
    launcher: str | None = None
    """What starts the ranks; by default the first that can start the framework's."""
    nproc_per_node: int | str | None = None
    """Ranks on this node: a number, gpu, cpu or auto."""
    num_gpus: int | None = None
    """Ranks on this node, one a GPU."""
    gpu_ids: tuple[int, ...] | str | None = None
    """GPUs to use, as indices into CUDA_VISIBLE_DEVICES; all; none for the CPU."""
    nnodes: int = 1
    """Nodes of the run; one launcher is started on each."""
    node_rank: int = 0
    """Which node this is, from 0."""
    master_addr: str = "127.0.0.1"
    """Address of node 0."""
    master_port: int = 29500
    """Port on node 0."""
    rdzv_backend: str | None = None
    """Rendezvous of torch elastic: static, c10d or etcd-v2."""
    rdzv_endpoint: str | None = None
    """Where the rendezvous is, host:port."""
    rdzv_id: str | None = None
    """The run's name at the rendezvous, the same on every node."""
    max_restarts: int = 0
    """How often torch elastic starts all ranks anew after a failure."""

    num_envs: int | None = None
    """Environments a rank."""
    total_envs: int | None = None
    """Environments of all ranks together."""
    max_iterations: int | None = None
    """Iteration at which training ends, those before a checkpoint included; by default as the
    library's options say."""
    scale_iterations: bool = False
    """Divide the iterations by the number of ranks: the experience in all stays what it was."""
    check_interval: int = 50
    """Iterations between two checks that the ranks are still equal; 0 checks at the end only."""
    target_return: float | None = None
    """End as soon as the mean return of all ranks' last 100 or more episodes reaches this."""
    seed: int = DEFAULT_SEED
    """The base seed; -1 draws one."""
    grad_sync: str = "flat"
    """How gradients are averaged over ranks."""

    agent_config: str | None = None
    """YAML file with the library's options, in its own format."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of the library's options by dotted key; in a resolved run, all options."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """Options of the task by dotted key."""
    checkpoint: str | None = None
    """Checkpoint to go on from: a path, or the `latest` or `best` of the newest run of this library
    on this task."""
    run_name: str | None = None
    """Added to the name of the run folder."""
    log_root: str = "logs"
    """Where run folders are made."""
    headless: bool = False
    """Let no simulator open a window."""
    writers: tuple[str, ...] | None = None
    """The writers; by default console and tensorboard, where installed."""
    observers: tuple[str, ...] = ()
    """The observers."""
    no_plugins: tuple[str, ...] = ()
    """Plugins that must not be used."""

    @property
    def on_several_ranks(self) -> bool:
        """Whether more than one rank may take part."""
        return self.distributed and (self.nnodes > 1 or self.nproc_per_node != 1)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> RunConfig:
        """Check types and ranges, and return the config; None leaves an option to its default.

        Raises:
            UsageError: an option is unknown or its value is wrong.
        """
        fields = {item.name: item for item in dataclasses.fields(cls)}
        checked = {}
        for name, value in options.items():
            if name not in fields:
                raise UsageError(f"Unknown option {name!r}.{suggest(name, fields)}")
            if value is not None:
                checked[name] = _CHECKS.get(name, _text)(name, value)
        return cls(**checked)


def flag(name: str) -> str:
    """Return an option's flag: "num_envs" is --num-envs."""
    singular = {"writers": "writer", "observers": "observer", "no_plugins": "no-plugin"}
    return "--" + singular.get(name, name).replace("_", "-")


def load_yaml(path: str, option: str) -> dict[str, Any]:
    """Load a YAML file that holds a mapping, its interpolations resolved.

    OmegaConf reads it, so that `3e-4` is a number, as users of these libraries expect.

    Raises:
        UsageError: the file is not there, does not parse, or holds no mapping.
    """
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if not Path(path).is_file():
        raise UsageError(f"{option} {path}: there is no such file.")
    try:
        loaded = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except (yaml.YAMLError, OmegaConfBaseException, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{option} {path}: does not parse as YAML: {error}") from error
    if not isinstance(loaded, dict) or not loaded:
        raise UsageError(f"{option} {path}: must hold a mapping of options, not {loaded!r}.")
    return {str(key): value for key, value in loaded.items()}


def _wrong(name: str, value: Any, wanted: str) -> UsageError:
    return UsageError(f"{flag(name)} {value}: must be {wanted}.")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, (str, Path)):
        raise _wrong(name, value, "text")
    if not str(value):
        raise _wrong(name, "''", "text, not empty")
    return str(value)


def _integer(minimum: int) -> Any:
    def check(name: str, value: Any) -> int:
        try:
            number = int(str(value))
        except ValueError:
            raise _wrong(name, value, "a whole number") from None
        if number < minimum:
            raise _wrong(name, value, f"at least {minimum}")
        return number

    return check


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if math.isnan(number):
        raise _wrong(name, value, "a number")
    return number


def _boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, value, "true or false")
    return value


def _ranks(name: str, value: Any) -> int | str | None:
    if value in ("gpu", "cpu", "auto"):
        return None if value == "auto" else str(value)
    try:
        return int(_integer(1)(name, value))
    except UsageError:
        raise _wrong(name, value, "a number from 1, gpu, cpu or auto") from None


def _gpu_ids(name: str, value: Any) -> tuple[int, ...] | str:
    """Read `0 1`, `[0, 1]`, `0,1`, `all` or `None`, as Isaac Lab's and mjlab's users type them."""
    items = value if isinstance(value, (list, tuple)) else [value]
    words = [word for item in items for word in str(item).strip("[]() ").replace(",", " ").split()]
    if [word.lower() for word in words] in (["all"], ["none"]):
        return words[0].lower()
    try:
        ids = tuple(int(word) for word in words)
    except ValueError:
        raise _wrong(name, " ".join(words), "indices such as `0 1`, all, or None") from None
    if any(index < 0 for index in ids):
        raise _wrong(name, " ".join(words), "indices from 0")
    if not ids or len(set(ids)) < len(ids):
        raise _wrong(name, " ".join(words), "indices without repeats")
    return ids


def _names(name: str, value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in (value if isinstance(value, (list, tuple)) else [value]))


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "a mapping of options")
    return dict(value)


def _port(name: str, value: Any) -> int:
    number = int(_integer(1)(name, value))
    if number > 65535:
        raise _wrong(name, value, "a port from 1 to 65535")
    return number


_CHECKS: dict[str, Any] = {
    "distributed": _boolean,
    "nproc_per_node": _ranks,
    "num_gpus": _integer(1),
    "gpu_ids": _gpu_ids,
    "nnodes": _integer(1),
    "node_rank": _integer(0),
    "master_port": _port,
    "max_restarts": _integer(0),
    "num_envs": _integer(1),
    "total_envs": _integer(1),
    "max_iterations": _integer(1),
    "scale_iterations": _boolean,
    "check_interval": _integer(0),
    "target_return": _number,
    "seed": _integer(-1),
    "agent": _mapping,
    "env": _mapping,
    "headless": _boolean,
    "writers": _names,
    "observers": _names,
    "no_plugins": _names,
}
