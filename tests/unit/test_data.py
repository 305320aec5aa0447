"""What ranks send each other, and a rank's state, as bytes that run no code."""

from __future__ import annotations

import collections
import math
import pathlib
import pickle
import random

import numpy as np
import pytest
from made_up_arrays import MadeUpArrays, Tensor, tensor
from messages import says

from rltrain.data import (
    MalformedData,
    UnsafePickle,
    pack_object,
    pack_state,
    unpack_object,
    unpack_state,
)

ARRAYS = {"made up": MadeUpArrays()}


def dumps(state):
    return pack_state(state, ARRAYS)


def loads(data, device):
    return unpack_state(data, device, ARRAYS)


DATA = [
    None,
    [True, 1, 2.5, "text", b"bytes", 1j, {1, 2}, frozenset({3}), (4, [5]), {"a": {"b": []}}],
    [slice(1, 2), collections.OrderedDict(a=1), collections.deque([1]), bytearray(b"x")],
    random.Random(1).getstate(),
    [np.float64(1.5), np.bool_(True), np.random.default_rng(1).bit_generator.state],
    [collections.Counter("aab"), {1: "a", (2, "b"): {}, None: 0}],
    [math.inf, -0.0, 5e-324, "\ud800", "\0", "", b"", {"": {"dict": 1}}],
]


class OfAClass:
    pass


class RunsCode:
    def __reduce__(self):
        return print, ("code ran",)


NOT_DATA = {
    "test_data.OfAClass": OfAClass(),
    "test_data.RunsCode": [{"inside": RunsCode()}],
    "ZeroDivisionError": ZeroDivisionError("no"),
    "pathlib": pathlib.Path("x"),
    "made_up_arrays.Tensor": tensor([1.0, 1.0]),
    "lambda": lambda: None,
    "builtins.range": range(3),
}


@pytest.mark.parametrize("obj", DATA, ids=range(len(DATA)))
def test_data_arrives_as_it_was(obj):
    assert unpack_object(pack_object(obj)) == obj
    for array in (np.arange(6.0).reshape(2, 3).T, np.array(["a", "b"]), np.zeros((0, 2), np.uint8)):
        arrived = unpack_object(pack_object({"x": array}))["x"]
        assert arrived.dtype == array.dtype
        np.testing.assert_array_equal(arrived, array)


@pytest.mark.parametrize("name", NOT_DATA)
def test_what_is_not_data_is_refused_by_name(name, capsys):
    with says(TypeError):
        pack_object(NOT_DATA[name])
    assert capsys.readouterr().out == ""


def test_what_a_peer_sends_runs_no_code(capsys):
    with says(MalformedData):
        unpack_object(pickle.dumps(RunsCode()))
    assert capsys.readouterr().out == ""


def state(values):
    of_a_framework = tensor(values)
    both = [of_a_framework[:1], np.array(values)]
    return {"a": of_a_framework, "b": both, "c": ("x", 1, None)}


def test_a_state_is_restored():
    back = loads(dumps(state([1.0, 2.0])), "cpu")
    assert isinstance(back["a"], Tensor)
    assert back["a"].tolist() == [1.0, 2.0]
    assert back["b"][0].tolist() == [1.0]
    assert (back["b"][1] == [1.0, 2.0]).all()
    assert back["c"] == ("x", 1, None)
    back["a"] += 1.0  # Not a view of the file's memory.
    assert dumps(state([1.0, 2.0])) == dumps(state([1.0, 2.0])) != dumps(state([1.0, 3.0]))
    other, host = loads(dumps([tensor([1.0], "device:3"), tensor([1.0])]), "device:0")
    assert (other.device, host.device) == ("device:0", "cpu")  # On the rank's device.
    for dtype in ("float64", "int64", "uint8", "bool"):
        assert loads(dumps(tensor([1, 1], dtype=dtype)), "cpu").dtype == dtype
    with says(MalformedData):
        unpack_state(dumps(tensor([1.0])), "cpu", {})


def test_files_of_other_versions_have_the_same_format():
    head = b'{"dict":{"iteration":7,"x":{"array":["|u1",[2],"C"]}}}'
    written = b"\x01" + len(head).to_bytes(8, "little") + head + b"\x00\x01"
    read = unpack_object(written)
    assert read["iteration"] == 7
    assert read["x"].tolist() == [0, 1]
    assert pack_object(read) == written


