from __future__ import annotations

import collections
import os
import pickle
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

from rltrain.data import UnsafePickle
from rltrain_torch.checkpoints import load, top_level_keys


def test_keys_are_those_of_the_saved_mapping(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"model": {"weight": torch.ones(2)}, "epoch": 3}, path)
    assert top_level_keys(str(path)) == ["model", "epoch"]


def test_a_file_without_a_mapping_has_no_keys(tmp_path):
    path = tmp_path / "model.pt"
    torch.save([1], path)
    assert top_level_keys(str(path)) == []


def test_the_reason_for_an_unreadable_file_is_one_line(tmp_path):
    path = tmp_path / "text.pt"
    path.write_text("no checkpoint\n")
    for wrong in (top_level_keys(str(path)), top_level_keys(str(tmp_path / "absent.pt"))):
        assert wrong.startswith("it cannot be read as a checkpoint (")
        assert "\n" not in wrong


def test_a_damaged_archive_is_answered_with_a_reason(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"model": {"weight": torch.ones(2)}}, path)
    path.write_bytes(path.read_bytes().replace(b"PK\x01\x02", b"ZZZZ"))
    assert zipfile.is_zipfile(path)  # Its end says so.
    assert top_level_keys(str(path)).startswith("it cannot be read as a checkpoint (")


class Planted:
    """Runs a command when it is unpickled."""

    def __init__(self, folder):
        self.file = folder / "planted"

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


def test_a_file_that_would_run_code_is_loaded_only_if_it_is_trusted(tmp_path):
    path, planted = str(tmp_path / "model.pt"), Planted(tmp_path)
    torch.save({"model": {"weight": torch.ones(2)}, "more": planted}, path)
    with pytest.raises(UnsafePickle, match=r"^posix\.mkdir$"):
        load(path)
    assert top_level_keys(path).startswith("loading it would run code (posix.mkdir). If you trust")
    assert not planted.file.exists()
    assert top_level_keys(path, trusted=True) == ["model", "more"]
    assert planted.file.exists()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint8, np.bool_])
def test_numbers_and_arrays_of_numpy_are_data(tmp_path, kind):
    path = str(tmp_path / "model.pt")
    torch.save({"best": kind(1), "history": np.ones(3, kind)}, path)
    loaded = load(path)
    assert (loaded["best"], loaded["history"].tolist()) == (1, [1, 1, 1])


def test_an_archive_that_would_grow_is_refused(tmp_path):
    path = tmp_path / "a.pth"
    torch.save({"w": torch.zeros(100_000)}, path)
    with zipfile.ZipFile(path) as stored, zipfile.ZipFile(tmp_path / "b.pth", "w", 8) as bomb:
        for part in stored.namelist():
            bomb.writestr(part, stored.read(part))
    assert top_level_keys(str(path)) == ["w"]
    assert "parts of it are compressed" in top_level_keys(str(tmp_path / "b.pth"))


def test_an_older_file_takes_no_more_memory_than_it_has_bytes(tmp_path):
    path = tmp_path / "a.pth"
    torch.save({"w": torch.zeros(2)}, path, _use_new_zipfile_serialization=False)
    assert top_level_keys(str(path)) == ["w"]
    contents = path.read_bytes()
    claim = contents.index(b"X\x10\x00\x00\x00protocol_version")
    path.write_bytes(contents[: claim + 4] + b"\x7f" + contents[claim + 5 :])
    tracemalloc.start()
    assert "cannot be read" in top_level_keys(str(path))
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()


def test_a_wrong_type_of_numpys_is_refused(tmp_path):
    """numpy itself crashes on it."""
    path = tmp_path / "a.pth"
    torch.save({"n": np.float64(1)}, path, _use_new_zipfile_serialization=False)
    contents = path.read_bytes()
    order = contents.index(b"X\x01\x00\x00\x00<")
    end = contents.index(b"NNNJ", order)
    path.write_bytes(contents[:end] + contents[end + 2 :])
    assert top_level_keys(str(path)) == ["n"]
    path.write_bytes(contents[: order + 5] + b"N" + contents[order + 6 :])
    assert top_level_keys(str(path)) == ["n"]


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array(["a", "b"])])
def test_arrays_of_numpy_are_loaded(array, tmp_path):
    path = tmp_path / "a.pth"
    torch.save({"deep": [(array, 1)], "n": np.int32(3)}, path)
    loaded = load(str(path))
    back = loaded["deep"][0][0]
    assert (type(back), back.dtype, back.tolist()) == (np.ndarray, array.dtype, array.tolist())
    assert loaded["n"] == 3


