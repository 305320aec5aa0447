"""The connection to the Ray cluster."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping

import ray

from rltrain.errors import UsageError
from rltrain_ray.options import RayOptions

_ANSWER = 10.0
"""Seconds in which the cluster's address must answer. Ray itself would try for minutes."""


@contextlib.contextmanager
def connected(options: RayOptions) -> Iterator[None]:
    """Connect to the cluster, or start one; leave it afterwards."""
    if ray.is_initialized():  # By the user's own script, which goes on with it.
        yield
        return
    address = address_of(options, os.environ)
    try:
        with contextlib.chdir("/"):  # Nodes would look for modules here first.
            try:
                ray.init(address=address, include_dashboard=None, logging_level="warning")
            except ConnectionError:
                if address != "auto":
                    raise
                text = "no Ray cluster runs here: starting one on this machine, for this run"
                print(text, flush=True)
                ray.init(address="local", include_dashboard=False, logging_level="warning")
    except (ConnectionError, ValueError, RuntimeError) as error:
        where = f"ray.address={options.address}" if options.address else "--launcher ray"
        raise UsageError(f"{where}: there is no Ray cluster to connect to: {error}") from error
    try:
        yield
    finally:
        ray.shutdown()


def address_of(options: RayOptions, environ: Mapping[str, str]) -> str:
    """Return the cluster's address, for ray.init: "auto" for the one that runs on this machine."""
    address = options.address or environ.get("RAY_ADDRESS") or "auto"
    label = f"{'ray.address' if options.address else 'RAY_ADDRESS'}={address}"
    if address.startswith("ray://"):
        raise UsageError(
            f"{label}: Ray Client cannot start a run. Type the command on a node of the cluster, "
            "or submit it with `ray job submit`; without this address."
        )
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
        except OSError as error:
            raise UsageError(
                f"{label}: nothing answers there: {error}. Give the address that `ray start "
                "--head` has printed, or leave it out on a node of the cluster."
            ) from error
    return address
