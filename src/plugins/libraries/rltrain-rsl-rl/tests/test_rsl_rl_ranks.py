"""Several ranks of a fake world: whole trainings, and advantages."""

from __future__ import annotations

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


def test_only_the_session_determines_a_ranks_place(train_ranks):
    runs = train_ranks(FakeWorld(2))
    assert not differing([*runs, *train_ranks(FakeWorld(2), observers=[StrayVariables])])


def test_advantages_are_standardized_over_all_ranks():
    x = torch.arange(6.0)
    parts = FakeWorld(2).run(lambda group: standardize_over_ranks(group, x.chunk(2)[group.rank]))
    assert torch.allclose(torch.cat(parts), (x - x.mean()) / (x.std() + 1e-8))