@pytest.mark.parametrize(
    ("name", "holds", "said"),
    [
        ("agent.yaml", b"seed: 1\n", "it is a file of options. Give it with --agent-config."),
        ("policy.onnx", b"\x08\x07pytorch", "it is an exported policy (ONNX). Name the checkpoint"),
        ("agent.yaml", b"", "it is empty. Name another one."),
        ("policy.pt", b"\x08\x07pytorch", "it cannot be read as a checkpoint ("),
    ],
)
def test_files_of_another_kind_are_named(tmp_path, name, holds, said):
    path = tmp_path / name
    path.write_bytes(holds)
    assert top_level_keys(str(path)).startswith(said)


def nested(pair, levels):
    value = (1,)
    for _ in range(levels):
        value = pair(value)
    return value


STRANGE = {
    "a sparse tensor": lambda: torch.sparse_coo_tensor([[0]], [1.0], (3,)),
    "a tensor of sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "a tensor on no device": lambda: torch.ones(3, device="meta"),
    "a quantized tensor": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    "a tensor of 1e12 numbers": lambda: torch.ones(1).expand(10**12),
    "lists in lists": lambda: nested(lambda x: [x, x], 40),
    "pairs of pairs": lambda: nested(lambda x: (x, x), 40),
    "a range": lambda: range(10**12),
    "deep": lambda: nested(lambda x: [x], 150),
}


@pytest.mark.parametrize("archive", [True, False])
@pytest.mark.parametrize("name", STRANGE)
def test_only_plain_tensors_and_data_are_loaded_and_soon(name, archive, tmp_path):
    path = str(tmp_path / "a.pth")
    torch.save({"a": STRANGE[name]()}, path, _use_new_zipfile_serialization=archive)
    began = time.process_time()
    with pytest.raises(pickle.UnpicklingError):
        load(path)
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("archive", [True, False])
def test_a_key_of_shared_tuples_is_refused(archive, tmp_path):
    """To hash it takes 2**60 steps; a file is made from one that is hashed."""
    path = tmp_path / "a.pth"
    torch.save({"a": nested(lambda x: (x, x), 8)}, path, _use_new_zipfile_serialization=archive)
    assert load(str(path))
    tuples = [b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(60)]
    pickled = b"\x80\x02}X\x01\x00\x00\x00xq\x00" + b"".join(tuples) + b"Ns."
    if archive:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("a/data.pkl", pickled)
            file.writestr("a/version", "3")
    else:
        contents = path.read_bytes()
        start = contents.index(b"\x80\x02}q\x00X\x01\x00\x00\x00a")
        path.write_bytes(contents[:start] + pickled + contents[start:])
    with pytest.raises(pickle.UnpicklingError, match="damaged"):
        load(str(path))


def test_what_libraries_save_is_plain(tmp_path):
    path = str(tmp_path / "a.pth")
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.of_a_user = 1
    saved = {
        "model": model.state_dict(),
        "optimizer": torch.optim.Adam(model.parameters()).state_dict(),
        "kinds": [torch.ones(2, dtype=x) for x in (torch.bfloat16, torch.bool, torch.complex64)],
        "views": [torch.ones(2, 3).T, torch.arange(9)[3:5], torch.zeros(0), torch.tensor(1.0)],
        "others": [torch.Size([1, 2]), torch.device("cpu"), torch.float32, b"x", {1, 2}, 1j],
        "more": [parameter, bytearray(b"x"), collections.Counter("ab"), np.arange(3)],
    }
    for archive in (True, False):
        torch.save(saved, path, _use_new_zipfile_serialization=archive)
        assert repr(load(path)) == repr(saved)
