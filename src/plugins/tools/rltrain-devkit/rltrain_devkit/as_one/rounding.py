"""Runs that tell rounding from faults: in float64, and with weights that are a rounding off."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rltrain import hookimpl


class OffByRounding:
    """An observer that multiplies initial weights by 1 + size * noise."""

    def __init__(self, size: float, seed: int) -> None:
        self._size = size
        self._generator = torch.Generator().manual_seed(seed)

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self) -> Any:
        """Change the model's parameters."""
        model = yield
        with torch.no_grad():
            for x in model.parameters():
                noise = torch.randn(x.shape, generator=self._generator, dtype=torch.float64)
                x.copy_(x.double() * (1 + self._size * noise.to(x.device)))
        return model


class AllInFloat64:
    """An observer that lets a rank compute in float64 all that it computes in float32."""

    def __init__(self) -> None:
        self._entered = contextlib.ExitStack()

    @hookimpl(tryfirst=True)
    def rltrain_seed(self, stream: str) -> None:
        """Begin with the first stream."""
        if stream == "environment":  # Before anything is made.
            self._entered.enter_context(_Doubled())  # type: ignore[no-untyped-call]

    @hookimpl
    def rltrain_shutdown(self) -> None:
        """End with the run."""
        self._entered.close()


class _Doubled(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        # torch.load makes an empty tensor, and then gives it the bytes of the file.
        if func is not torch.ops.aten.empty.memory_format or list(args[0]) != [0]:
            args = [torch.float64 if x is torch.float32 else x for x in args]
            if named.get("dtype") is torch.float32:
                named["dtype"] = torch.float64
        result = func(*args, **named)
        # Python's numbers and numpy's arrays become tensors by this operation.
        made = func is torch.ops.aten.lift_fresh.default and result.dtype is torch.float32
        return result.double() if made else result


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """Make float64 torch's usual type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
