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
    def decide(config, iterations):
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


def test_equal_options_may_come_from_files_at_different_paths():
    def work(group):
        path = f"/on/node/{group.rank}/agent.yaml"
        check_agreement(group, make_config(agent={"lr": 1}, agent_config=path))

    FakeWorld(2).run(work)
