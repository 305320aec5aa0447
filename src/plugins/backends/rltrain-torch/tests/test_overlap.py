"""Gradient sync `overlap`: what the backward pass sends, and gradients that change later."""

from __future__ import annotations

import itertools

import pytest
import torch

from rltrain.testing import FakeWorld
from rltrain_torch.gradients import FlatSync
from rltrain_torch.overlap import OverlapSync

WIDTHS = [3, 4, 5, 2]
PARTS = 2
"""How many are sent before the last one: a layer's weight and bias each."""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr("rltrain_torch.overlap.PART", 24)


class Rank:
    """A rank with a model, and what `overlap` and `flat` make of the same gradients."""

    def __init__(self, group):
        torch.manual_seed(0)
        layers = (torch.nn.Linear(*pair) for pair in itertools.pairwise(WIDTHS))
        self.model = torch.nn.Sequential(*layers)
        self.parameters = list(self.model.parameters())
        self.rank = group.rank
        self.overlap = OverlapSync(group, self.parameters)
        self.flat = FlatSync(group, self.parameters)

    def backward(self, step=0, layers=None):
        generator = torch.Generator().manual_seed(10 * step + self.rank)
        x = torch.randn(7, WIDTHS[0], generator=generator)
        self.model[:layers](x).square().sum().backward()

    def forget(self):
        for parameter in self.parameters:
            parameter.grad = None

    def is_right(self):
        """Average, and return whether both agree; the averages become the gradients."""
        given = [parameter.grad for parameter in self.parameters]
        copies = [None if each is None else each.clone() for each in given]
        found = self.overlap(given)
        expected = self.flat(copies)
        for parameter, average in zip(self.parameters, found, strict=True):
            parameter.grad = average
        return all(
            one is other if other is None else torch.equal(one, other)
            for one, other in zip(found, expected, strict=True)
        )


def on_ranks(work):
    """Call `work(rank, sent)` on two ranks; `sent()` is how many parts are on their way."""

    def run(group):
        rank = Rank(group)
        return work(rank, lambda: rank.overlap._sent)

    return FakeWorld(2, torch=True).run(run)


def test_parts_are_sent_in_the_backward_pass():
    def work(rank, sent):
        found = []
        for step in range(3):
            rank.forget()
            rank.backward(step)
            found += [sent(), rank.is_right()]
        return found

    assert on_ranks(work) == [[PARTS, True] * 3] * 2


def test_a_model_below_one_part_costs_one_collective(monkeypatch):
    monkeypatch.setattr("rltrain_torch.overlap.PART", 1 << 20)
    world = FakeWorld(2, torch=True)

    def work(group):
        gradients = [torch.ones(3), torch.ones(2)]
        OverlapSync(group, [torch.zeros(3), torch.zeros(2), torch.zeros(())], 1)(
            [*gradients, torch.tensor(5.0)]
        )

    world.run(work)
    assert len(world.trace) == 1


@pytest.mark.parametrize("ranks", [{0, 1}, {1}])
@pytest.mark.parametrize(
    "change",
    [
        lambda rank: rank.parameters[-1].grad.mul_(3),
        lambda rank: rank.backward(1),
        lambda rank: (rank.forget(), rank.backward(1)),
        lambda rank: setattr(rank.parameters[-1], "grad", None),
    ],
    ids=["in place", "second pass", "a step was left out", "gone"],
)
def test_gradients_that_change_after_they_were_sent_are_sent_again(change, ranks):
    def work(rank, sent):
        rank.backward()
        if rank.rank in ranks:
            change(rank)
        found = [rank.is_right()]
        for step in (2, 3):  # Such an optimizer does it again: nothing is sent early any more.
            rank.forget()
            rank.backward(step)
            found += [sent(), rank.is_right()]
        return found

    assert on_ranks(work) == [[True, 0, True, 0, True]] * 2


def test_a_backward_pass_may_add_to_the_averages():
    def work(rank, sent):
        found = []
        for step in range(3):
            rank.backward(step)
            found += [sent(), rank.is_right()]
        return found

    assert on_ranks(work) == [[PARTS, True, 0, True, 0, True]] * 2


def test_averages_that_were_added_to_are_sent_twice_if_others_have_changed():
    """A rank's averages are the buffer itself, and the first sending overwrites it."""

    def work(rank, sent):
        rank.backward(0)
        found = [rank.is_right()]
        if rank.rank == 1:
            rank.forget()
        rank.backward(1)
        if rank.rank == 1:
            rank.parameters[-1].grad.mul_(3)
        return [*found, rank.is_right()]

    assert on_ranks(work) == [[True, True]] * 2


def test_a_layer_that_only_one_rank_uses():
    def work(rank, sent):
        found = []
        for step in range(2):
            rank.forget()
            rank.backward(step, layers=None if rank.rank == 0 else 2)
            found += [sent(), rank.is_right()]
        return found

    assert on_ranks(work) == [[PARTS, True] * 2, [0, True] * 2]
