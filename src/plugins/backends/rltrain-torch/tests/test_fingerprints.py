"""Checksums that ranks compare tensors by: every change shows, on any device."""

from __future__ import annotations

import pytest
import torch

from rltrain_torch.optimizers import device_checksum, fingerprints

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8]


def host(tensor):
    return fingerprints([("x", tensor)])["x"]


def device(tensor):
    return int(device_checksum(tensor))


@pytest.fixture(params=[host, device])
def checksum(request):
    return request.param


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_changed_bit_is_seen(checksum, dtype):
    generator = torch.Generator().manual_seed(0)
    before = torch.randint(1, 100, (37,), generator=generator).to(dtype)
    seen = {checksum(before)}
    for place in (0, 17, 36):
        for bit in range(8 * before.element_size()):
            changed = before.clone()
            byte = changed.view(torch.uint8)[place * before.element_size() + bit // 8 :][:1]
            byte.bitwise_xor_(1 << bit % 8)
            seen.add(checksum(changed))
    assert len(seen) == 1 + 3 * 8 * before.element_size()
    assert checksum(before.clone()) == checksum(before)


def test_order_length_and_opposite_changes_are_seen(checksum):
    x = torch.arange(6.0)
    others = [x.flip(0), x.roll(1), x[:5], torch.cat([x, torch.zeros(1)]), -x, torch.zeros(6)]
    # Changes that a plain sum of the bits, or one weighted by position, would miss.
    for change in ([1, -1, 0, 0, 0, 0], [1, -2, 1, 0, 0, 0], [0, 1, -1, -1, 1, 0]):
        others.append((x.view(torch.int32) + torch.tensor(change)).to(torch.int32).view(x.dtype))
    assert len({checksum(each) for each in (x, *others)}) == 1 + len(others)


@pytest.mark.parametrize(
    "tensor",
    [torch.tensor(3.0), torch.zeros(0), torch.tensor([True, False]), torch.ones(2, 3).t()],
    ids=["scalar", "empty", "bool", "strided"],
)
def test_tensors_of_every_kind_have_a_checksum(checksum, tensor):
    assert isinstance(checksum(tensor), int)
    assert checksum(tensor) == checksum(tensor.clone().contiguous())


def test_nan_is_compared_by_its_bits(checksum):
    assert checksum(torch.tensor([torch.nan])) == checksum(torch.tensor([torch.nan]))
    assert checksum(torch.tensor([0.0])) != checksum(torch.tensor([-0.0]))
