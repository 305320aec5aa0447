"""N ranks of jax learn from their slices of a rollout what one rank learns from all of it.

A sample of skrl's combinations trains on jax too, and the ranks end equal. Whether they learn as
one rank is tested by the claims: a combination compiles for seconds.
"""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.vector import VectorWrapper

pytest.importorskip("jax")

from claims_jax import JAX
from gloo_runs import run_processes
from jax_updates import PLACE, JaxAgain, Updated, split_update, whole_update
from judged import AMPLIFIED, TOLERANCE, check_as_one, check_equal
from pairs_skrl import SKRL
from shard_runs import Environments, options

from rltrain.testing import FakeWorld, differing
from rltrain_devkit.as_one.alike import beyond, differences

pytestmark = pytest.mark.slow  # Each compiles whole updates.

CASES = [pytest.param(claim, ranks, id=f"{claim}-{ranks}") for claim in JAX for ranks in (2, 4)]


@pytest.mark.parametrize(("claim", "ranks"), CASES)
def test_ranks_learn_as_one(claim, ranks):
    split, whole = split_update(claim, ranks), whole_update(claim, ranks)
    check_as_one(split, whole, again=JaxAgain(claim, ranks))


class FirstRanks:
    """A group in which all ranks get the first rank's values of some arrays."""

    def __init__(self, group, of_float64):
        self._group, self._of_float64 = group, of_float64

    def __getattr__(self, name):
        return getattr(self._group, name)

    def all_reduce(self, x, op="sum"):
        if (x.dtype == np.float64 and x.size > 1) is not self._of_float64:
            return self._group.all_reduce(x, op)
        times = self._group.world_size if op == "sum" else 1
        return self._group.broadcast(x) * times


@pytest.mark.parametrize("of_float64", [False, True], ids=["gradients", "moments"])
def test_values_of_the_first_rank_only_are_found(of_float64):
    """The ranks agree, so no other check would notice."""
    claim = JAX[0]
    split = split_update(claim, 2, lambda group: FirstRanks(group, of_float64))
    check_equal(split)
    found = differences(split[0].states, whole_update(claim, 2).states)
    where = "preprocessor" if of_float64 else "kernel"
    assert any(where in name for name in beyond(found, AMPLIFIED * TOLERANCE))


@pytest.mark.parametrize("claim", [claim for claim in JAX if claim.on_gloo], ids=str)
def test_real_ranks_learn_as_one(claim, tmp_path):
    split, whole = on_processes(claim, 2, tmp_path), whole_update(claim, 2)
    check_as_one(split, whole, again=JaxAgain(claim, 2))


def on_processes(claim, ranks, folder):
    files = [folder / f"{rank}.pickle" for rank in range(ranks)]
    script = Path(__file__).with_name("jax_updates.py")
    run_processes([[script, claim, file] for file in files], 300)
    return [Updated(pickle.loads(file.read_bytes())) for file in files]


SEED, OF_EACH_TABLE = 12, 3


def in_jax(x):
    import jax.numpy

    if isinstance(x, dict):
        return {name: in_jax(item) for name, item in x.items()}
    return jax.numpy.asarray(x.numpy()) if isinstance(x, torch.Tensor) else x


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
