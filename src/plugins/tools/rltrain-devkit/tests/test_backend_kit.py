"""The kit of backends: the template passes, and each wrong one fails the matching test."""

from __future__ import annotations

import pytest

ONCE = "    backend =", "    trains = False\n    backend ="
"""That its ranks train is judged once."""

STATE = "[*model.parameters(), *model.buffers()]"
MEET = "dist.init_process_group("
ROWS = "return [unpack_object(row.numpy().tobytes()) for row in rows]"

WRONG = {
    "imports torch at the top": (
        "from collections.abc import Iterable",
        "import torch; from collections.abc import Iterable",
        "test_declaring_is_light",
    ),
    "names another device": (
        "self.device = world.device",
        'self.device = "cuda:0"',
        "test_each_rank_knows_its_place",
    ),
    "forgets to divide a mean": (
        'tensor / self.world_size if op == "mean" else tensor',
        "tensor",
        "test_all_reduce_combines_arrays",
    ),
    "returns torch's tensors for numpy's arrays": (
        "return tensor if isinstance(x, torch.Tensor) else tensor.numpy()",
        "return tensor",
        "test_collectives_keep_kind_dtype_and_shape",
    ),
    "broadcasts from rank 0 only": (
        "dist.broadcast(tensor, src)",
        "dist.broadcast(tensor, 0)",
        "test_broadcast_gives_the_sources_array",
    ),
    "broadcasts objects from rank 0 only": (
        "self.gather_objects(obj if self.rank == src else None)[src]",
        "self.gather_objects(obj)[0]",
        "test_broadcast_object_gives_the_sources_object",
    ),
    "gathers in another order for one rank": (
        ROWS,
        f"{ROWS}[:: 1 if dst is None else -1]",
        "test_gather_objects_is_in_the_order_of_ranks",
    ),
    "gathers for one rank on all": (
        "if dst not in (None, self.rank):",
        "if False:",
        "test_gather_objects_is_in_the_order_of_ranks",
    ),
    "unpickles whatever a peer sends": (
        "from rltrain.data import pack_object, unpack_object",
        "from pickle import dumps as pack_object, loads as unpack_object",
        "test_what_is_not_data_is_refused",
    ),
    "lets ranks through a barrier": (
        "dist.barrier()",
        "pass",
        "test_no_rank_leaves_a_barrier_early",
    ),
    "seeds nothing": (
        "torch.manual_seed(seed)",
        "pass",
        "test_the_same_seed_draws_the_same_numbers",
    ),
    "seeds a constant": (
        "torch.manual_seed(seed)",
        "torch.manual_seed(0)",
        "test_the_same_seed_draws_the_same_numbers",
    ),
    "hides the model's own methods": (
        "return model",
        "bare = type(model).__base__(); bare.__dict__ = model.__dict__; return bare",
        "test_a_wrapped_model_keeps_its_interface",
    ),
    "forgets one parameter": (
        STATE,
        "[*list(model.parameters())[1:], *model.buffers()]",
        "test_a_wrapped_model_has_rank_0s_state",
    ),
    "forgets buffers": (STATE, "model.parameters()", "test_a_wrapped_model_has_rank_0s_state"),
    "watches the first parameter only": (
        "in model.named_parameters()",
        "in list(model.named_parameters())[:1]",
        "test_fingerprints_show_what_differs",
    ),
    "hashes with each process' own hash": (
        "zlib.crc32(",
        "(lambda data: hash(bytes(data)))(",
        "test_fingerprints_show_what_differs",
    ),
    "closes once only": ("if dist.is_initialized():", "if True:", "test_close_may_be_called_twice"),
    "needs a second rank": (
        "for _ in range(self.world_size)]",
        "for _ in range(2)]",
        "test_a_world_of_one_rank_works",
    ),
}


