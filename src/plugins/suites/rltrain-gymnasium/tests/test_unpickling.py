"""Pickled files are read by a machine that makes data, and can do nothing else.

The property: whatever bytes it is given, it returns data or raises `UnpicklingError`, and neither
imports, compiles, opens nor starts anything (as Python's audit events tell).
"""

from __future__ import annotations

import collections
import datetime
import importlib.util
import io
import pickle
import pickletools
import random
import struct
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watched import nothing_runs

from rltrain.data import UnsafePickle
from rltrain_adapters.unpickling import _names, load_data

DATA = [
    None,
    [True, 1, -300, 70_000, 2**80, 2.5, "text", "x" * 300, b"bytes", b"y" * 300, 1j],
    [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}, set(), {1, 2}, frozenset({3})],
    [slice(1, 2), bytearray(b"x"), {"a": {"b": []}}, {1: 2, (2, 3): 4}],
    [collections.OrderedDict(a=1), collections.deque([1, 2], 5), collections.Counter("aab")],
    random.Random(1).getstate(),
    np.random.default_rng(1).bit_generator.state,
]
ARRAYS = [
    *(np.arange(6).reshape(2, 3).astype(kind) for kind in "?bBhHiIlLqQefdgFD"),
    np.asfortranarray(np.ones((2, 3))),
    np.arange(6.0).reshape(2, 3).T,
    np.array(["a", "bc"]),
    np.array([b"a"]),
    np.zeros((0, 2), np.uint8),
    np.arange(3, dtype=">i4"),
    np.float32(1.5),
    np.bool_(True),
]


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("obj", DATA, ids=range(len(DATA)))
def test_data_is_read(obj, protocol):
    assert load_data(pickle.dumps(obj, protocol)) == obj


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: array.dtype.name)
def test_arrays_are_read(array, protocol):
    back = load_data(pickle.dumps([array, array], protocol))[1]
    assert back.dtype == array.dtype.newbyteorder("=")
    assert type(back) is type(array)
    np.testing.assert_array_equal(back, array)


def test_names_of_numpy_1_are_read():
    written = pickle.dumps(np.arange(3.0), 4).replace(b"\x16numpy._core.", b"\x15numpy.core.")
    assert load_data(written).tolist() == [0.0, 1.0, 2.0]


class OfAClass:
    pass


NOT_DATA = [
    OfAClass(),
    OfAClass,
    print,
    collections.defaultdict(list),
    np.array([OfAClass()]),
    np.zeros(1, [("a", "f8")]),
    np.dtype("O"),
    np.random.default_rng(),
    datetime.datetime(2020, 1, 1),
    io.BytesIO(),
    ValueError("no"),
]


@pytest.mark.parametrize("obj", NOT_DATA, ids=lambda obj: type(obj).__name__)
@pytest.mark.parametrize("protocol", [4, 5])
def test_what_must_never_be_on_the_list_is_refused(obj, protocol):
    with pytest.raises(UnsafePickle):
        load_data(pickle.dumps({"inside": [obj]}, protocol))


# The property

"".encode("raw-unicode-escape")  # Imports what reads the text of old protocols.


def tried(data: bytes, **more) -> bool:
    """Read bytes; return whether they were data. Nothing else may happen than being refused."""
    with nothing_runs(strict=True):
        try:
            found = load_data(data, **more)
        except pickle.UnpicklingError:
            return False
    assert not callable(found) or type(found).__name__ in ("Name",), found
    return True


def test_the_watch_sees_what_code_does():
    with pytest.raises(AssertionError, match="compile"):
        tried(pickle.dumps(RunsCode()), trusted=True)


class RunsCode:
    def __reduce__(self):
        return compile, ("1", "x", "eval")


def text(value: str) -> bytes:
    coded = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(coded)) + coded


def global_name(module: str, name: str) -> bytes:
    return text(module) + text(name) + b"\x93"


ARGUMENTS = [
    b")",
    b"}\x85",
    text("f8") + b"\x85",
    text("import os") + b"\x85",
    global_name("numpy", "ndarray") + b"K\x00\x85C\x01b\x87",
    b"J\xff\xff\xff\x7f\x85",
    b"N\x85",
    b"]\x85",
]
"""Tuples of arguments for whatever can be called."""

