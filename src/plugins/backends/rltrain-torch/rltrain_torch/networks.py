"""Networks of the user's own on several ranks: what in them would not learn as one.

No option says what such a network computes, so copies of it are tried: whether its output for a
row depends on other rows of the batch, and whether it is the same on all ranks.
"""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from rltrain.errors import UsageError
from rltrain.session import Session

_Arrays = list[np.ndarray[Any, Any]]

_ROUNDINGS = 1e3
"""By how many times the dtype's eps outputs may differ: two kinds of devices round otherwise."""


class OwnNetworks:
    """The parts of a model whose classes are neither torch's nor the library's nor rltrain's.

    Each is tried when it is first called, when it is first called to learn, and in each check.
    """

    def __init__(self, session: Session, model: torch.nn.Module, role: str) -> None:
        """Wait for the first calls; `role` is the model's name in messages."""
        self._session, self._model, self._role = session, model, role
        self._names = {part: name for name, part in model.named_modules()}
        self._trained = _trained(model)
        known = ("torch", "tensordict", session.config.library)
        self._own = [part for part in self._names if not _is_of(part, *known)]
        self._calls: dict[torch.nn.Module, Any] = {}
        # Parts too: a library may call one of them without the whole.
        parts = {part for network in self._own for part in network.modules()}
        self._hooks = {part: self._on_call(part) for part in parts}

    def answers(self) -> Mapping[str, Any]:
        """Return whether outputs for an input are those of rank 0. Collective."""
        if not self._own:
            return {}
        for name in _trained(self._model) - self._trained:
            raise UsageError(
                f"{self._role}.{name}, a parameter in a network of your own, was made or unfrozen "
                "after the start: each rank trains it alone. Make it in __init__, with "
                "requires_grad; or train on one rank."
            )
        mine = {self._names[part]: self._answer(part, call) for part, call in self._calls.items()}
        eps = max((torch.finfo(x.dtype).eps for x in self._model.parameters()), default=0.0)
        found = {}
        for name, first in self._session.group.broadcast_object(mine).items():
            is_equal = _same(mine.get(name) or [], first or [], tolerance=_ROUNDINGS * eps)
            found[f"{name}.output for an equal input".removeprefix(".")] = is_equal
        return found

    def _on_call(self, network: torch.nn.Module) -> Any:
        """Let a network be tried on the batch with which it is called."""

        def before(called: torch.nn.Module, args: Any, kwargs: Any) -> None:
            call, learns = (args, kwargs), network.training
            is_known = network in self._calls and not learns
            if called is not network or is_known or _rows(call) < 2:  # Copies have hooks as well.
                return
            for part in network.modules():
                if part in self._hooks and (learns or part is not network):
                    self._hooks.pop(part).remove()
            self._calls.setdefault(network, tree_map(_copied, call))
            self._check_rows(network, call)

        eager = torch.compiler.disable(before)  # type: ignore[no-untyped-call]
        return network.register_forward_pre_hook(eager, with_kwargs=True)

    def _check_rows(self, network: torch.nn.Module, call: Any) -> None:
        if not self._mixes_rows(network, call):
            return
        layers = ", ".join(name for x, name in self._names.items() if isinstance(x, _BatchNorm))
        raise UsageError(
            f"{f'{self._role}.{self._names[network]}'.removesuffix('.')}, a network of your own "
            f"({type(network).__qualname__}): its output for a row of the batch depends on the "
            f"other rows. Each of {self._session.group.world_size} ranks has its own rows, so they "
            f"would not learn as one. In place of statistics of a batch ({layers or 'BatchNorm'}, "
            "x.mean(0), running means), use LayerNorm or the library's own normalizer; or train on "
            "one rank."
        )

    def _mixes_rows(self, network: torch.nn.Module, call: Any) -> bool:
        """Return whether rows have other outputs when others change, the first and the last too."""
        rows = _rows(call)
        kept = list(range(1, rows - 1, 2) or [rows - 1])
        changed = tree_map(lambda x: _changed(x, rows, kept), call)
        collectives = _Collectives()  # type: ignore[no-untyped-call]
        with contextlib.suppress(Exception), collectives:
            first, again, other = (self._outputs(network, x, 3) for x in (call, call, changed))
            if collectives.seen or not _same(first, again):
                return False  # It pools over ranks itself; or nothing holds its noise.
            return not _same(first, other, kept)
        return False  # It cannot be tried.

    def _answer(self, network: torch.nn.Module, call: Any) -> _Arrays | None:
        """Return the outputs for an input that all ranks make alike; None if they are random."""
        self._check_rows(network, call)
        with contextlib.suppress(Exception):
            outputs = self._outputs(network, tree_map(_made_up, call), 2, fresh=True)
            half = len(outputs) // 2
            if _same(outputs[:half], outputs[half:]):
                return [x[:16] for x in outputs[:half]]
        return None

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _outputs(
        self, network: torch.nn.Module, call: Any, times: int, fresh: bool = False
    ) -> _Arrays:
        """Call a copy, the last time as it acts, and leave no trace: return the outputs for rows.

        If `fresh`, it acts every time, from the beginning.
        """
        rows, outputs = _rows(call), list[torch.Tensor]()
        with torch.no_grad(), _generators_kept(self._session.world.device):
            with _ComputedToo():
                twin = copy.deepcopy(network)
            for part in twin.modules():
                # Adapters pool what theirs learn.
                part.training &= not (fresh or _is_of(part))
            for time in range(times):
                if fresh:
                    _start_over(twin, rows)
                args, kwargs = tree_map(_copied, call)
                given = (twin.eval() if time == times - 1 else twin)(*args, **kwargs)
                outputs += [x for x in tree_leaves(tree_map(_opened, given)) if _is_batch(x, rows)]
        return [x.float().cpu().numpy() for x in outputs]


