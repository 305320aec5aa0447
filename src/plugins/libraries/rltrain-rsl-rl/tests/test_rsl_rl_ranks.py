"""Several ranks of a fake world: whole trainings, and advantages."""

from __future__ import annotations

import itertools
import os

import torch

from rltrain import hookimpl
from rltrain.testing import FakeWorld, differing
from rltrain_rsl_rl.run.rollouts import standardize_over_ranks


class StrayVariables:
    """An observer that sets wrong values for the variables that rsl_rl reads its rank from."""

    @hookimpl(wrapper=True)
    def rltrain_init_distributed(self):
        group = yield
        os.environ.update(WORLD_SIZE="5", RANK="3", LOCAL_RANK="3")
        return group


def test_ranks_learn_from_their_own_data_and_end_equal(train_ranks, local_gradients):
    runs = train_ranks(FakeWorld(4), observers=[local_gradients])
    first = [run.observers[0].given[0] for run in runs]
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(first, 2))
    assert not differing(runs)
    assert {run.result.iterations for run in runs} == {2}
    assert [run.result.checkpoint is not None for run in runs] == [True, False, False, False]
    # 2 iterations of 32 steps of 8 environments on 4 ranks: normalizers have seen all of them.
    assert runs[0].models["actor"].obs_normalizer.count == 2 * 32 * 8 * 4


def test_only_the_session_determines_a_ranks_place(train_ranks):
    runs = train_ranks(FakeWorld(2))
    assert not differing([*runs, *train_ranks(FakeWorld(2), observers=[StrayVariables])])


def test_a_mini_batch_costs_one_gradient_collective(train_ranks, local_gradients):
    world = FakeWorld(2)
    options = {"algorithm.num_learning_epochs": 3, "algorithm.num_mini_batches": 2}
    runs = train_ranks(world, agent=options, observers=[local_gradients])
    gradients = [item for item in world.trace if item.callers[0].endswith(" in reduce")]
    assert len(gradients) == len(runs[0].observers[0].given) == 2 * 3 * 2


def test_advantages_are_standardized_over_all_ranks():
    x = torch.arange(6.0)
    parts = FakeWorld(2).run(lambda group: standardize_over_ranks(group, x.chunk(2)[group.rank]))
    assert torch.allclose(torch.cat(parts), (x - x.mean()) / (x.std() + 1e-8))
