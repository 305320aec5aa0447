"""Refusals happen before any rank starts, and give the reason."""

from __future__ import annotations

import pytest
from helpers import refusal
from refused import REFUSED
from shard_runs import RANK_LOCAL

from rltrain.testing import FakeWorld


@pytest.mark.parametrize("refused", REFUSED, ids=str)
def test_a_run_is_refused_before_it_starts(refused, tmp_path):
    started = []
    world = FakeWorld(2, rank_local=RANK_LOCAL.get(refused.library, ()))
    assert refused.reason in refusal(
        world.train,
        library=refused.library,
        framework=refused.framework,
        algorithm=refused.base or refused.algorithm,
        task=refused.task,
        agent=refused.agent,
        num_envs=8,
        max_iterations=1,
        log_root=str(tmp_path),
        observers=[lambda: started.append("a rank")],
    )
    assert not started
    assert not list(tmp_path.iterdir())
