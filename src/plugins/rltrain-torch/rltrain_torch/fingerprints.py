"""Fingerprints of tensors for the divergence check, made where the tensors are."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import torch

__all__ = ["device_checksum", "fingerprints"]

_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers as wide as a tensor's numbers; of other widths bytes are taken."""

_STEP, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15
"""Odd numbers without a pattern in their bits, those of the generator SplitMix64."""


@torch.no_grad()
def fingerprints(named: Iterable[tuple[str, torch.Tensor]]) -> dict[str, int]:
    """Return a checksum of each tensor's bits: equal exactly where the tensors are.

    Of what is on a GPU only the checksums cross to the host, all together: one wait, and no copy of
    the parameters. On the host, CRC-32 is faster than torch is.

    Args:
        named: names and tensors, on any devices.
    """
    found: dict[str, int] = {}
    waiting: dict[torch.device, dict[str, torch.Tensor]] = {}
    for name, tensor in named:
        if tensor.device.type == "cpu":
            data = tensor.detach().contiguous().view(-1).view(torch.uint8)
            found[name] = zlib.crc32(data.numpy().data)
        else:
            waiting.setdefault(tensor.device, {})[name] = device_checksum(tensor.detach())
            found[name] = 0  # In its place, until it is known.
    for sums in waiting.values():
        found.update(zip(sums, torch.stack([*sums.values()]).tolist(), strict=True))
    return found


def device_checksum(tensor: torch.Tensor) -> torch.Tensor:
    """Return a checksum of a tensor's bits on its own device, int64 of shape ().

    Each number's bits are mixed with its place by steps that can be undone, modulo 2**64: a change
    of one number always changes the sum, and of several as good as always. Integers, so that the
    order in which a device sums does not matter.
    """
    flat = tensor.contiguous().view(-1)
    bits = flat.view(_BITS.get(flat.element_size(), torch.uint8)).long()
    mixed = torch.arange(1, len(bits) + 1, device=bits.device).mul_(_STEP).add_(bits)
    for factor in (_FIRST, _SECOND):
        mixed.bitwise_xor_((mixed >> 32).bitwise_and_(0xFFFFFFFF)).mul_(factor)
    return mixed.bitwise_xor_((mixed >> 32).bitwise_and_(0xFFFFFFFF)).sum()
