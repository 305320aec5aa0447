"""Exports torch's policies. Importing this module does not import torch; see `rltrain.policy`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain.policy import PolicyModule

__all__ = ["OPSET", "TorchExporter"]

OPSET = 18
"""ONNX's operators, unless the user names another set. torch's exporter knows them in this one, and
converts them to others. Every onnxruntime since 1.14 runs them."""

_ONNX = ("onnx", "onnxscript", "onnxruntime")


class TorchExporter:
    """Writes ONNX, TorchScript ("jit") and torch.export ("pt2"); see `rltrain.policy.Exporter`."""

    formats: Mapping[str, str] = {"onnx": ".onnx", "jit": ".pt", "pt2": ".pt2"}

    def check(self, format: str) -> None:
        """Check that ONNX's packages are installed; the other formats need torch alone."""
        missing = [name for name in _ONNX if importlib.util.find_spec(name) is None]
        if format == "onnx" and missing:
            raise UsageError(
                f"--format onnx needs {', '.join(missing)}, which is not installed: "
                "pip install 'rltrain-torch[export]'"
            )

    def export(
        self,
        module: PolicyModule,
        format: str,
        path: Path,
        metadata: Mapping[str, str],
        opset: int | None = None,
    ) -> Mapping[str, Any]:
        """Write a policy; see `rltrain.policy.Exporter`."""
        from rltrain_torch import exported

        if format == "onnx":
            return exported.write_onnx(module, path, metadata, opset or OPSET)
        write = {"jit": exported.write_jit, "pt2": exported.write_pt2}[format]
        write(module, path, metadata)
        return {}

    def load(self, path: Path, format: str) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """Load a written file; see `rltrain.policy.Exporter`."""
        from rltrain_torch import exported

        loaders = {"onnx": exported.load_onnx, "jit": exported.load_jit, "pt2": exported.load_pt2}
        return loaders[format](path)
