"""Reading checkpoints of libraries that write them with `torch.save`."""

from __future__ import annotations

import collections
import functools
import io
import pickle
import pickletools
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rltrain.data import UnsafePickle, would_run_code
from rltrain_adapters.unpickling import ArrayType, Name, fill_array, load_data, scalar

__all__ = ["as_file", "load", "top_level_keys"]

_CORES = ("core", "_core")


def load(path: str, device: str = "cpu", trusted: bool = False) -> Any:
    """Load a file that `torch.save` wrote.

    Args:
        path: the file.
        device: where its tensors go.
        trusted: whether to build anything that the file names, which may run any code.

    Returns:
        What was saved: tensors on the device, numpy's arrays, and plain data.

    Raises:
        UnsafePickle: it is not trusted, and names more than tensors, arrays and plain data.
        Exception: what damaged bytes cause.
    """
    import torch

    if trusted:
        return torch.load(path, map_location=device, weights_only=False)
    file = _bounded(path)
    for pickled in _pickles(file):
        load_data(pickled, persistent=lambda saved: None, names=_tensor_names())
    try:
        with torch.serialization.safe_globals(_numpy_data()):
            return _plain(torch.load(file, map_location=device, weights_only=True))
    except pickle.UnpicklingError as error:
        # torch's words around it would have users load the file as a trusted one.
        text = str(error).rpartition("WeightsUnpickler error: ")[2]
        raise pickle.UnpicklingError(text.partition("\n")[0]) from error


def _pickles(file: str | io.BytesIO) -> Iterator[bytes]:
    """Yield what torch will unpickle: torch itself hangs on a key of tuples that are shared."""
    import torch

    if isinstance(file, str):
        archive = torch._C.PyTorchFileReader(file)
        # torch refuses exported policies itself.
        if not any(name.endswith("constants.pkl") for name in archive.get_all_records()):
            yield archive.get_record("data.pkl")
        return
    for _ in range(5):  # An older file has five, the tensors' contents after them.
        began = file.tell()
        collections.deque(pickletools.genops(file), maxlen=0)
        yield file.getbuffer()[began : file.tell()].tobytes()
    file.seek(0)


@functools.cache
def _tensor_names() -> dict[str, Name]:
    """Return what makes plain tensors; here, where only their number is of interest, it makes none.

    What makes sparse ones and others is missing: torch does not check their indices.
    """
    import torch

    made = Name(lambda *parts: object(), lambda made, state: None)
    rebuilt = ("tensor", "tensor_v2", "tensor_v3", "parameter", "parameter_with_state")
    kinds = [name for name, x in vars(torch).items() if isinstance(x, torch.dtype)]
    kinds += [name for name in dir(torch) if name.endswith("Storage")]
    return {
        **{f"torch.{name}": Name() for name in kinds},
        **{f"torch.storage.{name}": Name() for name in ("TypedStorage", "UntypedStorage")},
        **dict.fromkeys(("torch.Size", "torch.device", "torch.serialization._get_layout"), made),
        **{f"torch._utils._rebuild_{name}": made for name in rebuilt},
        **{f"torch.{name}": made for name in ("Tensor", "nn.parameter.Parameter")},
        "torch._tensor._rebuild_from_type_v2": made,
        "collections.OrderedDict": Name(
            lambda: collections.OrderedDict(), lambda made, state: None
        ),
        "_codecs.encode": Name(lambda text, encoding: text.encode("latin1")),
    }


def _bounded(path: str) -> str | io.BytesIO:
    """Return a file from which torch reads no more than it has bytes."""
    with Path(path).open("rb") as opened:
        is_archive = opened.read(4) == b"PK\x03\x04"  # As torch decides.
    if is_archive:
        with zipfile.ZipFile(path) as archive:
            if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
                raise pickle.UnpicklingError("parts of it are compressed, which torch never does")
        return path
    # Of older files torch asks for as many bytes as they claim to have, and Python would take the
    # memory for so many before it reads.
    return io.BytesIO(Path(path).read_bytes())


def as_file(saved: Any) -> io.BytesIO:
    """Return a file in memory for a library's own loader, which runs what a file names.

    Args:
        saved: what `load` has read.
    """
    import torch

    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return file


class _Array:
    """An array of numpy's, while torch reads it: numpy's own loading of one crashes on bad data."""

    def __init__(self, *_: Any) -> None:
        import numpy as np

        self.array = np.empty(0, np.int8)

    def __setstate__(self, state: Any) -> None:
        fill_array(self.array, state)


def _numpy_data() -> list[Any]:
    """Return what builds numpy's arrays and numbers, by the names that numpy 1 and 2 write."""
    return [
        *((scalar, f"numpy.{core}.multiarray.scalar") for core in _CORES),
        *((_Array, f"numpy.{core}.multiarray._reconstruct") for core in _CORES),
        *((_Array, "numpy.ndarray"), (ArrayType, "numpy.dtype")),
    ]


def _plain(loaded: Any) -> Any:
    """Return what was loaded with numpy's arrays in the place of `_Array`."""
    import torch

    if isinstance(loaded, _Array):
        return loaded.array
    if isinstance(loaded, torch.Tensor) and (
        loaded.numel() * loaded.element_size() > loaded.untyped_storage().nbytes()
    ):
        raise pickle.UnpicklingError("a tensor is larger than its contents")
    if isinstance(loaded, dict):
        for key, value in loaded.items():
            loaded[key] = _plain(value)
    elif type(loaded) is list:
        loaded[:] = map(_plain, loaded)
    elif type(loaded) is tuple:
        return tuple(map(_plain, loaded))
    return loaded


def top_level_keys(path: str, trusted: bool = False) -> list[str] | str:
    """Return the keys of a checkpoint that is a mapping, or the reason why it cannot be read.

    Args:
        path: the file.
        trusted: whether to build anything that the file names, which may run any code.

    Returns:
        A list of the keys as text, which is empty if the file holds no mapping; or one sentence.
    """
    try:
        loaded = load(path, trusted=trusted)
    except UnsafePickle as error:
        return would_run_code(error)
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
        return _otherwise(path) or f"it cannot be read as a checkpoint ({reason})."
    return [str(key) for key in loaded] if isinstance(loaded, Mapping) else []


def _otherwise(path: str) -> str | None:
    """Return what a file is that is no checkpoint, and what to do, if that is known."""
    if not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        start = file.read(20)
    if not start:
        return "it is empty. Name another one."
    if start.startswith(b"version https://git"):
        return "it stands for a file that Git LFS keeps. Fetch that: git lfs pull."
    if path.endswith((".yaml", ".yml")):
        return "it is a file of options. Give it with --agent-config."
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Exception:  # No archive, or a damaged one.
        names = []
    kind = "ONNX" if path.endswith(".onnx") else None
    if any(name.endswith("/constants.pkl") for name in names):
        kind = "TorchScript"
    exported = f"it is an exported policy ({kind}). Name the checkpoint from which it was exported."
    return exported if kind else None  # Else what torch said of it stands.
