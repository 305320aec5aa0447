"""What rank 0 decides for all ranks."""

from __future__ import annotations

import pytest

from rltrain.errors import PeerLost, UsageError
from rltrain.run import agreement
from rltrain.run.agreement import agree
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
    with pytest.raises(UsageError, match=r"agent\.activation is relu on rank 0 and elu on rank 1"):
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
    with pytest.raises(UsageError, match=f"{name} is {values[0]} on rank 0"):
        FakeWorld(2).run(
            lambda group: check_agreement(group, make_config(**{name: values[group.rank]}))
        )
