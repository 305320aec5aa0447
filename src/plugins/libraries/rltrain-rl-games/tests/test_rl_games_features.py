"""Networks, critics, observations and actions of other kinds, on two ranks of a fake world."""

from __future__ import annotations

import pytest
import torch
from rl_games_envs import (
    CRITIC,
    MLP,
    Changed,
    Images,
    Nested,
    Number,
    Parts,
    WithoutPolicy,
    making,
)

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld, differing


@pytest.fixture
def train_on(train_ranks):
    def run(world, agent, env=None, **options):
        observers = [making(env)] if env else []
        return train_ranks(world, agent=agent, observers=observers, **options)

    return run


@pytest.mark.parametrize("option", [{"bounds_loss_coef": None}, {"use_diagnostics": True}], ids=str)
def test_runs_that_fail_in_plain_rl_games_train(train_on, option):
    agent = {f"params.config.{name}": value for name, value in option.items()}
    assert not differing(train_on(FakeWorld(2), agent))


@pytest.mark.parametrize(
    ("env", "agent", "message"),
    [
        (Nested, {}, r"'policy' is, or contains, Dict\('state': Box"),
        (Parts, {}, r"'policy' is, or contains, Tuple\("),
        (Number, {}, r"'policy' is, or contains, Discrete\(2\), .* --library skrl"),
        (WithoutPolicy, {}, "no group 'policy', only state"),
    ],
)
def test_observations_that_rl_games_cannot_take_are_refused(train_on, env, agent, message):
    with pytest.raises(UsageError, match=message):
        train_on(FakeWorld(2), agent, env=env)


def test_sac_refuses_images(train_on):
    with pytest.raises(UsageError, match=r"SAC reads only vectors"):
        train_on(FakeWorld(2), {}, env=Images, algorithm="sac")


def test_a_rank_keeps_the_threads_that_its_backend_has_set(train_on, monkeypatch):
    """rl_games itself takes up to four cores of the machine, on every rank."""
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    seen = set()

    class Seeing(Changed):
        def observe(self, state):
            seen.add(torch.get_num_threads())
            return state

    train_on(FakeWorld(1), {}, Seeing)
    assert seen == {1}
    train_on(FakeWorld(1), {"params.torch_threads": 2}, Seeing)
    assert 2 in seen


@pytest.mark.parametrize("clips", [True, False])
def test_the_central_value_clips_as_its_options_say(train_ranks, norms, clips):
    critic = {**CRITIC, "truncate_grads": clips, "grad_norm": 1e-3}
    critic["network"] = {**CRITIC["network"], "mlp": {**MLP, "units": [256, 256]}}
    train_ranks(FakeWorld(2), agent={"+params.config.central_value_config": critic})
    assert (norms[max(norms)] < 1.01e-3) == clips
