"""What rank 0 decides for all ranks, and what must not differ: options, and what is learned."""

from __future__ import annotations

import pytest
from helpers import run_ranks
from messages import says

from rltrain.errors import DivergenceError, PeerLost, UsageError
from rltrain.metrics.divergence import check_divergence
from rltrain.run import agreement
from rltrain.run.agreement import agree
from rltrain.run.group import SingleProcess
from rltrain.storage.manifest import check_agreement
from rltrain.testing import FakeWorld, make_config


@pytest.mark.parametrize(
    ("raised", "elsewhere"), [(UsageError("no room"), UsageError), (OSError("no room"), PeerLost)]
)
def test_every_rank_ends_when_rank_0_cannot_decide(monkeypatch, raised, elsewhere):
    def decide(*decided):
        raise raised

    def work(group):
        with pytest.raises(Exception, match="no room") as caught:
            agree(group, make_config(), None)
        return caught.value

    monkeypatch.setattr(agreement, "_decide", decide)
    first, second = FakeWorld(2).run(work)
    assert first is raised
    assert type(second) is elsewhere


def test_options_of_any_class_are_compared():
    class Anything:
        def __init__(self, text):
            self.text = text

        def __repr__(self):
            return self.text

    def work(group, other):
        config = make_config(agent={"activation": Anything(other if group.rank else "relu")})
        check_agreement(group, config)

    FakeWorld(2).run(lambda group: work(group, "relu"))
    with says(UsageError):
        FakeWorld(2).run(lambda group: work(group, "elu"))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("agent_config", ("/node/0/agent.yaml", "/node/1/agent.yaml")),
        ("log_root", ("/node/0", "/node/1")),
        ("master_addr", ("10.0.0.1", "node0")),
        ("join_timeout", (60, 300)),
        ("hang_timeout", (None, {"step": 60.0})),
        ("gpu_ids", ((0, 1), None)),
        ("node_rank", (0, 1)),
    ],
)
def test_what_is_of_a_node_or_a_path_may_differ(name, values):
    FakeWorld(2).run(
        lambda group: check_agreement(group, make_config(**{name: values[group.rank]}))
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [("num_envs", (8, 9)), ("max_restarts", (0, 1)), ("master_port", (1, 2)), ("keep", (None, 1))],
)
def test_what_is_of_the_run_may_not_differ(name, values):
    with says(UsageError):
        FakeWorld(2).run(
            lambda group: check_agreement(group, make_config(**{name: values[group.rank]}))
        )


def diverge(*ranks):
    """Check named fingerprints, rank by rank; return each rank's error."""
    return run_ranks(
        len(ranks), lambda group: check_divergence(group, {"policy": lambda: ranks[group.rank]}, 7)
    )


def test_equal_ranks_pass():
    assert diverge({"w": 1, "b": 2.5}, {"w": 1, "b": 2.5}) == [None, None]
    assert diverge({"w": float("nan")}, {"w": float("nan")}) == [None, None]
    assert diverge({}, {}) == [None, None]
    check_divergence(SingleProcess("cpu"), {"policy": lambda: 1 / 0}, 1)  # One rank cannot diverge.


@pytest.mark.parametrize(
    "ranks",
    [
        ({"w": 1, "b": 1}, {"w": 1, "b": 2}),
        ({"w": 1}, {"w": 2}, {"w": 1}, {"w": 3}),
        ({"w": 1, "b": 1}, {"w": 1}),
        ({"w": 1}, {"w": 1, "b": 1}),
        ({}, {"w": 1}),
    ],
)
def test_what_differs_is_named_on_every_rank(ranks):
    for error in diverge(*ranks):
        with says(DivergenceError):
            raise error


def test_equal_ranks_exchange_two_numbers():
    world = FakeWorld(4)
    watched = {"policy": lambda: {f"w{i}": i for i in range(100)}}
    world.run(lambda group: check_divergence(group, watched, 1))
    assert [(event.op, event.bytes) for event in world.trace] == [("all_reduce(min)", 16)]
