"""Pytrees that are equal on all ranks, and the fingerprints that verify it."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rltrain.errors import DivergenceError
from rltrain.metrics.divergence import check_divergence
from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld
from rltrain_jax.backends import JaxBackend
from rltrain_jax.trees import device_checksums, fingerprints, watch_tree


def tree(value):
    return {
        "kernel": jnp.full((2, 3), value, "float32"),
        "rest": (jnp.full((), value, "float32"), jnp.full((2,), value, jnp.bfloat16)),
        "empty": jnp.zeros((0,)),
        "flag": jnp.array([value > 1, True]),
        "key": jax.random.PRNGKey(int(value)),
        "host": np.full((2,), value, "float32"),
    }


def session_of(group):
    watched = {}
    return SimpleNamespace(
        group=group,
        world=SimpleNamespace(device="cpu"),
        watched=watched,
        watch=lambda role, read: watched.update({role: read}),
    )


def wrapped(group, model):
    return JaxBackend().rltrain_wrap_model(session_of(group), model, "policy")


def test_every_rank_has_rank_0s_tree_on_its_device():
    expected, world = tree(1), FakeWorld(2)
    for got in world.run(lambda group: wrapped(group, tree(group.rank + 1))):
        assert jax.tree.structure(got) == jax.tree.structure(expected)
        for ours, theirs in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
            assert isinstance(ours, jax.Array)
            assert ours.devices() == {jax.local_devices(backend="cpu")[0]}
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            assert (ours == theirs).all()
    dtypes = {leaf.dtype for leaf in jax.tree.leaves(expected)}
    assert len(world.trace) == len(dtypes)


def test_one_rank_keeps_its_tree():
    got = wrapped(SingleProcess("cpu"), tree(3))
    assert fingerprints(got) == fingerprints(tree(3))


def test_only_equal_trees_have_equal_fingerprints():
    before = fingerprints(tree(1))
    assert before == fingerprints(tree(1))
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree(1)):
        if not leaf.size:
            continue

        def nudged(where, x, path=path):
            flat = np.array(x).ravel()
            flat[-1:] = 0
            return x if where != path else flat.reshape(x.shape)

        after = fingerprints(jax.tree_util.tree_map_with_path(nudged, tree(1)))
        assert {name for name in before if before[name] != after[name]} == {
            jax.tree_util.keystr(path)
        }


def test_a_permutation_changes_the_fingerprint():
    assert fingerprints([jnp.array([1.0, 2.0])]) != fingerprints([jnp.array([2.0, 1.0])])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "uint8"])
def test_every_changed_bit_on_a_device_changes_the_fingerprint(dtype):
    before = np.array(jnp.arange(1, 6).astype(dtype))
    each = [before, before[::-1], before[:4], np.append(before, before[:1] * 0)]
    for bit in range(8 * before.itemsize):
        changed = before.copy()
        changed.view(np.uint8)[2 * before.itemsize + bit // 8] ^= 1 << bit % 8
        each.append(changed)
    sums = np.asarray(device_checksums([jnp.asarray(x) for x in each])).tolist()
    assert len(set(sums)) == len(each)
    assert np.asarray(device_checksums([jnp.asarray(before)])).tolist() == sums[:1]


def test_leaves_of_every_kind_on_a_device_have_a_fingerprint():
    leaves = [jnp.float32(3), jnp.zeros(0), jnp.array([True, False]), jax.random.PRNGKey(1)]
    assert device_checksums(leaves).shape == (4,)
    assert device_checksums([]).shape == (0,)


def test_numbers_have_fingerprints():
    assert fingerprints({"rate": 1e-3}) != fingerprints({"rate": 2e-3})


def test_a_diverging_tree_is_named():
    def work(group):
        session, current = session_of(group), tree(1)
        watch_tree(session, "policy", lambda: current)
        check_divergence(group, session.watched, 1)
        if group.rank == 1:
            current = {**current, "kernel": current["kernel"] + 1}
        check_divergence(group, session.watched, 2)

    with pytest.raises(DivergenceError, match=r"at iteration 2: policy\.\['kernel'\] differs"):
        FakeWorld(2).run(work)
