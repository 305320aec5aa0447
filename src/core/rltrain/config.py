"""The run's own options. A library's pass through untouched: see `rltrain.agent_options`."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError, suggest
from rltrain.option_checks import CHECKS, address, flag, text

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
    """The backend; by default the framework's own, for GPUs where there is one."""
    device: str | None = None
    """Kind of device (cpu, cuda), or for a run without --distributed one device (cuda:1)."""

    distributed: bool = False
    """Run several ranks, or join those that a launcher started."""
    launcher: str | None = None
    """What starts the ranks; by default elastic for torch, processes for jax."""
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
    coordinator_address: str | None = None
    """Address and port of node 0 in one, host:port, as jax writes them."""
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
    random_lengths: bool | None = None
    """Begin as if the first episodes had been running for a random time, so that environments do
    not march in step; by default where the task's own trainer does."""
    max_iterations: int | None = None
    """Iteration at which training ends, those before a checkpoint included; by default as the
    library's options say."""
    scale_iterations: bool = False
    """Divide the iterations by the number of ranks: the experience in all stays what it was."""
    scale_minibatches: bool = False
    """Cut a rank's rollout into as many mini-batches as the library's options have for the number
    of environments that they were written for."""
    check_interval: int = 50
    """Iterations between two checks that the ranks are still equal; 0 checks at the end only."""
    target_return: float | None = None
    """End as soon as the mean return of all ranks' last 100 or more episodes reaches this."""
    seed: int = DEFAULT_SEED
    """The base seed; -1 draws one."""
    grad_sync: str | None = None
    """How gradients are averaged over ranks; by default flat for torch, tree for jax."""

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
    enable_cameras: bool = False
    """Start the simulator so that cameras render, where it has to be told."""
    video: bool = False
    """Record videos of training, on rank 0."""
    video_length: int = 200
    """Length of a video, in steps of the environments."""
    video_interval: int = 2000
    """Steps of the environments from the start of one video to the start of the next."""
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

    @property
    def coordinator(self) -> str:
        """Address and port of node 0, host:port; an IPv6 address in brackets."""
        host = self.master_addr
        return f"{f'[{host}]' if ':' in host else host}:{self.master_port}"

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
                checked[name] = CHECKS.get(name, text)(name, value)
        return cls(**_with_coordinator(checked))


def load_yaml(path: str, option: str) -> dict[str, Any]:
    """Load a YAML file that holds a mapping, its interpolations resolved.

    OmegaConf reads it, so that `3e-4` is a number, as users of these libraries expect.

    Raises:
        UsageError: the file is not there, does not parse, or holds no mapping.
    """
    import yaml
    from omegaconf.errors import OmegaConfBaseException

    if not Path(path).is_file():
        raise UsageError(f"{option} {path}: there is no such file.")
    try:
        loaded = copy.deepcopy(_parsed(path, Path(path).stat().st_mtime_ns))
    except (yaml.YAMLError, OmegaConfBaseException, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{option} {path}: does not parse as YAML: {error}") from error
    if not isinstance(loaded, dict) or not loaded:
        raise UsageError(f"{option} {path}: must hold a mapping of options, not {loaded!r}.")
    return {str(key): value for key, value in loaded.items()}


@functools.lru_cache(maxsize=64)
def _parsed(path: str, changed: int) -> Any:
    """Return what a file holds. Kept: a list of tasks asks a thousand times for the same few."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(OmegaConf.load(path), resolve=True)


def _with_coordinator(checked: dict[str, Any]) -> dict[str, Any]:
    """Take host and port from --coordinator-address, where that is how they were given."""
    if "coordinator_address" not in checked:
        return checked
    host, _, port = checked["coordinator_address"].rpartition(":")
    said = {"master_addr": address("master_addr", host), "master_port": int(port)}
    for name, value in said.items():
        if checked.get(name, value) != value:
            raise UsageError(
                f"--coordinator-address {checked['coordinator_address']} and {flag(name)} "
                f"{checked[name]} contradict each other. Give one of the two."
            )
    return {**checked, **said}
