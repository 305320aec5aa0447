"""What `rltrain_playground.model` assumes about MJX and Playground's environments."""

from __future__ import annotations

import pytest
from helpers import python

CODE = """
import os
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
from rltrain_playground.config import with_options
from rltrain_playground.model import load
from rltrain_playground.programs import Programs

first, other = jax.devices()
key = jax.device_put(jax.random.PRNGKey(0), other)
for task in "CartpoleBalance", "WalkerWalk":
    config = with_options(task, {}, "cpu")
    there = {d for x in jax.tree.leaves(load(task, config, first).mjx_model) for d in x.devices()}
    env = load(task, config, other)
    here = {d for x in jax.tree.leaves(env.mjx_model) for d in x.devices()}
    program = jax.jit(Programs(env, 2, 9, 1).begin).lower(key)
    print(task, there == {first}, here == {other}, env.unwrapped is env)
"""


@pytest.mark.slow  # Compiles two models.
def test_a_model_is_placed_on_the_requested_device():
    assert python(CODE, timeout=280).stdout.splitlines()[-2:] == [
        "CartpoleBalance True True True",
        "WalkerWalk True True True",
    ]
