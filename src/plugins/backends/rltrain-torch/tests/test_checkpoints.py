"""Checkpoints as torch writes them: only data is read, and what is no checkpoint is named."""

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
from gymnasium import spaces
from messages import check_said, says

from rltrain.data import UnsafePickle
from rltrain.errors import UsageError, explain_mismatch
from rltrain.types import ArrayInfo
from rltrain_torch.checkpoints import load, top_level_keys
from rltrain_torch.policy import groups_of, read_checkpoint


@pytest.fixture
def saved(tmp_path):
    """Return a function that saves a state, and returns the file."""

    def save(state):
        torch.save(state, tmp_path / "model.pt")
        return tmp_path / "model.pt"

    return save


@pytest.mark.parametrize(
    ("state", "keys"), [({"model": 1, "epoch": 3}, ["model", "epoch"]), ([1], [])]
)
def test_keys_are_those_of_the_saved_mapping(saved, state, keys):
    assert top_level_keys(str(saved(state))) == keys


def test_the_reason_for_an_unreadable_file_is_one_line(saved, tmp_path):
    text, damaged = tmp_path / "text.pt", saved({"model": {"weight": torch.ones(2)}})
    text.write_text("no checkpoint\n")
    damaged.write_bytes(damaged.read_bytes().replace(b"PK\x01\x02", b"ZZZZ"))
    assert zipfile.is_zipfile(damaged)  # Its end says so.
    for path in (text, damaged, tmp_path / "absent.pt"):
        wrong = top_level_keys(str(path))
        assert wrong.startswith("it cannot be read as a checkpoint (")
        assert "\n" not in wrong


class Planted:
    """Runs a command when it is unpickled."""

    def __init__(self, folder):
        self.file = folder / "planted"

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


def test_a_file_that_would_run_code_is_loaded_only_if_it_is_trusted(tmp_path):
    path, planted = str(tmp_path / "model.pt"), Planted(tmp_path)
    torch.save({"model": {"weight": torch.ones(2)}, "more": planted}, path)
    with says(UnsafePickle):
        load(path)
    check_said(top_level_keys(path))
    assert not planted.file.exists()
    assert top_level_keys(path, trusted=True) == ["model", "more"]
    assert planted.file.exists()


def test_an_archive_that_would_grow_is_refused(tmp_path):
    path = tmp_path / "a.pth"
    torch.save({"w": torch.zeros(100_000)}, path)
    with zipfile.ZipFile(path) as stored, zipfile.ZipFile(tmp_path / "b.pth", "w", 8) as bomb:
        for part in stored.namelist():
            bomb.writestr(part, stored.read(part))
    assert top_level_keys(str(path)) == ["w"]
    check_said(top_level_keys(str(tmp_path / "b.pth")))


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


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint8, np.bool_, np.str_])
def test_numbers_and_arrays_of_numpy_are_loaded(saved, kind):
    array = np.ones((2, 3), kind)
    loaded = load(str(saved({"deep": [(array, 1)], "n": array[0, 0]})))
    back = loaded["deep"][0][0]
    assert (type(back), back.dtype, back.tolist()) == (np.ndarray, array.dtype, array.tolist())
    assert loaded["n"] == array[0, 0]


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("agent.yaml", b"seed: 1\n"),
        ("policy.onnx", b"\x08\x07pytorch"),
        ("agent.yaml", b""),
        ("policy.pt", b"\x08\x07pytorch"),
    ],
)
def test_files_of_another_kind_are_named(tmp_path, name, holds):
    path = tmp_path / name
    path.write_bytes(holds)
    check_said(top_level_keys(str(path)))


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


# What adapters share to load a policy


class OfTheUser:
    """What only a trusted file may name."""


def test_a_checkpoint_is_read_to_the_device(saved):
    read = read_checkpoint(saved({"model": torch.ones(2)}), "meta")
    assert read["model"].device.type == "meta"


@pytest.mark.parametrize("state", [[1], {"model": OfTheUser()}])
def test_what_is_no_checkpoint_is_named(saved, state):
    path = saved(state)
    with says(UsageError):
        read_checkpoint(path, "cpu")


def test_a_file_that_the_user_trusts_may_name_classes(saved):
    assert isinstance(read_checkpoint(saved({"it": OfTheUser()}), "cpu", True)["it"], OfTheUser)


def test_what_does_not_fit_is_one_line_that_says_what_to_do(tmp_path):
    path = tmp_path / "model.pt"
    with says(UsageError), explain_mismatch(path):
        raise RuntimeError("a\n\tb")
    with (
        says(UsageError),
        explain_mismatch(path),
    ):
        raise UsageError("is another's")


def test_groups_have_their_shapes_and_dtypes():
    box, image = spaces.Box(-1, 1, (2,)), spaces.Box(0, 255, (4, 4, 1), np.uint8)
    assert groups_of(box) == {"policy": ArrayInfo((2,))}
    assert groups_of(spaces.Dict(policy=box, eye=image)) == {
        "policy": ArrayInfo((2,)),
        "eye": ArrayInfo((4, 4, 1), "uint8"),
    }