USES = [
    b".",
    *(arguments + b"R." for arguments in ARGUMENTS),
    *(arguments + b"\x81." for arguments in ARGUMENTS),  # NEWOBJ
    b")}\x92.",  # NEWOBJ_EX
    b"}" + text("__init__") + b"Ns" + b"b.",  # BUILD on the name itself
    b"}" + text("make") + b"Ns" + b"b.",
    b")R}" + text("__setstate__") + b"Nsb.",
    b")RN}" + text("__class__") + b"Ns\x86b.",
    b"K\x01a.",  # APPEND to it
    b"(K\x01e.",
    b"(K\x01\x90.",
    b"K\x01K\x01s.",
    b"(K\x01K\x01u.",
    b")R(K\x01e.",
    b")RK\x01K\x02s.",
]


def modules_of_the_list():
    modules = {name.rpartition(".")[0] for name in _names()}
    # numpy has its core under one of two names.
    other = "numpy.core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy._core"
    of_other_numpy = {module for module in modules if module.startswith(other)}
    missing = {name for name in modules if importlib.util.find_spec(name.split(".")[0]) is None}
    others = {"os", "posix", "sys", "copyreg", "_codecs", "pickle"}
    return sorted(modules - of_other_numpy - missing | others)


def reachable():
    """Return every name of every module that the list names, and what is below it."""
    names = set()
    for module_name in modules_of_the_list():
        module = importlib.import_module(module_name)
        for name in dir(module):
            names.add((module_name, name))
            below = getattr(module, name, None)
            names.update((module_name, f"{name}.{inner}") for inner in dir(below)[:80])
    return sorted(names)


@pytest.mark.slow
def test_no_name_that_the_list_could_reach_runs_code():
    names, made = reachable(), set()
    for module, name in names:
        listed = f"{module}.{name}" in _names()
        for use in USES if listed else USES[:2]:
            if tried(b"\x80\x05" + global_name(module, name) + use):
                made.add(f"{module}.{name}")
    print(f"{len(names)} names, {len(_names())} on the list, {len(USES)} uses of each of these")
    assert len(names) > 20_000
    assert made <= set(_names())


PYTHON = ("builtins", "__builtin__")


def test_of_pythons_own_names_only_types_of_data_are_on_the_list():
    """Whoever adds another one says here what cannot be done with it."""
    assert {name for name in _names() if not name.startswith(("numpy.", "ml_dtypes."))} == {
        *(f"{x}.{y}" for x in PYTHON for y in ("complex", "slice", "bytearray", "set")),
        *("collections.OrderedDict", "collections.Counter", "collections.deque"),
    }


_PLAIN = [code for code in pickletools.opcodes if code.arg is None]
_ALL = [code.name for code in pickletools.opcodes]


@pytest.mark.parametrize("opcode", pickletools.opcodes, ids=_ALL)
def test_no_opcode_runs_code(opcode):
    """Each opcode on stacks of many kinds, with arguments of many kinds."""
    code = opcode.code.encode("latin1")
    arguments = [
        b"",
        b"\x00" * 8,
        b"\x01" + b"\x00" * 7 + b"x",
        b"os\nsystem\n",
        b"1\n",
        b"\xff" * 8,
    ]
    stacks = [b"", b"(", b"N", b"]K\x01", b"}K\x01K\x02", b"\x8f(K\x01", b"(]]", text("os") * 2]
    stacks += [global_name(*name.rsplit(".", 1)) + b")" for name in _names()]
    for stack in stacks:
        for argument in arguments:
            for end in (b".", b"0.", b"R.", b"\x85."):
                tried(b"\x80\x04" + stack + code + argument + end)


