"""The resolved run: every choice made, as each rank receives it.

The options that the user set, most of which are optional, are `rltrain.options.RunOptions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Placement", "RunConfig", "endpoint"]


def endpoint(host: str, port: int) -> str:
    """Return "host:port", with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where a run runs: its devices, its nodes, and who starts its ranks.

    This is all that a launcher and a backend need to know of a run.
    """

    framework: str = "torch"
    """The tensor framework: "torch" or "jax"."""
    backend: str
    """The backend's name."""
    device: str | None = None
    """The kind of device ("cuda") or, of a single process, the device ("cuda:1") that the user
    asked for; None leaves it to the backend. A rank's own device is in its `World`."""
    device_kind: str = "cpu"
    """The kind of the ranks' devices."""
    distributed: bool = False
    """Whether there is a process group of the backend, even of one rank."""
    launcher: str | None = None
    """What starts the ranks; None for a single process."""
    cluster: str | None = None
    """What has started this process as one of several ranks or nodes; None if nothing has."""
    nproc_per_node: int | None = None
    """Ranks that this node starts; None if another launcher started them, or for a single
    process."""
    gpu_ids: tuple[int, ...] | None = None
    """The GPUs that ranks use, as indices into CUDA_VISIBLE_DEVICES; None for all of them."""
    virtual_local_rank: bool = False
    """Whether each rank that this node starts sees its own GPU only, with LOCAL_RANK=0."""
    nnodes: int = 1
    """Number of nodes; one launcher is started on each."""
    min_nodes: int | None = None
    """Number of nodes on which the run goes on while the others are away; None: all of them."""
    node_rank: int = 0
    """Rank of this node."""
    master_addr: str = "127.0.0.1"
    """Address of node 0."""
    master_port: int = 29500
    """Port on node 0."""
    coordinator_address: str | None = None
    """`master_addr` and `master_port` as host:port, if the user gave them so."""
    rdzv_backend: str | None = None
    """Rendezvous backend of torch elastic."""
    rdzv_endpoint: str | None = None
    """Address of the rendezvous, host:port."""
    rdzv_id: str | None = None
    """The run's name at the rendezvous."""
    local_addr: str | None = None
    """Address of this node at the rendezvous; None for the one from which it reaches that."""
    join_timeout: int = 300
    """Seconds until all nodes and ranks must have met."""
    hang_timeout: float | str | None = None
    """Seconds in which a rank must make progress within an iteration, 0 for ever; None follows the
    longest iteration so far."""
    max_restarts: int = 0
    """How many times all ranks are started again after a failure. On one node rltrain does it, and
    launchers are given 0."""
    log_root: str = "logs"
    """Folder in which run folders are made."""
    no_plugins: tuple[str, ...] = ()
    """Plugins that must not be used."""
    plugins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Options of plugins that the user set, by plugin's name; the plan has checked them."""

    @property
    def endpoint(self) -> str:
        """Where the nodes meet, host:port: on node 0, or the user's rendezvous."""
        return self.rdzv_endpoint or endpoint(self.master_addr, self.master_port)

    @property
    def meeting_point(self) -> tuple[str, int]:
        """Host and port of `endpoint`."""
        host, _, port = self.endpoint.rpartition(":")
        if not host or not port.isdecimal():
            return self.endpoint.strip("[]"), self.master_port
        return host.strip("[]"), int(port)

    @property
    def nodes_are_numbered(self) -> bool:
        """Whether there are several nodes, and each knows its number before they meet."""
        return self.nnodes > 1 and self.rdzv_backend in (None, "static")

    @property
    def on_several_ranks(self) -> bool:
        """Whether more than one rank may take part."""
        return self.distributed and (self.nnodes > 1 or self.nproc_per_node != 1)


@dataclass(frozen=True, kw_only=True)
class RunConfig(Placement):
    """One training job, resolved: what is trained, how much of it, and where it is written."""

    library: str
    """The RL library."""
    algorithm: str
    """The library's algorithm."""
    task: str
    """The task."""
    suite: str
    """The suite that makes the task."""
    grad_sync: str
    """How gradients are averaged over ranks."""

    num_envs: int
    """Environments per rank."""
    total_envs: int | None = None
    """Environments of all ranks together, if the user gave that number; `num_envs` follows."""
    random_lengths: bool = False
    """Whether each environment starts at a random point of its episode."""
    max_iterations: int | None = None
    """Iteration at which training ends; None if the library's options decide."""
    check_interval: int = 50
    """Iterations between two checks that the ranks are still equal; 0 checks at the end only."""
    on_nonfinite: str = "stop"
    """What NaN or infinity does to the run: "stop", "skip" or "rollback"."""
    target_return: float | None = None
    """Mean return at which training ends early; None for never."""
    seed: int = 42
    """The base seed; -1 has rank 0 draw one."""

    agent: Mapping[str, Any] = field(default_factory=dict)
    """All of the library's options, in its own format."""
    agent_config: str | None = None
    """The YAML file that they come from, if there is one."""
    env: Mapping[str, Any] = field(default_factory=dict)
    """The task's options that differ from its defaults."""
    checkpoint: str | None = None
    """Path of the checkpoint to start from, if there is one."""
    resume: str | None = None
    """The run folder of the run that this one goes on with, if there is one."""
    run_dir: str | None = None
    """The run folder, for ranks that are started again; None for a new one."""
    auto_resume: bool = False
    """Whether to start from the latest checkpoint of the runs with the same name instead, if there
    is one. Ranks that are started again look again."""
    checkpoint_interval: int | str | None = None
    """When to save checkpoints besides those of the library: a number of iterations, or a time such
    as "600s"; None for never."""
    keep: int | None = None
    """How many checkpoints to keep, the newest ones, and the best one besides; None for all."""
    trust_checkpoint: bool = False
    """Whether to load a checkpoint that may run code."""
    run_name: str | None = None
    """Suffix of the run folder's name."""
    rank_log_dir: str | None = None
    """Folder for the ranks' logs; None for the run folder."""
    show_ranks: tuple[int, ...] | str | None = None
    """Ranks of each node whose own output the console shows too, counted on the node; or "all"."""
    profile: bool = False
    """Whether all ranks are timed for some iterations."""
    headless: bool = False
    """Whether simulators must not open a window."""
    enable_cameras: bool = False
    """Whether Isaac Sim is started so that cameras render."""
    renders: bool = False
    """Whether rank 0's environments are rendered, because an observer needs it."""
    writers: tuple[str, ...] = ()
    """The writers."""
    observers: tuple[str, ...] = ()
    """The observers."""
