"""A sample of skrl's combinations trains on jax too, and the ranks end equal.

Whether they learn as one rank is tested by jax's claims: a combination compiles for seconds.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import VectorWrapper
from jax_updates import PLACE
from pairs_skrl import SKRL
from shard_runs import Environments, options

from rltrain.testing import FakeWorld, differing

jnp = pytest.importorskip("jax.numpy")

pytestmark = [pytest.mark.slow]

SEED, OF_EACH_TABLE = 12, 3


def in_jax(x: Any) -> Any:
    if isinstance(x, dict):
        return {name: in_jax(item) for name, item in x.items()}
    return jnp.asarray(x.numpy()) if isinstance(x, torch.Tensor) else x


class OnJax(VectorWrapper):
    """Environments of torch for agents of jax."""

    def reset(self, **arguments):
        return tuple(in_jax(x) for x in self.env.reset(**arguments))

    def step(self, actions):
        return tuple(in_jax(x) for x in self.env.step(torch.from_numpy(np.array(actions))))


def sampled(table):
    """Return combinations of a table, without the policy that skrl has only for torch."""
    known = [c for c in table.trained if c.values.get("policy") != "MultivariateGaussianMixin"]
    return random.Random(f"{SEED} {table}").sample(known, OF_EACH_TABLE)


@pytest.mark.parametrize("combination", [c for table in SKRL for c in sampled(table)], ids=str)
def test_ranks_of_jax_end_equal(combination, tmp_path):
    claim = combination.claim
    runs = FakeWorld(2, rank_local=PLACE).train(
        observers=[lambda: Environments(claim, OnJax)],
        framework="jax",
        **options(claim, 1, tmp_path),
    )
    assert {run.result.iterations for run in runs} == {2}
    assert not differing(runs)