PIECES = st.one_of(
    st.sampled_from([code.code.encode("latin1") for code in _PLAIN]),
    st.sampled_from(sorted(_names())).map(lambda name: global_name(*name.rsplit(".", 1))),
    st.sampled_from([("os", "system"), ("builtins", "eval"), ("numpy", "f2py")]).map(
        lambda name: global_name(*name)
    ),
    st.sampled_from(ARGUMENTS),
    st.integers(0, 255).map(lambda x: b"K" + bytes([x])),
    st.integers(-(2**31), 2**31 - 1).map(lambda x: b"J" + struct.pack("<i", x)),
    st.integers(0, 20).map(lambda x: b"h" + bytes([x])),
    st.floats().map(lambda x: b"G" + struct.pack(">d", x)),
    st.sampled_from(["f8", "O", "V8", "<", "C", "F", "__class__", "U99999999"]).map(text),
    st.binary(max_size=8).map(lambda x: b"C" + bytes([len(x)]) + x),
    st.binary(max_size=8).map(lambda x: b"\x96" + struct.pack("<Q", len(x)) + x),
)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None)
@given(st.lists(PIECES, max_size=25))
def test_no_program_of_opcodes_runs_code(pieces):
    tried(b"\x80\x05" + b"".join(pieces) + b".")


def test_a_small_file_takes_no_more_memory_than_it_has_bytes():
    huge = 10**12
    for claim in (
        b"\x8e" + struct.pack("<Q", huge),
        b"\x96" + struct.pack("<Q", huge),
        global_name("builtins", "bytearray") + b"\x8a\x06" + huge.to_bytes(6, "little") + b"\x85R",
        text("f8") * 3,
    ):
        assert not tried(b"\x80\x05N" + claim + b".")
    tried(b"\x80\x05Nr" + struct.pack("<I", 2**32 - 1) + b".")


LEVELS = 60
FEW = b"\x80\x04(" + text("x") + b"\x94"
PAIRS = FEW + b"".join(b"h" + bytes([n]) + b"h" + bytes([n]) + b"\x86\x94" for n in range(LEVELS))
LISTS = FEW + b"".join(b"](h" + bytes([n]) + b"h" + bytes([n]) + b"e\x94" for n in range(LEVELS))
LAST = b"h" + bytes([LEVELS])
BYTES = b"\x80\x04B" + struct.pack("<I", 1 << 20) + bytes(1 << 20) + b"\x94"
RANGE = (
    global_name("builtins", "range") + b"K\x00\x8a\x06" + (10**12).to_bytes(6, "little") + b"\x86R"
)

BOMBS = {
    "lists in lists": LISTS + b"t.",
    "pairs of pairs": PAIRS + b"t.",
    "a key of pairs": PAIRS + b"}" + LAST + b"Ns.",
    "a member of pairs": PAIRS + b"\x8f(" + LAST + b"\x90.",
    "a frozenset of pairs": PAIRS + b"(" + LAST + b"\x91.",
    "a Counter of pairs": PAIRS + global_name("collections", "Counter") + b"](" + LAST + b"e\x85R.",
    "a set of pairs": PAIRS + global_name("builtins", "set") + b"](" + LAST + b"e\x85R.",
    "a deque of a range": global_name("collections", "deque") + RANGE + b"\x85R.",
    "a Counter of a range": global_name("collections", "Counter") + RANGE + b"\x85R.",
    "a list of itself": b"\x80\x04]\x94h\x00a.",
    "deep": b"\x80\x04" + b"(" * 100_000 + b"t" * 100_000 + b".",
    "a number as bytes": b"\x80\x04"
    + global_name("numpy._core.numeric", "_frombuffer")
    + (b"(\x8a\x06" + (10**12).to_bytes(6, "little"))
    + (global_name("numpy", "dtype") + text("u1") + b"\x85R")
    + (b"\x8a\x06" + (10**12).to_bytes(6, "little") + b"\x85" + text("C"))
    + b"tR.",
    "copies of bytes": BYTES
    + b"]("
    + (global_name("builtins", "bytearray") + b"h\x00\x85R") * 2000
    + b"e.",
    "deques of a list": b"\x80\x04]("
    + b"N" * 10_000
    + b"e\x94]("
    + (global_name("collections", "deque") + b"h\x00\x85R") * 2000
    + b"e.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_takes_no_longer_than_it_has_bytes(name):
    began = time.process_time()
    with pytest.raises(pickle.UnpicklingError):
        load_data(BOMBS[name])
    assert time.process_time() - began < 2.0


def test_what_is_shared_is_read():
    part = ("a", 1.5)
    obj = {part: [part] * 3, "same": [np.arange(3.0)] * 2, "keys": {((1, 2), frozenset({3})): part}}
    assert repr(load_data(pickle.dumps(obj, 4))) == repr(obj)
