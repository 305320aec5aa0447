"""Options that came after rsl_rl 5.0, with an rsl_rl that does not have them."""

from __future__ import annotations

import pytest
from rsl_rl_stubs import VERSION, small_agent

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain_rsl_rl import newer

ASKS = {
    "torch_compile_mode": ("default", "5.1"),
    "actor.distribution_cfg.std_range": ([0.1, 1.0], "5.2"),
    "actor.distribution_cfg.learn_std": (False, "5.2"),
    "student.distribution_cfg.class_name": ("rsl_rl.modules:BetaDistribution", "5.3"),
    "actor.distribution_cfg.action_range": ([-2, 2], "5.3"),
    "algorithm.use_mixed_precision": (True, "5.5"),
}


@pytest.mark.parametrize("key", ASKS)
def test_an_option_is_refused_before_its_version(key, monkeypatch):
    value, first = ASKS[key]
    agent = small_agent()
    agent["student"] = {"distribution_cfg": {}}
    set_dotted(agent, key, value)
    monkeypatch.setattr(newer, "version", lambda name: first)
    newer.check_known(agent)
    monkeypatch.setattr(newer, "version", lambda name: "5.0.1")
    with pytest.raises(UsageError, match=rf"agent\.{key}.*pip install 'rsl-rl-lib>={first},<6'"):
        newer.check_known(agent)


def test_the_defaults_need_nothing_newer(monkeypatch):
    monkeypatch.setattr(newer, "version", lambda name: "5.0.1")
    newer.check_known({**small_agent(), "torch_compile_mode": None})
    assert str(VERSION) >= "5.0.1"