@pytest.mark.parametrize("name", ["MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"])
def test_generators_go_on_where_they_were(name):
    generator = np.random.Generator(getattr(np.random, name)(3))
    generator.random(5)
    python = random.Random(3)
    arrived = unpack_object(pack_object([generator, python]))
    assert arrived[0].random(700).tolist() == generator.random(700).tolist()
    assert arrived[1].random() == python.random()


def hostile_generators():
    twister = np.random.MT19937(1).state
    philox = np.random.Philox(1).state
    for state in (twister, philox):
        for change in (-1, 625, 10**9, 2**63, "1", None, 1.0):
            inner = {**state["state"]}
            if "pos" in inner:
                yield {**state, "state": {**inner, "pos": change}}
            yield {**state, "buffer_pos": change}
    yield {**twister, "bit_generator": "Generator"}
    yield {**twister, "state": {**twister["state"], "key": np.zeros(3, np.uint32)}}
    yield {**twister, "state": 3}
    yield {}


@pytest.mark.parametrize("state", list(hostile_generators()))
def test_a_generator_that_would_read_beyond_its_numbers_is_refused(state):
    packed = pack_object(np.random.default_rng(1))
    head = pack_object(state)
    # The state of a dict in the place of the generator's.
    forged = head.replace(b'{"dict"', b'{"generator":{"dict"', 1)
    size = int.from_bytes(head[1:9], "little")
    text = forged[9 : 9 + size + len(b'{"generator":')] + b"}"
    forged = b"\x01" + len(text).to_bytes(8, "little") + text + head[9 + size :]
    assert packed[:1] == forged[:1]
    with pytest.raises(MalformedData):
        unpack_object(forged)


def test_a_state_may_have_any_object_for_a_reader_who_trusts_its_writer():
    packed = dumps({"x": pathlib.Path("y"), "n": 1})
    with says(UnsafePickle):
        loads(packed, "cpu")
    assert unpack_state(packed, "cpu", ARRAYS, trusted=True) == {"x": pathlib.Path("y"), "n": 1}


HEADS = [
    *('{"array":["O",[1],"C"]}', '{"array":["<f8",[-1],"C"]}', '{"array":["<f8",[1e3],"C"]}'),
    *('{"array":["<f8",[4611686018427387904,4],"C"]}', '{"array":["<f8",[true],"C"]}'),
    *('{"array":["f8,O",[0],"C"]}', '{"array":["<f8",[0],"K\\u0000"]}'),
    *('{"scalar":["|S999999999",[],"C"]}', '{"array":["<U999999999",[0],"C"]}'),
    *('{"bytes":-1}', '{"bytes":1.5}', '{"bytes":99999999999999999999}', '{"int":"0x1"}'),
    '{"dict":{"a":' + "[" * 100 + "]" * 100 + "}}",
    *('{"on":["torch",1]}', '{"on":["os",true,1]}', '{"object":["os.system",0]}'),
    *('{"dict":[1]}', '{"set":[[1]]}', '{"items":[[1]]}', '{"Random":[3,[1],null]}'),
    *('{"range":[0,9,1]}', '{"deque":[{"range":[0,9,1]},null]}', '{"Counter":[{"range":[0,9,1]}]}'),
    *('{"Random":[{"tuple":[3,{"tuple":[1]},null]}]}', '{"complex":["1+"]}'),
    *('{"deque":[[1],-1]}', '{"__class__":1}', '{"_obj":1}', '{"node":1}', '{"a":1,"b":2}'),
    *("{}", "[" * 100_000, "", "nul", "1" * 5000),
]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head[:50])
def test_what_is_not_a_message_is_refused_in_one_kind_of_error(head):
    text = head.encode()
    with pytest.raises(MalformedData) as refused:
        unpack_object(b"\x01" + len(text).to_bytes(8, "little") + text)
    assert "\n" not in str(refused.value)


def test_every_cut_message_is_refused():
    whole = pack_object({"a": [1.5, np.arange(4)], "b": b"bytes", "c": {1: (2, 3)}})
    for size in range(len(whole)):
        with pytest.raises(MalformedData):
            unpack_object(whole[:size])
    assert unpack_object(whole + b"padding")["b"] == b"bytes"
