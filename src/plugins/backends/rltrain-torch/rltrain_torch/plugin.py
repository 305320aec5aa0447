"""What this plugin provides. Importing it does not import torch."""

from __future__ import annotations

from collections.abc import Iterable

from rltrain.hookspecs import hookimpl
from rltrain.specs import BackendSpec, Dialect, DoctorChecks, GradientSyncSpec, Spec
from rltrain_torch.torchrun import DIALECT


@hookimpl
def rltrain_provides() -> Iterable[Spec]:
    """Declare two backends and the gradient syncs."""
    return [
        BackendSpec(
            name="gloo",
            factory="rltrain_torch.backends:GlooBackend",
            framework="torch",
            arrays="rltrain_torch.arrays:TorchArrays",
            exporter="rltrain_torch.exporter:TorchExporter",
            is_default=True,
            launcher="processes",
            preload="rltrain_torch.preload",
            grad_sync="flat",
            device="cpu",
            shared_devices=("cuda",),
            count_devices="rltrain_torch.devices:count_cuda",
        ),
        BackendSpec(
            name="nccl",
            factory="rltrain_torch.backends:NcclBackend",
            framework="torch",
            arrays="rltrain_torch.arrays:TorchArrays",
            exporter="rltrain_torch.exporter:TorchExporter",
            is_default=True,
            launcher="processes",
            preload="rltrain_torch.preload",
            grad_sync="flat",
            device="cuda",
            why_not_shared="rltrain_torch.devices:why_not_shared",
            count_devices="rltrain_torch.devices:count_cuda",
        ),
        GradientSyncSpec(
            name="flat",
            factory="rltrain_torch.gradients:FlatGradientSync",
            frameworks=("torch",),
            summary="one all-reduce of all gradients a step",
        ),
        GradientSyncSpec(
            name="bf16",
            factory="rltrain_torch.gradients:Bf16GradientSync",
            frameworks=("torch",),
            summary="half the bytes: bfloat16 with error feedback",
        ),
    ]


@hookimpl
def rltrain_dialect() -> Dialect:
    """Say what users of torchrun type."""
    return DIALECT


@hookimpl
def rltrain_checkup() -> DoctorChecks:
    """Say what torch is built for, and what to try if NCCL fails."""
    from rltrain.nodes import NCCL_FALLBACKS  # Each command imports this module.

    return DoctorChecks(
        facts={"torch": "rltrain_torch.devices:about"}, remedies={"nccl": NCCL_FALLBACKS}
    )
