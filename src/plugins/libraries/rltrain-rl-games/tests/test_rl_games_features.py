"""Networks, critics, observations and actions of other kinds, on two ranks of a fake world."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from rl_games_envs import (
    MULTI_DISCRETE,
    Changed,
    FloatImages,
    Groups,
    Images,
    Nested,
    Number,
    Parts,
    TwoChoices,
    WithoutPolicy,
    making,
)

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld, differing

MLP = {"units": [16], "activation": "elu", "initializer": {"name": "default"}}
CRITIC = {
    "minibatch_size_per_env": 16,
    "mini_epochs": 2,
    "learning_rate": 1e-3,
    "lr_schedule": "linear",
    "clip_value": True,
    "normalize_input": True,
    "truncate_grads": True,
    "network": {"name": "actor_critic", "central_value": True, "mlp": MLP},
}
ASYMMETRIC = {"+params.config.central_value_config": CRITIC}
GRU = {"name": "gru", "units": 16, "layers": 1}
RECURRENT = {"+params.network.rnn": GRU, "params.config.seq_length": 8}
LSTM = {**RECURRENT, "+params.network.rnn": {"name": "lstm", "units": 16, "layers": 1}}
RECURRENT_CRITIC = copy.deepcopy(CRITIC)
RECURRENT_CRITIC["network"]["rnn"] = GRU
BOTH_RECURRENT = {**RECURRENT, "+params.config.central_value_config": RECURRENT_CRITIC}


def cnn(permute):
    conv = {"filters": 4, "kernel_size": 3, "strides": 1, "padding": 0}
    return {
        "+params.network.cnn": {
            "type": "conv2d",
            "activation": "relu",
            "permute_input": permute,
            "initializer": {"name": "default"},
            "convs": [conv],
        }
    }


COMBINATIONS = {
    "gru": ({}, RECURRENT),
    "lstm of actor and critic": ({}, {**LSTM, "params.network.separate": True}),
    "images of bytes": ({"env": Images}, cnn(True)),
    "images, for a network that takes channels first": ({"env": FloatImages}, cnn(False)),
    "multi-discrete": ({"env": TwoChoices, "task": MULTI_DISCRETE}, {}),
    "critic of its own": ({"env": Groups}, ASYMMETRIC),
    "critic of its own, discrete": ({"task": "rltrain/CartPole-v1"}, ASYMMETRIC),
    "recurrent critic of its own": ({"env": Groups}, BOTH_RECURRENT),
}


@pytest.fixture
def train_on(train_ranks):
    def run(world, agent, env=None, **options):
        observers = [making(env)] if env else []
        return train_ranks(world, agent=agent, observers=observers, **options)

    return run


@pytest.mark.parametrize("case", COMBINATIONS.values(), ids=COMBINATIONS)
def test_ranks_learn_and_end_equal(train_on, case):
    options, agent = case
    runs = train_on(FakeWorld(2), agent, **options)
    assert not differing(runs)
    counts = [value for name, value in runs[0].state().items() if name.endswith("std.count")]
    # Only of those in use: an actor with a separate critic normalizes no values.
    assert max(counts) > 1


@pytest.mark.parametrize("option", [{"bounds_loss_coef": None}, {"use_diagnostics": True}], ids=str)
def test_runs_that_fail_in_plain_rl_games_train(train_on, option):
    agent = {f"params.config.{name}": value for name, value in option.items()}
    assert not differing(train_on(FakeWorld(2), agent))


def test_a_separate_critic_is_averaged_and_its_moments_are_pooled(train_on):
    world = FakeWorld(2)
    runs = train_on(world, {**ASYMMETRIC, "params.config.mini_epochs": 3}, env=Groups)
    assert "central value.running_mean_std.running_mean" in runs[0].state()
    callers = [item.callers[0] for item in world.trace]
    assert sum(caller.endswith(" in pool_moments") for caller in callers) == 2
    # Two iterations: 3 mini-epochs of 4 mini-batches, and the critic's 2 of 2.
    assert sum(caller.endswith(" in reduce") for caller in callers) == 2 * (3 * 4 + 2 * 2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("agent", "env"), [(ASYMMETRIC, Groups), (BOTH_RECURRENT, Groups), (LSTM, None)]
)
def test_a_resumed_run_ends_with_the_same_bytes(train_on, agent, env):
    agent = {**agent, "params.config.save_frequency": 2, "params.config.save_best_after": 99}
    whole = train_on(FakeWorld(2), agent, env=env, max_iterations=4)
    folder = Path(whole[0].result.run_dir) / "checkpoints"
    (middle,) = folder.glob("last_*_ep_2_*.pth")
    resumed = train_on(FakeWorld(2), agent, env=env, max_iterations=4, checkpoint=str(middle))
    last, again = (Path(runs[0].result.checkpoint) for runs in (whole, resumed))
    assert last.read_bytes() == again.read_bytes()
    state = torch.load(last, weights_only=False)
    if "central_value" in state["rltrain"]:
        assert state["rltrain"]["central_value"]["epoch_num"] == 4
        assert state["rltrain"]["central_value"]["lr"] == pytest.approx(1e-6)


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
