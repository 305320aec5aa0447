"""Files of policies in torch's formats: written, and run."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from rltrain.errors import UsageError
from rltrain.policy import PolicyModule

METADATA = "metadata.json"
"""The name of the metadata among the extra files of TorchScript and torch.export."""

Run = Callable[[Sequence[Any]], Sequence[Any]]


class _Exported(torch.nn.Module):
    """The function of a policy; without states, it returns the actions instead of a tuple."""

    def __init__(self, module: PolicyModule) -> None:
        super().__init__()
        self.function = module.function
        self.has_states = bool(module.states)
        self.eval()

    def forward(self, *arrays: torch.Tensor) -> Any:
        """Return the function's results, in their order."""
        results = self.function(*arrays)
        return tuple(results) if self.has_states else results[0]


def write_onnx(
    module: PolicyModule, path: Path, metadata: Mapping[str, str], opset: int
) -> dict[str, Any]:
    """Write an ONNX file with named inputs and outputs; return its versions."""
    import onnx

    examples, dynamic_shapes = _examples(module)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # On torch's own workings.
        program = torch.onnx.export(
            _Exported(module),
            examples,
            dynamo=True,
            dynamic_shapes=dynamic_shapes,
            input_names=module.input_names,
            output_names=module.output_names,
            opset_version=opset,
            verbose=False,
        )
    assert program is not None, "with dynamo, torch returns a program"
    model = program.model_proto
    written = next(each.version for each in model.opset_import if not each.domain)
    # Where torch cannot convert its operators, it leaves them, or writes what ONNX does not accept.
    try:
        onnx.checker.check_model(model)
        is_valid = True
    except onnx.checker.ValidationError:
        is_valid = False
    if not is_valid or written != opset:
        raise UsageError(
            f"--opset {opset}: torch {torch.__version__} cannot write this policy with it. Leave "
            "it out, or name a higher one that your runtime supports."
        )
    onnx.helper.set_model_props(model, dict(metadata))
    onnx.save(model, path)
    return {"opset": written, "ir_version": model.ir_version}


def load_onnx(path: Path) -> Run:
    """Return what an ONNX file does, by onnxruntime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # Errors.
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(arrays: Sequence[Any]) -> Sequence[Any]:
        results: Sequence[Any] = session.run(None, dict(zip(names, arrays, strict=True)))
        return results

    return run


def write_jit(module: PolicyModule, path: Path, metadata: Mapping[str, str]) -> None:
    """Write a file of TorchScript, traced."""
    examples, _ = _examples(module)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # On the format's age, and on torch's own workings.
        function = _Exported(module)
        traced = torch.jit.trace(function, examples, check_trace=False)  # type: ignore[no-untyped-call]
        torch.jit.save(traced, str(path), _extra_files={METADATA: json.dumps(metadata)})


def load_jit(path: Path) -> Run:
    """Return what a file of TorchScript does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _runner(torch.jit.load(str(path), map_location="cpu"))  # type: ignore[no-untyped-call]


def write_pt2(module: PolicyModule, path: Path, metadata: Mapping[str, str]) -> None:
    """Write a file of torch.export."""
    examples, dynamic_shapes = _examples(module)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # On torch's own workings.
        program = torch.export.export(
            _Exported(module), examples, dynamic_shapes=dynamic_shapes, strict=False
        )
        torch.export.save(program, path, extra_files={METADATA: json.dumps(metadata)})


def load_pt2(path: Path) -> Run:
    """Return what a file of torch.export does."""
    return _runner(torch.export.load(path).module())


def _examples(module: PolicyModule) -> tuple[tuple[torch.Tensor, ...], Any]:
    """Return arguments for tracing, and that their first dimension is a batch of any size."""
    infos = [*module.inputs.values(), *module.states.values()]
    # Two: torch takes a batch of one for a constant.
    examples = tuple(
        torch.zeros(2, *info.shape, dtype=getattr(torch, info.dtype)) for info in infos
    )
    batch = torch.export.Dim("batch", max=2**31 - 1)
    return examples, (tuple({0: batch} for _ in examples),)


def _runner(function: Any) -> Run:
    """Return a function of numpy arrays for one of tensors."""

    @torch.no_grad()
    def run(arrays: Sequence[Any]) -> Sequence[Any]:
        results = function(*(torch.from_numpy(array) for array in arrays))
        return [x.numpy() for x in (results if isinstance(results, tuple) else (results,))]

    return run