RIGHT_JAX = """
import os

from rltrain import hookimpl
from rltrain.specs import BackendSpec
from rltrain.data import pack_object, unpack_object


@hookimpl
def rltrain_provides():
    factory = f"{__name__}:Backend"
    return [BackendSpec(name="judged", factory=factory, framework="jax", device="cpu")]


class Group:
    def __init__(self, world):
        import jax

        jax.config.update("jax_platforms", "cpu")
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        jax.distributed.initialize(address, world.world_size, world.rank)
        self.rank = world.rank
        self.world_size = world.world_size
        self.device = world.device

    def all_reduce(self, x, op="sum"):
        import numpy as np

        rows = self.rows(x)
        if op in ("min", "max"):
            return self.like(getattr(np, op)(rows, 0), x)
        total = rows.sum(0, dtype=x.dtype)
        if op == "mean":
            total = (total / self.world_size).astype(x.dtype)
        return self.like(total, x)

    def broadcast(self, x, src=0):
        return self.like(self.rows(x)[src], x)

    def broadcast_object(self, obj, src=0):
        return self.gather_objects(obj)[src]

    def gather_objects(self, obj, dst=None):
        import numpy as np

        data = np.frombuffer(pack_object(obj).ljust(1000, b"."), np.uint8)
        gathered = [unpack_object(row.tobytes()) for row in self.rows(data)]
        return gathered if dst in (None, self.rank) else []

    def barrier(self):
        self.gather_objects(None)

    def close(self):
        import jax

        jax.distributed.shutdown()

    def rows(self, x):
        import numpy as np
        from jax.experimental import multihost_utils

        x = np.asarray(x)
        data = np.frombuffer(x.tobytes(), np.uint8)
        rows = multihost_utils.process_allgather(data)
        return rows.reshape(self.world_size, -1).view(x.dtype).reshape(-1, *x.shape)

    def like(self, result, x):
        import jax
        import numpy as np

        return jax.numpy.asarray(result) if isinstance(x, jax.Array) else np.asarray(result)


class Backend:
    @hookimpl
    def rltrain_init_distributed(self, world):
        return Group(world)

    @hookimpl
    def rltrain_seed(self, seed):
        pass

    @hookimpl
    def rltrain_wrap_model(self, session, model, role):
        import jax

        return jax.tree.map(session.group.broadcast, model)
"""

TESTS_JAX = """
from rltrain_devkit import BackendConformance


class TestJudged(BackendConformance):
    backend = "judged"
    trains = False
    seeds_generator = False
"""

BROADCAST = "return jax.tree.map(session.group.broadcast, model)"

# What jax's arrays and models need; the rest is judged by torch's faults.
WRONG_JAX = {
    "returns numpy's arrays for jax's": (
        "return self.like(total, x)",
        "return np.asarray(total)",
        "test_collectives_keep_kind_dtype_and_shape",
    ),
    "reduces numpy's float64 as jax's float32": (
        "return self.like(total, x)",
        "import jax; return self.like(np.asarray(jax.numpy.asarray(total)), x)",
        "test_collectives_keep_kind_dtype_and_shape",
    ),
    "makes one dtype of a model": (
        BROADCAST,
        BROADCAST.replace("model)", "jax.tree.map(lambda x: x.astype('float32'), model))"),
        "test_a_wrapped_model_keeps_its_interface",
    ),
    "forgets a model's parameters": (
        BROADCAST,
        BROADCAST.replace("model)", "model) | {'parameters': model['parameters']}"),
        "test_a_wrapped_model_has_rank_0s_state",
    ),
    "forgets a model's buffers": (
        BROADCAST,
        BROADCAST.replace("model)", "model) | {'buffers': model['buffers']}"),
        "test_a_wrapped_model_has_rank_0s_state",
    ),
}


pytestmark = pytest.mark.slow


def test_a_correct_plugin_passes(judge):
    assert judge("backend") == {}


def test_a_plugin_that_only_a_run_shows_to_be_wrong_fails_where_its_ranks_train(judge):
    # The kit's own processes have no launcher.
    in_kit = 'assert "rltrain_devkit.kits" in __import__("sys").modules, "only in the kit"; '
    failed = judge("backend", (MEET, in_kit + MEET))
    assert list(failed) == ["test_its_ranks_train"]
    assert "only in the kit" in failed["test_its_ranks_train"]


def test_a_rank_that_fails_is_shown(judge):
    failed = judge("backend", ONCE, (MEET, f'raise OSError("no such network"); {MEET}'))
    assert "test_declaring_is_light" not in failed
    assert "OSError: no such network" in failed["test_each_rank_knows_its_place"]


def test_an_error_in_one_check_hides_no_other(judge):
    failed = judge("backend", ONCE, ("dist.barrier()", "raise OSError('no barrier')"))
    assert list(failed) == ["test_no_rank_leaves_a_barrier_early"]
    assert "OSError: no barrier" in failed["test_no_rank_leaves_a_barrier_early"]


@pytest.mark.parametrize("devices", [0, 1])
def test_ranks_without_a_device_each_are_skipped(judge, devices):
    few = {
        'device="cpu"': 'device="cuda", count_devices=f"{__name__}:count"',
        "@hookimpl\ndef rltrain_provides": f"def count():\n    return {devices}\n\n\n"
        "@hookimpl\ndef rltrain_provides",
        MEET: f"raise OSError; {MEET}",
    }
    assert judge("backend", ONCE, *few.items()) == {}


def test_a_correct_jax_plugin_passes(judge):
    assert judge.source(RIGHT_JAX, TESTS_JAX) == {}


@pytest.mark.parametrize("fault", WRONG_JAX)
def test_a_wrong_jax_plugin_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG_JAX[fault]
    assert RIGHT_JAX.count(old) == 1
    failed = judge.source(RIGHT_JAX.replace(old, new), TESTS_JAX)
    assert list(failed) == [expected]


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_plugin_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG[fault]
    failed = judge("backend", ONCE, (old, new))
    assert list(failed) == [expected]
    assert "RULE: " in failed[expected]
