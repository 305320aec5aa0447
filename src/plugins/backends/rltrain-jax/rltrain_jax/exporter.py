"""Exports jax's policies. Importing this module does not import jax; see `rltrain.policy`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.policy import PolicyModule

__all__ = ["JaxExporter"]

_WRITER = "flatbuffers"
"""The package with which jax writes its files; it does not require it."""

_PLATFORMS = ("cpu", "cuda")
"""On which a file runs, wherever it was written."""


class JaxExporter:
    """Writes StableHLO by `jax.export`; see `rltrain.policy.Exporter`."""

    formats: Mapping[str, str] = {"stablehlo": ".stablehlo"}

    def check(self, format: str) -> None:
        """Check that what jax writes its files with is installed."""
        if importlib.util.find_spec(_WRITER) is None:
            raise UsageError(
                f"--format {format} needs {_WRITER}, which is not installed: "
                "pip install 'rltrain-jax[export]'"
            )

    def export(
        self,
        module: PolicyModule,
        format: str,
        path: Path,
        metadata: Mapping[str, str],
        opset: int | None = None,
    ) -> Mapping[str, Any]:
        """Write a policy; see `rltrain.policy.Exporter`. The file holds no metadata."""
        import jax
        from jax import export

        def function(*arrays: Any) -> Any:
            results = module.function(*arrays)
            return tuple(results) if module.states else results[0]

        (batch,) = export.symbolic_shape("batch")
        infos = [*module.inputs.values(), *module.states.values()]
        arguments = [
            jax.ShapeDtypeStruct((batch, *info.shape), jax.dtypes.canonicalize_dtype(info.dtype))
            for info in infos
        ]
        exported = export.export(jax.jit(function), platforms=_PLATFORMS)(*arguments)
        path.write_bytes(exported.serialize())
        return {
            "platforms": list(exported.platforms),
            "calling_convention_version": exported.calling_convention_version,
        }

    def load(self, path: Path, format: str) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """Load a written file; see `rltrain.policy.Exporter`."""
        import jax
        import numpy as np
        from jax import export

        function = export.deserialize(bytearray(path.read_bytes()))
        dtypes = [each.dtype for each in function.in_avals]
        call = jax.jit(function.call)

        def run(arrays: Sequence[Any]) -> Sequence[Any]:
            typed = [np.asarray(x, dtype) for x, dtype in zip(arrays, dtypes, strict=True)]
            results = call(*typed)
            return [np.asarray(x) for x in (results if isinstance(results, tuple) else (results,))]

        return run
