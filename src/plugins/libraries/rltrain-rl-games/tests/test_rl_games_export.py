"""A policy as one function, and as a file, is the policy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rl_games_envs import Images
from rl_games_policies import (
    CASES,
    Case,
    after,
    cnn,
    each_case,
    first_states,
    inputs_of,
    load,
    untrained,
)

from rltrain.errors import UsageError
from rltrain_torch.exporter import TorchExporter

NORMALIZED_PIXELS = Case({**cnn(True), "params.config.normalize_input": True}, env=Images)
HARD = ("images beside vectors, lstm of both", "images, coordinates", "multi-discrete")
LAYER_NORM = Case({**cnn(True), "+params.network.normalization": "layer_norm"}, env=Images)


@pytest.fixture
def saved(tmp_path):
    def save(case):
        path = tmp_path / "policy.pth"
        return path, untrained(case, path)

    return save


def rolled_out(policy, module, env, steps=22):
    """Yield what the policy chooses, and what the function is given for the same."""
    observations, _ = env.reset(seed=2)
    states = first_states(module, env.num_envs)
    ended = 0
    for _ in range(steps):
        actions, inputs = policy.act(observations), inputs_of(module, observations)
        yield actions, [*inputs, *states]
        _, *states = module.function(*inputs, *states)
        observations, _, terminations, truncations, _ = env.step(actions)
        done = terminations | truncations
        ended += int(done.sum())
        policy.reset(done)
        states = after(states, done)
    assert ended


@each_case("lstm of actor and critic", "images beside vectors", "images, coordinates")
def test_the_function_chooses_what_the_policy_does(name, saved):
    case = CASES[name]
    env = case.make_env(3)
    policy = load(*saved(case), env)
    module = policy.module()
    assert list(module.inputs) == list(policy.groups)
    for actions, arrays in rolled_out(policy, module, env):
        found, *states = module.function(*arrays)
        torch.testing.assert_close(found, actions, rtol=0, atol=1e-6)
    of_one, *_ = module.function(*(array[:1] for array in arrays))
    torch.testing.assert_close(of_one, found[:1], rtol=0, atol=1e-6)
    told = (module.output.shape, f"torch.{module.output.dtype}")
    assert (found.shape[1:], str(found.dtype)) == told
    assert [state.shape[1:] for state in states] == [info.shape for info in module.states.values()]
    own = policy._actor.state_dict(keep_vars=True).values()
    of_function = module.function.state_dict().values()
    assert {x.data_ptr() for x in own}.isdisjoint(x.data_ptr() for x in of_function)
    assert not any(
        "critic" in name or "c_rnn" in name or "value" in name
        for name in module.function.state_dict()
    )


def test_what_a_file_tells_is_what_the_function_does(saved):
    case = CASES["clipped"]
    checkpoint, agent = saved(case)
    module = load(checkpoint, agent, case.make_env(4)).module()
    assert module.actions == {"low": [pytest.approx(-0.1)], "high": [pytest.approx(0.1)]}
    (told,) = module.normalization.values()
    assert (told["input_clip"], told["clip"]) == (0.2, 5.0)
    network, observations = module.function.actor.model.a2c_network, torch.randn(6, 4)
    mean, std = torch.tensor(told["mean"]), torch.tensor(told["std"])
    read = ((observations.clamp(-0.2, 0.2) - mean) / std).clamp(-5.0, 5.0)
    output = network.mu(network.actor_mlp(read)).clamp(-0.1, 0.1)
    torch.testing.assert_close(module.function(observations)[0], output)


def test_what_a_file_tells_of_scaled_actions_is_what_the_function_does(saved):
    case = CASES["sac"]
    checkpoint, agent = saved(case)
    module = load(checkpoint, agent, case.make_env(4)).module()
    told = dict(module.actions)
    assert told == {"squash": "tanh", "scale": [2.0], "offset": [0.0], "low": [-2.0], "high": [2.0]}
    observations, (normalized,) = torch.randn(6, 3), module.normalization.values()
    mean, std = torch.tensor(normalized["mean"]), torch.tensor(normalized["std"])
    trunk = module.function.actor.model.sac_network.actor.trunk
    output = trunk(((observations - mean) / std).clamp(-5.0, 5.0))[:, :1].tanh() * 2.0
    torch.testing.assert_close(module.function(observations)[0], output)


def test_groups_have_moments_of_their_own_and_bytes_have_them_in_bytes(saved):
    case = CASES["critic of its own"]
    module = load(*saved(case), case.make_env(1)).module()
    moments = {name: len(told["mean"]) for name, told in module.normalization.items()}
    assert moments == {"critic": 4, "policy": 2}
    beside = CASES["images beside vectors"]
    module = load(*saved(beside), beside.make_env(1)).module()
    assert list(module.normalization) == ["policy"]
    policy = load(*saved(NORMALIZED_PIXELS), Images(1))
    (told,) = policy.module().normalization.values()
    mean = policy._actor.model.running_mean_std.running_mean
    assert np.allclose(told["mean"], 255 * mean.numpy())


def test_a_network_whose_actions_depend_on_the_batch_is_refused(saved):
    policy = load(*saved(LAYER_NORM), Images(2))
    assert policy.act(Images(2).reset(seed=1)[0]).shape == (2, 1)
    with pytest.raises(UsageError, match=r"cannot be exported: .*normalization: layer_norm"):
        policy.module()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "name"),
    [("onnx", name) for name in CASES]
    + [(format, name) for format in ("jit", "pt2") for name in HARD],
)
def test_an_exported_file_chooses_what_the_policy_does(format, name, saved, tmp_path):
    case, exporter = CASES[name], TorchExporter()
    env = case.make_env(3)
    try:
        exporter.check(format)
    except UsageError as error:
        pytest.skip(str(error))
    policy = load(*saved(case), env)
    module = policy.module()
    path = tmp_path / f"policy{exporter.formats[format]}"
    exporter.export(module, format, path, {})
    run = exporter.load(path, format)
    for actions, arrays in rolled_out(policy, module, env):
        found, *_ = run([array.numpy() for array in arrays])
        np.testing.assert_allclose(found, actions.numpy(), rtol=0, atol=1e-5)
