"""How the core sees tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rltrain_torch.arrays import TorchArrays


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64])
def test_a_view_on_the_host_shares_the_memory(dtype):
    tensor = torch.zeros(3, dtype=dtype, requires_grad=dtype.is_floating_point)
    view = TorchArrays().view_on_host(tensor)
    tensor.detach()[1] = 1
    assert isinstance(view, np.ndarray)
    assert view.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "other",
    [torch.ones(2, dtype=torch.bfloat16), torch.ones(2, device="meta"), np.ones(2), 1.0, None],
)
def test_what_numpy_cannot_view_stays_as_it_is(other):
    assert TorchArrays().view_on_host(other) is other


def test_tensors_are_told_from_other_objects():
    owns = TorchArrays().owns
    assert owns(torch.ones(2))
    assert owns(torch.nn.Parameter(torch.ones(2)))
    assert owns(torch.ones(2).as_subclass(type("Mine", (torch.Tensor,), {})))
    assert not any(map(owns, (np.ones(2), 1.0, None, torch.float32, torch.Size((2,)))))
