"""The kit of backends: the template passes, and each wrong one fails the matching test."""

from __future__ import annotations

import pytest

ONCE = "    backend =", "    trains = False\n    backend ="
"""That its ranks train is judged once."""

STATE = "[*model.parameters(), *model.buffers()]"
MEET = "dist.init_process_group("
ROWS = "return [unpack_object(row.numpy().tobytes()) for row in rows]"

IMPORT = "from collections.abc import Iterable"
DIVIDED = 'tensor / self.world_size if op == "mean" else tensor'
NUMPY = "return tensor if isinstance(x, torch.Tensor) else tensor.numpy()"
SENT = "self.gather_objects(obj if self.rank == src else None)[src]"
FROM = "from rltrain.data import pack_object, unpack_object"
PICKLE = "from pickle import dumps as pack_object, loads as unpack_object"
BARE = "bare = type(model).__base__(); bare.__dict__ = model.__dict__; return bare"
NAMED = "in model.named_parameters()"

WRONG = {
    "declaring_is_light": [("torch", IMPORT, f"import torch; {IMPORT}")],
    "each_rank_knows_its_place": [
        ("another device", "self.device = world.device", 'self.device = "cuda:0"'),
    ],
    "all_reduce_combines_arrays": [("mean is sum", DIVIDED, "tensor")],
    "collectives_keep_kind_dtype_and_shape": [("torch's for numpy's", NUMPY, "return tensor")],
    "broadcast_gives_the_sources_array": [
        ("rank 0's", "dist.broadcast(tensor, src)", "dist.broadcast(tensor, 0)"),
    ],
    "broadcast_object_gives_the_sources_object": [("0's", SENT, "self.gather_objects(obj)[0]")],
    "gather_objects_is_in_the_order_of_ranks": [
        ("another for one rank", ROWS, f"{ROWS}[:: 1 if dst is None else -1]"),
        ("on all for one", "if dst not in (None, self.rank):", "if False:"),
    ],
    "what_is_not_data_is_refused": [("unpickled", FROM, PICKLE)],
    "no_rank_leaves_a_barrier_early": [("no barrier", "dist.barrier()", "pass")],
    "the_same_seed_draws_the_same_numbers": [
        ("not seeded", "torch.manual_seed(seed)", "pass"),
        ("a constant", "torch.manual_seed(seed)", "torch.manual_seed(0)"),
    ],
    "a_wrapped_model_keeps_its_interface": [("methods hidden", "return model", BARE)],
    "a_wrapped_model_has_rank_0s_state": [
        ("but one parameter", STATE, "[*list(model.parameters())[1:], *model.buffers()]"),
        ("but buffers", STATE, "model.parameters()"),
    ],
    "fingerprints_show_what_differs": [
        ("of the first", NAMED, "in list(model.named_parameters())[:1]"),
        ("own hash", "zlib.crc32(", "(lambda data: hash(bytes(data)))("),
    ],
    "close_may_be_called_twice": [("once", "if dist.is_initialized():", "if True:")],
    "a_world_of_one_rank_works": [
        ("two", "for _ in range(self.world_size)]", "for _ in range(2)]"),
    ],
}

RIGHT_JAX = """
from rltrain import hookimpl
from rltrain.specs import BackendSpec


@hookimpl
def rltrain_provides():
    factory = f"{__name__}:backend"
    return [BackendSpec(name="judged", factory=factory, framework="jax", device="cpu")]


def backend():
    import jax, numpy as np
    from rltrain_jax.backends import JaxBackend
    from rltrain_jax.group import JaxProcessGroup

    class Group(JaxProcessGroup):
        def all_reduce(self, x, op="sum"):
            like = jax.numpy.asarray if isinstance(x, jax.Array) else np.asarray
            total = super().all_reduce(x, op)
            return total

    class Judged(JaxBackend):
        @hookimpl
        def rltrain_init_distributed(self, world, config):
            group = super().rltrain_init_distributed(world, config)
            group.__class__ = Group
            return group

        @hookimpl
        def rltrain_wrap_model(self, session, model, role):
            wrapped = super().rltrain_wrap_model(session, model, role)
            return wrapped

    return Judged()
"""

TESTS_JAX = """
from rltrain_devkit import BackendConformance


class TestJudged(BackendConformance):
    backend = "judged"
    trains = False
    seeds_generator = False
"""

FLOAT = "return jax.tree.map(lambda x: x.astype('float32'), wrapped)"

# What jax's arrays and models need; the rest is judged by torch's faults.
WRONG_JAX = {
    "collectives_keep_kind_dtype_and_shape": [
        ("numpy's for jax's", "return total", "return np.asarray(total)"),
        ("jax's float32", "return total", "return like(jax.numpy.asarray(total))"),
    ],
    "a_wrapped_model_keeps_its_interface": [("one dtype", "return wrapped", FLOAT)],
    "a_wrapped_model_has_rank_0s_state": [
        ("own", "return wrapped", f"return wrapped | {{'{part}': model['{part}']}}")
        for part in ("parameters", "buffers")
    ],
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


def test_a_wrong_jax_plugin_fails_the_test_that_names_its_fault(judge, jax_fault):
    jax_fault.check(judge.source(RIGHT_JAX, TESTS_JAX, jax_fault))


def test_a_wrong_plugin_fails_the_test_that_names_its_fault(judge, fault):
    fault.check(judge("backend", ONCE, (fault.old, fault.new)))
