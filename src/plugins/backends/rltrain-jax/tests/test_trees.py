"""Pytrees over ranks: equal, averaged as gradients, fingerprints, and pooled moments."""

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
from rltrain_jax.gradients import TreeSync
from rltrain_jax.moments import Moments, merge_moments, pool_moments
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


def test_numbers_and_leaves_of_every_kind_have_a_fingerprint():
    assert fingerprints({"rate": 1e-3}) != fingerprints({"rate": 2e-3})
    assert fingerprints([jnp.array([1.0, 2.0])]) != fingerprints([jnp.array([2.0, 1.0])])
    leaves = [jnp.float32(3), jnp.zeros(0), jnp.array([True, False]), jax.random.PRNGKey(1)]
    assert device_checksums(leaves).shape == (4,)
    assert device_checksums([]).shape == (0,)


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


def gradients(seed, dtypes=("float32",)):
    """Return a pytree like flax's, with leaves of these dtypes in turn."""
    normal = np.random.default_rng(seed).standard_normal
    shapes = iter([(3, 2), (), (4,), (0,), (2, 1, 2)])
    leaves = [
        jnp.asarray(normal(shape), dtypes[index % len(dtypes)])
        for index, shape in enumerate(shapes)
    ]
    return {"params": {"kernel": leaves[0], "scale": leaves[1]}, "more": [leaves[2:], None]}


def test_one_all_reduce_serves_each_dtype():
    dtypes = ("float32", "bfloat16")

    def work(group):
        mine = gradients(group.rank, dtypes)
        return mine, TreeSync(group, mine)(mine)

    world = FakeWorld(2)
    for mine, averaged in world.run(work):
        assert [collective.op for collective in world.trace] == ["all_reduce(mean)"] * 2
        assert jax.tree.map(lambda x: (x.shape, x.dtype), averaged) == jax.tree.map(
            lambda x: (x.shape, x.dtype), mine
        )


def test_a_changed_gradient_structure_is_an_error():
    sync = TreeSync(SingleProcess("cpu"), gradients(0))
    with pytest.raises(ValueError, match="the sync was made for"):
        sync({"params": jnp.ones(3)})


def test_one_rank_gets_its_own_gradients_back_without_a_copy():
    mine = gradients(0)
    assert TreeSync(SingleProcess("cpu"), mine)(mine) is mine


def test_moments_are_those_of_all_ranks_data():
    random = np.random.default_rng(0)
    # Far from zero, with a spread that float32 sums of squares would lose.
    data = (5000.0 + 0.1 * random.normal(size=(40, 3))).astype(np.float32)
    other = random.normal(size=(12, 1)).astype(np.float32)
    about = jnp.full(3, 5000.5)

    def on_rank(group):
        cut = slice(0, 30) if group.rank == 0 else slice(30, 40)
        own = other if group.rank else other[:0]
        pairs = [(jnp.asarray(data[cut]), about), (jnp.asarray(own), jnp.zeros(1))]
        found = pool_moments(group, pairs)
        assert not jax.config.jax_enable_x64
        assert jnp.zeros(1).dtype == jnp.float32
        return found

    world = FakeWorld(2)
    (first, second), others = world.run(on_rank)
    assert len(world.trace) == 1
    exact = data.astype(np.float64)
    assert first.count == 40
    assert np.allclose(first.mean, exact.mean(0), rtol=1e-13)
    assert np.allclose(first.variance, exact.var(0), rtol=1e-9)
    assert second.count == 12
    assert np.allclose(second.variance, other.astype(np.float64).var(0), rtol=1e-12)
    assert np.array_equal(first.mean, others[0].mean)


def test_one_rank_needs_no_collective():
    world = FakeWorld(1)
    ((found,),) = world.run(lambda group: pool_moments(group, [(jnp.arange(4.0), jnp.zeros(()))]))
    assert not world.trace
    assert (found.count, found.mean, found.variance) == (4, 1.5, 1.25)


def test_merged_moments_are_those_of_all_data():
    random = np.random.default_rng(1)
    data = 100 + random.normal(size=(50, 3))
    parts = [Moments(len(x), x.mean(0), x.var(0)) for x in (data[:20], data[20:])]
    merged = merge_moments(*parts)
    assert merged.count == 50
    assert np.allclose(merged.mean, data.mean(0), rtol=1e-13)
    assert np.allclose(merged.variance, data.var(0), rtol=1e-9)
    assert np.allclose(merged.unbiased_variance, data.var(0, ddof=1), rtol=1e-9)
