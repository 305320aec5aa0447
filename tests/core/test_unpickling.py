"""What ranks send each other is data only."""

from __future__ import annotations

import collections
import pathlib
import pickle
import random

import numpy as np
import pytest
import torch

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld
from rltrain.types import World
from rltrain.unpickling import UnsafePickle, load_data, pack_object, unpack_object

DATA = [
    None,
    [True, 1, 2.5, "text", b"bytes", 1j, {1, 2}, frozenset({3}), (4, [5]), {"a": {"b": []}}],
    [slice(1, 2), range(3), collections.OrderedDict(a=1), collections.deque([1]), bytearray(b"x")],
    random.Random(1).getstate(),
    [np.float64(1.5), np.bool_(True), np.random.default_rng(1).bit_generator.state],
]


class OfAClass:
    pass


class RunsCode:
    def __reduce__(self):
        return print, ("code ran",)


NOT_DATA = {
    "test_unpickling.OfAClass": OfAClass(),
    "builtins.print": [{"inside": RunsCode()}],
    "rltrain.types.World": World(),
    "rltrain.errors.UsageError": UsageError("no"),
    "pathlib": pathlib.Path("x"),
    "torch": torch.ones(2),
    "lambda": lambda: None,
}


@pytest.mark.parametrize("obj", DATA, ids=repr)
def test_data_arrives_as_it_was(obj):
    assert unpack_object(pack_object(obj)) == obj


def test_arrays_arrive_as_they_were():
    for array in (np.arange(6.0).reshape(2, 3).T, np.array(["a", "b"]), np.zeros((0, 2), np.uint8)):
        arrived = unpack_object(pack_object({"x": array}))["x"]
        assert arrived.dtype == array.dtype
        np.testing.assert_array_equal(arrived, array)


@pytest.mark.parametrize("name", NOT_DATA)
def test_what_is_not_data_is_refused_by_name(name, capsys):
    with pytest.raises(TypeError, match=r"(?s)data only.*" + name):
        pack_object(NOT_DATA[name])
    assert capsys.readouterr().out == ""


def test_a_name_with_dots_reaches_nothing_more():
    pytest.importorskip("ml_dtypes")
    with pytest.raises(UnsafePickle, match=r"_finfo\.np\.f2py\.os\.system"):
        load_data(b"\x80\x04\x8c\x09ml_dtypes\x8c\x18_finfo.np.f2py.os.system\x93.")


def test_what_a_peer_sends_runs_no_code(capsys):
    with pytest.raises(UnsafePickle, match=r"another rank.*builtins\.print"):
        unpack_object(pickle.dumps(RunsCode()))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "send",
    [lambda group, obj: group.gather_objects(obj), lambda group, obj: group.broadcast_object(obj)],
)
def test_the_fake_group_refuses_what_real_ones_do(send):
    world = FakeWorld(2)
    with pytest.raises(TypeError, match="data only"):
        world.run(lambda group: send(group, World()))
    assert world.trace == []