class _ComputedToo(TorchFunctionMode):
    """Copies tensors of a graph, too: a distribution keeps those of the last call."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__deepcopy__ and not args[0].is_leaf:
            return args[1].setdefault(id(args[0]), args[0].detach().clone())
        return func(*args, **(kwargs or {}))


class _Collectives(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether torch's collectives are called."""

    seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen |= func.namespace == "c10d"
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def _generators_kept(device: str) -> Iterator[None]:
    """Restore the generators' states: what is computed inside does not change what follows."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng([device] if device.startswith("cuda") else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _start_over(network: torch.nn.Module, rows: int) -> None:
    """Forget what has an entry for each row, as a recurrent state has, and reseed."""

    def cleared(x: Any) -> Any:
        has_rows = isinstance(x, torch.Tensor | np.ndarray) and rows in x.shape[:2]
        return x * 0 if has_rows else x

    for part in network.modules():
        for name, value in vars(part).items():
            if name not in ("_parameters", "_buffers", "_modules"):
                vars(part)[name] = tree_map(cleared, value)
    for seed in (torch.manual_seed, np.random.seed, random.seed):
        seed(0)


def _is_batch(x: Any, rows: int | None = None) -> bool:
    return isinstance(x, torch.Tensor) and x.ndim > 0 and rows in (None, len(x))


def _is_of(part: torch.nn.Module, *packages: str) -> bool:
    """Return whether a module's class is of one of these packages, or of rltrain's."""
    package = type(part).__module__.partition(".")[0]
    return package in packages or package.startswith("rltrain")


def _trained(model: torch.nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def _rows(call: Any) -> int:
    return max((len(x) for x in tree_leaves(call) if _is_batch(x)), default=0)


def _opened(x: Any) -> Any:
    """Return what an object holds, such as a distribution."""
    return x if isinstance(x, torch.Tensor) else getattr(x, "__dict__", x)


def _copied(x: Any) -> Any:
    return x.clone() if isinstance(x, torch.Tensor) else x


def _changed(x: Any, rows: int, kept: list[int]) -> Any:
    """Return other numbers in the other rows of a batch; indices stay as they are."""
    if not _is_batch(x, rows) or not (x.is_floating_point() or x.dtype == torch.uint8):
        return x
    changed = 2 * x + 1 if x.is_floating_point() else 255 - x
    changed[kept] = x[kept]
    return changed


def _made_up(x: Any) -> Any:
    """Return numbers that depend only on a tensor's shape."""
    is_tensor = isinstance(x, torch.Tensor)
    return torch.arange(x.numel()).sin().abs().view(x.shape).to(x) if is_tensor else x


def _same(some: _Arrays, others: _Arrays, rows: Any = slice(None), tolerance: float = 1e-5) -> bool:
    """Return whether outputs are equal in these rows, as shares of the greatest of each."""
    return all(
        np.allclose(
            x[rows],
            y[rows],
            0,
            tolerance * np.abs(np.nan_to_num(y)).max(initial=0.0),
            equal_nan=True,
        )
        for x, y in zip(some, others, strict=False)
    )
