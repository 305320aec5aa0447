"""One rank draws the numbers that each of several ranks would draw."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical, Normal

from rltrain_devkit.as_one.united import Rows, VirtualRanks

SEEDS = [3, 4]
ROWS = Rows(ranks=2, envs=20, blocks=2)


def on_ranks(draw):
    """Return what each rank draws by itself; `draw` is given the places of its environments."""
    drawn = []
    for rank, seed in enumerate(SEEDS):
        torch.manual_seed(seed)
        drawn.append(draw(ROWS.of(rank)))
    return drawn


def on_one(draw, mini_batches=1):
    """Return what one rank draws for all."""
    noise = VirtualRanks(ROWS, lambda rows: rows // mini_batches)
    noise.begin(SEEDS)
    with noise:
        return draw(torch.arange(ROWS.total))


def in_inference_mode(at):
    """Draw in inference mode, where a recurrent layer is one operation that counts as random."""
    with torch.inference_mode():
        hidden, _ = LSTM(MEAN[None, at])
        return torch.nn.functional.dropout(hidden[0], 0.5)


LSTM = torch.nn.LSTM(1, 2)
MEAN = torch.linspace(-1, 1, 40)[:, None]
LOGITS = torch.rand(40, 3)
DRAWS = {
    "normal": lambda at: torch.normal(MEAN[at], MEAN[at].exp()),
    "normal_": lambda at: torch.empty(len(at), 2).normal_(),
    "rsample": lambda at: Normal(MEAN[at], 0.5).rsample(),
    "randn": lambda at: torch.randn(len(at), 2),
    "rand_like": lambda at: torch.rand_like(MEAN[at]),
    "uniform_": lambda at: torch.empty(len(at)).uniform_(-1, 1),
    "exponential_": lambda at: torch.empty(len(at), 3).exponential_(),
    "bernoulli": lambda at: torch.bernoulli(LOGITS[at]),
    "multinomial": lambda at: Categorical(logits=LOGITS[at]).sample(),
    "randint_like": lambda at: torch.randint_like(at, high=500),
    "dropout": lambda at: torch.nn.functional.dropout(MEAN[at], 0.5),
    "in inference mode": lambda at: in_inference_mode(at),
    "twice": lambda at: torch.randn(len(at)) + torch.rand(len(at)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_every_environment_gets_the_numbers_of_its_rank(name):
    whole = on_one(DRAWS[name])
    for rank, own in enumerate(on_ranks(DRAWS[name])):
        assert torch.equal(whole[ROWS.of(rank)], own)


@pytest.mark.parametrize(
    "draw",
    [
        lambda at: torch.randperm(3 * len(at)),
        lambda at: torch.randint(0, 3 * len(at), (2 * len(at),)),
        lambda at: torch.randint(3 * len(at), (2 * len(at),)),
    ],
)
def test_a_mini_batch_is_the_union_of_the_ranks(draw):
    whole = on_one(draw, mini_batches=4).chunk(4)
    parts = [ROWS.in_batch(rank, own).chunk(4) for rank, own in enumerate(on_ranks(draw))]
    for k in range(4):
        assert torch.equal(whole[k], torch.cat([part[k] for part in parts]))


def test_operations_with_their_own_generator_are_not_changed():
    def draw(at):
        return torch.rand(len(at), generator=torch.Generator().manual_seed(1))

    assert torch.equal(on_one(draw), draw(range(40)))


def test_nothing_is_split_before_the_learner_is_seeded():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with VirtualRanks(ROWS, lambda rows: rows):
        assert torch.equal(torch.rand(3), expected)


def test_an_operation_that_cannot_be_split_is_an_error():
    with pytest.raises(ValueError, match="cannot be split"):
        on_one(lambda at: torch.randn(7))
    with pytest.raises(NotImplementedError, match="rows of a batch"):
        on_one(lambda at: torch.randint(5, 10, (4,)))
