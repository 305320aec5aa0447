"""What users of torchrun type: its settings are accepted and explained, or refused."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping

from rltrain.errors import UsageError
from rltrain.specs import Dialect, refusals

_LOGS = (
    "everything that a rank prints is in its log; the console shows rank 0's progress, and with "
    "--show-ranks what other ranks print."
)
_IGNORED = {
    "--tee -t": _LOGS,
    "--redirects -r": _LOGS,
    "--monitor-interval": "not used; a failed rank is noticed within 0.1 s.",
    "--start-method": "not used, nor by torchrun when it starts a script.",
    "--log-dir --torchrunx-log-dir --rank-log-dir": (
        "not used; the ranks' logs are in the run folder, below --log-root."
    ),
    "--local-addr": "not used; a node's address is the one from which it reaches node 0.",
    "--role": "not used; all ranks have the same role.",
}
"""Flags that change nothing, and what rltrain does."""

_OF_TORCHRUN = (
    *("nnodes", "nproc-per-node", "num-gpus", "node-rank", "master-addr", "master-port"),
    *("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "local-addr", "max-restarts"),
)
"""Flags that torchrun gets where it starts the ranks."""

_BY_TORCHRUN = "Leave it out, or let torchrun start the ranks: torchrun ... -m rltrain ..."
_REFUSED = refusals(
    [
        (
            "rdzv-backend rdzv-endpoint rdzv-id",
            "nodes that number themselves are torchrun's.",
            "Type torchrun's line: torchrun --nnodes N --nproc-per-node N --rdzv-backend c10d "
            "--rdzv-endpoint HOST:PORT --rdzv-id ID -m rltrain ... --distributed",
        ),
        (
            "m module no-python run-path",
            "the ranks run rltrain, not a script. (Hydra's -m: rltrain sweep -m.)",
            _BY_TORCHRUN,
        ),
        (
            "duplicate-stdout-filters duplicate-stderr-filters",
            "everything that a rank prints is in its log.",
            "Leave it out, and search the logs.",
        ),
        (
            "virtual-local-rank event-log-handler logs-specs numa-binding shutdown-timeout "
            "signals-to-handle",
            "rltrain's launcher does not have it.",
            _BY_TORCHRUN,
        ),
    ]
)


def _join_timeout(text: str) -> list[str]:
    """Return the one setting of a rendezvous that rltrain takes from the user."""
    name, _, value = text.partition("=")
    if name not in ("timeout", "join_timeout") or "," in value:
        raise UsageError(
            f"--rdzv-conf {text}: rltrain takes join_timeout=SECONDS and sets the others itself."
        )
    return [f"--join-timeout={value}"]


def _hands_over(words: list[str]) -> list[str] | None:
    """Return torchrun's command line for nodes that number themselves, or come and go."""
    from rltrain_torch.devices import count_cuda

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name in _OF_TORCHRUN:
        parser.add_argument(f"--{name}")
    flags = (word.partition("=") for word in words)
    dashed = [
        (name.replace("_", "-") if name.startswith("--") else name) + equals + value
        for name, equals, value in flags
    ]
    try:
        known, rest = parser.parse_known_args(dashed)
    except argparse.ArgumentError:  # A value is missing: `train` says so.
        return None
    given = {name: value for name, value in vars(known).items() if value is not None}
    comes_and_goes = re.fullmatch(r"\d+:\d+", given.get("nnodes", "")) is not None
    if not comes_and_goes and not given.keys() & {"rdzv_backend", "rdzv_endpoint", "rdzv_id"}:
        return None
    of_jax = re.search(r"--(ml-)?framework[ =]jax\b", " ".join(rest))
    if of_jax or "TORCHELASTIC_RUN_ID" in os.environ:  # Or it is one of torchrun's ranks already.
        return None
    _check_rendezvous(given, comes_and_goes)
    ranks = given.pop("num_gpus", None) or max(count_cuda(), 1)
    given = {"rdzv_backend": "c10d", "nproc_per_node": str(ranks)} | given
    if given["rdzv_backend"] == "c10d" and _is_here(given.get("rdzv_endpoint", "localhost:0")):
        given["rdzv_conf"] = ",".join(filter(None, [given.get("rdzv_conf"), "is_host=true"]))
    of_torch = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    if comes_and_goes:  # Ranks that start again resume from the newest checkpoint.
        rest = [*rest, "--auto-resume", "--run-name", given["rdzv_id"]]
    command = [sys.executable, "-m", "torch.distributed.run", *of_torch]
    return [*command, "-m", "rltrain", "train", *rest, "--distributed"]


def _is_here(endpoint: str) -> bool:
    """Return whether nodes meet on this machine, at an address that others reach.

    torch recognizes its own machine by name, and Debian gives that name another address.
    """
    from rltrain.nodes import can_listen, is_loopback

    host, _, port = endpoint.rpartition(":")
    host = host.strip("[]")
    return not is_loopback(host) and can_listen(host, int(port))


def _check_rendezvous(given: Mapping[str, str], comes_and_goes: bool) -> None:
    """Refuse what torchrun would answer with a traceback."""
    nodes, backend = given.get("nnodes", "1"), given.get("rdzv_backend", "c10d")
    least, _, most = nodes.rpartition(":")
    if comes_and_goes and not 0 < int(least) <= int(most):
        raise UsageError(f"--nnodes {nodes}: must be MIN:MAX, such as 1:4.")
    if backend not in (known := ("static", "c10d", "etcd", "etcd-v2")):
        raise UsageError(f"--rdzv-backend {backend}: must be one of {', '.join(known)}.")
    for name, metavar, meaning in (
        ("rdzv-endpoint", "HOST:PORT", "where the nodes meet; that node must stay"),
        ("rdzv-id", "ID", "the run's name, the same on every node"),
    ):
        if name.replace("-", "_") not in given and nodes != "1":
            raise UsageError(f"--nnodes {nodes}: add --{name} {metavar}, {meaning}.")
    endpoint = given.get("rdzv_endpoint", "a:1")
    if not re.fullmatch(r"(\[[^\[\]]+\]|[^:\[\]]+):\d+", endpoint):
        raise UsageError(f"--rdzv-endpoint {endpoint}: must be HOST:PORT, such as 10.0.0.1:29500.")


def _of_gpus(value: str) -> list[str]:
    """Return Isaac Lab's --num-gpus: a number of ranks with a GPU each, gpu, cpu or auto."""
    return [f"--nproc-per-node={value}", *(["--device=cuda"] if value.isdecimal() else [])]


DIALECT = Dialect(
    program="torchrun",
    flags={"--num-gpus": _of_gpus},
    train_flags={
        "--standalone": [],
        "--rdzv-conf": _join_timeout,
        "--log-all-ranks": ["--show-ranks=all"],
    },
    ignored=_IGNORED,
    hands_over=_hands_over,
    refuses=_REFUSED,
)
