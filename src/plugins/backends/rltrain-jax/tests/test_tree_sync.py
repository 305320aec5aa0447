"""Gradient sync `tree`: the mean over ranks, of a pytree, compiled once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rltrain.run.group import SingleProcess
from rltrain.testing import FakeWorld
from rltrain_jax.gradients import TreeSync

EVENTS = []
"""What jax traced, lowered or compiled in this process."""


@pytest.fixture(autouse=True, scope="module")
def compile_events():
    """Keep jax's compile events."""

    def keep_event(event, seconds, **details):
        EVENTS.append((event, details.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(keep_event)
    yield
    forget = getattr(jax.monitoring, "unregister_event_duration_listener", None)
    if forget is not None:  # Older versions keep every listener.
        forget(keep_event)


def compiled(since):
    """Return the names of the programs compiled since event number `since`."""
    return [name for event, name in EVENTS[since:] if "backend_compile" in event]


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


def test_only_the_first_call_compiles_and_once_for_all_ranks():
    made = [{"a": jnp.full((7, 3), float(seed)), "b": [jnp.zeros(11)]} for seed in range(8)]
    since = len(EVENTS)

    def work(group):
        sync = TreeSync(group, made[0])
        for step in range(4):
            begin = len(EVENTS)
            sync(made[2 * step + group.rank])
            if step:
                assert compiled(begin) == []

    FakeWorld(2).run(work)
    names = compiled(since)
    assert names
    if any(names):  # Older versions do not report them.
        ours = [name for name in names if name in ("jit(pack)", "jit(unpack)")]
        assert sorted(ours) == ["jit(pack)", "jit(unpack)"]


def test_a_changed_gradient_structure_is_an_error():
    sync = TreeSync(SingleProcess("cpu"), gradients(0))
    with pytest.raises(ValueError, match="the sync was made for"):
        sync({"params": jnp.ones(3)})


def test_one_rank_gets_its_own_gradients_back_without_a_copy():
    mine = gradients(0)
    assert TreeSync(SingleProcess("cpu"), mine)(mine) is mine


@pytest.mark.slow
def test_ranks_that_step_by_averages_stay_equal_and_learn_as_one():
    def loss(parameters, inputs):
        return jnp.square(inputs @ parameters["w"] + parameters["b"]).mean()

    data = jnp.asarray(np.random.default_rng(0).standard_normal((8, 3)), "float32")

    def train(group, inputs):
        parameters = {"w": jnp.ones(3), "b": jnp.ones(())}
        sync = TreeSync(group, parameters)
        for _ in range(5):
            averaged = sync(jax.grad(loss)(parameters, inputs))
            parameters = jax.tree.map(lambda p, g: p - 0.1 * g, parameters, averaged)
        return parameters

    halves = jnp.split(data, 2)
    first, second = FakeWorld(2).run(lambda group: train(group, halves[group.rank]))
    alone = train(SingleProcess("cpu"), data)
    assert all((first[name] == second[name]).all() for name in alone)
    for name in alone:
        np.testing.assert_allclose(first[name], alone[name], rtol=1e-5)
