"""What this plugin provides. Importing it does not import torch."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.hookspecs import hookimpl
from rltrain.specs import BackendSpec, GradientSyncSpec, LauncherSpec, Spec

__all__ = ["rltrain_provides"]


_NCCL_FALLBACKS = (
    {"NCCL_P2P_DISABLE": "1"},
    {"NCCL_SHM_DISABLE": "1"},
    {"NCCL_IB_DISABLE": "1"},
    {"NCCL_ALGO": "Ring"},
    {"NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"},
    {"NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", "NCCL_ALGO": "Ring"},
    {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"},
)
"""Settings to try if NCCL fails: first those of Isaac Lab's troubleshooting page, then their
combinations, then sockets only."""


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare two backends, a launcher and a gradient sync."""
    return [
        BackendSpec(
            name="gloo",
            factory="rltrain_torch.backends:GlooBackend",
            about="rltrain_torch.devices:about",
            filled="rltrain_torch.devices:filled",
            framework="torch",
            device="cpu",
            shares=("cuda",),
            count_devices="rltrain_torch.devices:count_cuda",
        ),
        BackendSpec(
            name="nccl",
            factory="rltrain_torch.backends:NcclBackend",
            about="rltrain_torch.devices:about",
            filled="rltrain_torch.devices:filled",
            fallbacks=_NCCL_FALLBACKS,
            framework="torch",
            device="cuda",
            count_devices="rltrain_torch.devices:count_cuda",
        ),
        LauncherSpec(
            name="elastic",
            factory="rltrain_torch.elastic:ElasticLauncher",
            frameworks=("torch",),
            summary="torch elastic, with a preloaded forkserver",
        ),
        GradientSyncSpec(
            name="flat",
            factory="rltrain_torch.gradients:FlatGradientSync",
            frameworks=("torch",),
            summary="one all-reduce of all gradients a step",
        ),
    ]
