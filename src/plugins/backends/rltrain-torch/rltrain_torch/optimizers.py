"""The divergence check of optimizers, and fingerprints of tensors on their own devices."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from rltrain.session import Session

__all__ = ["watch_optimizer"]

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integer types by element size; tensors with other element sizes are read as bytes."""

_STEP, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
"""Odd constants with irregular bits, from the generator SplitMix64."""


def watch_optimizer(
    session: Session, optimizer: torch.optim.Optimizer, role: str = "optimizer"
) -> None:
    """Register an optimizer's learning rates and moments with the divergence check.

    Args:
        session: this rank's session.
        optimizer: the optimizer; its state may still be empty.
        role: its name in messages, such as "critic optimizer".
    """
    session.watch(role, lambda: _fingerprints(optimizer))


def _fingerprints(optimizer: torch.optim.Optimizer) -> Mapping[str, Any]:
    rates = {
        "learning rate" if index == 0 else f"learning rate of group {index}": float(group["lr"])
        for index, group in enumerate(optimizer.param_groups)
    }
    parameters = itertools.chain.from_iterable(g["params"] for g in optimizer.param_groups)
    moments = (
        (f"{name} of parameter {index}", value)
        for index, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    )
    return {**rates, **fingerprints(moments)}


@torch.no_grad()
def fingerprints(named: Iterable[tuple[str, torch.Tensor]]) -> dict[str, int]:
    """Return a checksum of each tensor's bits: equal tensors have equal checksums.

    The checksums of tensors on a GPU are computed there and copied to the host together: one
    synchronization, and no copy of the parameters. On the CPU, CRC-32 is faster.
    """
    checksums: dict[str, int] = {}
    on_device: dict[torch.device, dict[str, torch.Tensor]] = {}
    for name, tensor in named:
        if tensor.device.type == "cpu":
            data = tensor.detach().contiguous().view(-1).view(torch.uint8)
            checksums[name] = zlib.crc32(data.numpy().data)
        else:
            on_device.setdefault(tensor.device, {})[name] = device_checksum(tensor.detach())
            checksums[name] = 0  # Keeps its place in the order until the value is known.
    for sums in on_device.values():
        checksums.update(zip(sums, torch.stack([*sums.values()]).tolist(), strict=True))
    return checksums


def device_checksum(tensor: torch.Tensor) -> torch.Tensor:
    """Return a checksum of a tensor's bits on its own device, int64 of shape ().

    The bits of each element are mixed with its index by invertible steps modulo 2**64. A change of
    one element always changes the sum; a change of several almost always does. The sum is one of
    integers, so it does not depend on the order in which the device adds them.
    """
    flat = tensor.contiguous().view(-1)
    bits = flat.view(_BITS.get(flat.element_size(), torch.uint8)).long()
    mixed = torch.arange(1, len(bits) + 1, device=bits.device).mul_(_STEP).add_(bits)
    for factor in (_FIRST, _SECOND):
        mixed.bitwise_xor_((mixed >> 32).bitwise_and_(0xFFFFFFFF)).mul_(factor)
    return mixed.bitwise_xor_((mixed >> 32).bitwise_and_(0xFFFFFFFF)).sum()
