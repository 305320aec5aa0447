"""Loaded policies act as rl_games' own players do, and as what is exported of them."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete, MultiDiscrete
from messages import says
from rl_games.algos_torch import model_builder, players
from rl_games.common import env_configurations, vecenv
from rl_games.torch_runner import Runner
from rl_games_envs import ENVS, LSTM, VARIANTS, Images, cnn

from rltrain.errors import UsageError
from rltrain.metrics.environment import CountedEnv
from rltrain.options import set_dotted
from rltrain.testing import make_config
from rltrain.types import TaskInfo, World
from rltrain_gymnasium.batched import make_batched
from rltrain_rl_games.plugin import rltrain_provides
from rltrain_rl_games.policy.actor import build_actor
from rltrain_rl_games.run.env import RlGamesEnv, adapted_env
from rltrain_rl_games.run.library import RlGamesLibrary
from rltrain_rl_games.run.networks import register_network
from rltrain_rl_games.run.sac import SacAgent
from rltrain_torch.exporter import TorchExporter
from rltrain_torch.policy import groups_of

STEPS = 24
"""In a rollout: more than in an episode, which has at most 20."""
SMALL = {
    "ppo": {
        "params.config.horizon_length": STEPS,
        "params.config.minibatch_size_per_env": STEPS,
        "params.config.mini_epochs": 1,
    },
    "sac": {
        "params.config.num_steps_per_episode": 4,
        "params.config.num_updates_per_step": 1,
        "params.config.num_warmup_frames": 16,
        "params.config.batch_size": 16,
        "params.config.replay_buffer_size": 64,
    },
}
CASES = {
    "continuous": {},
    **VARIANTS,
    "lstm, discrete": {"task": "rltrain/CartPole-v1", "agent": LSTM},
    "normalized pixels": {
        "task": "made/Images",
        "agent": {**cnn(True), "params.config.normalize_input": True},
    },
    "layer norm of images": {
        "task": "made/Images",
        "agent": {**cnn(True), "+params.network.normalization": "layer_norm"},
    },
    "sac": {"task": "rltrain/Pendulum-v1", "algorithm": "sac"},
}
(SPEC,) = rltrain_provides()


def make_env(name, num_envs):
    task = CASES[name].get("task", "rltrain/CartPoleContinuous-v1")
    if task in ENVS:
        return ENVS[task](num_envs)
    return make_batched(num_envs, task, "torch", max_episode_length=20)


def options_of(name):
    """Return rl_games' options of a case, by the defaults."""
    case, env = CASES[name], make_env(name, 1)
    kinds = {Discrete: "discrete", MultiDiscrete: "multi_discrete"}
    action = kinds.get(type(env.single_action_space), "continuous")
    seen = groups_of(env.single_observation_space)
    task = TaskInfo("any", action, num_envs=64, observations=seen)
    agent = copy.deepcopy(dict(SPEC.default_agent(task, case.get("algorithm", "ppo"))))
    for key, value in {"params.network.mlp.units": [8], **case.get("agent", {})}.items():
        set_dotted(agent, key.removeprefix("+"), copy.deepcopy(value))
    return agent


def load(checkpoint, agent, env):
    """Load a policy by the hook, with what that needs of a session."""
    config = make_config(agent=agent)
    session = SimpleNamespace(checkpoint=Path(checkpoint), config=config, env=env, world=World())
    return RlGamesLibrary().rltrain_load_policy(session)


@pytest.fixture
def saved(tmp_path):
    """Save a policy with random weights and moments; return its file, options, environments."""

    def save(name, num_envs=4):
        torch.manual_seed(1)
        register_network()
        agent, generator = options_of(name), torch.Generator().manual_seed(1)
        env, path = make_env(name, num_envs), tmp_path / "policy.pth"
        model = build_actor(agent["params"], adapted_env(env, agent["params"]).conversion).model
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor += 0.3 * torch.rand(tensor.shape, generator=generator) - 0.15
        state = {"model": model.state_dict(), "optimizer": {}}
        if name == "sac":
            parts = ("actor", "critic", "critic_target")
            state = {part: getattr(model.sac_network, part).state_dict() for part in parts}
            state["running_mean_std"] = model.running_mean_std.state_dict()
        torch.save({**state, "epoch": 1, "frame": 1}, path)
        return path, agent, env

    return save


def native(name, folder):
    """Train with rl_games' own runner, agent and player; return file, options and player."""
    agent, env = options_of(name), RlGamesEnv(CountedEnv(make_env(name, 16), seed=1))
    vecenv.register("native", lambda *arguments, **options: env)
    env_configurations.register("native", {"vecenv_type": "native"})
    for key, value in SMALL[CASES[name].get("algorithm", "ppo")].items():
        set_dotted(agent, key, value)
    agent["params"]["config"].update(name="native", env_name="native", max_epochs=3)
    params = copy.deepcopy(agent["params"])
    params.update(seed=1, torch_threads=0)
    params["config"].update(
        num_actors=16, device="cpu", device_name="cpu", torch_compile=False, train_dir=str(folder)
    )
    runner = Runner()
    runner.load_config(copy.deepcopy(params))
    runner.run_train({"train": True})
    (checkpoint,) = folder.glob("*/nn/last_*.pth")
    params["config"]["env_info"] = env.get_env_info()
    runner.load_config(params)
    player = runner.create_player()
    player.restore(str(checkpoint))
    player.has_batch_dimension, player.batch_size = True, 6
    return checkpoint, agent, player


@pytest.mark.parametrize(
    "name",
    [
        "gru before the layers",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("continuous", "lstm, discrete", "multi-discrete")
        ),
    ],
)
def test_a_checkpoint_of_rl_games_own_script_acts_as_its_player(name, tmp_path):
    checkpoint, agent, player = native(name, tmp_path)
    env = make_env(name, 6)
    policy = load(checkpoint, agent, env)
    observations, _ = env.reset(seed=3)
    if player.is_rnn:
        player.init_rnn()
    ends = 0
    for _ in range(STEPS):
        actions = policy.act(observations)
        assert torch.equal(actions, player.get_action(observations, is_deterministic=True))
        observations, _, terminations, truncations, _ = env.step(actions)
        done = terminations | truncations
        ends += int(done.sum())
        policy.reset(done)
        for state in player.states or ():
            state[:, done] = 0.0
    assert ends


def test_rl_games_players_forget_what_its_agents_do():
    # If this fails, rl_games has mended its players: see `TANH_MODEL` and `SacActor`.
    assert "tanh" not in inspect.getsource(players.PpoPlayerContinuous)
    assert "rescale" not in inspect.getsource(players.SACPlayer)
    assert "rescale" in inspect.getsource(SacAgent.act)


@pytest.mark.parametrize("done", [torch.tensor, list])
def test_only_those_that_begin_an_episode_forget(saved, done):
    policy = load(*saved("lstm of actor and critic"))
    observations = torch.randn(4, 4)
    first, second = policy.act(observations), policy.act(observations)
    policy.reset()
    policy.act(observations)
    policy.reset(done([True, False, False, True]))
    again = policy.act(observations)
    assert torch.equal(again[[0, 3]], first[[0, 3]])
    assert torch.equal(again[1:3], second[1:3])
    assert not torch.equal(first, second)


def test_loading_and_acting_change_nothing_else(saved, capsys):
    checkpoint, agent, env = saved("lstm of actor and critic")
    observations, options = torch.randn(4, 4), copy.deepcopy(agent)
    before = torch.get_rng_state()
    networks, precision = set(model_builder.NETWORK_REGISTRY), torch.get_float32_matmul_precision()
    capsys.readouterr()
    policy = load(checkpoint, agent, env)
    learned = copy.deepcopy(policy._actor.state_dict())
    for _ in range(2):
        policy.act(observations)
    policy.module()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_float32_matmul_precision() == precision
    assert (options, networks) == (agent, set(model_builder.NETWORK_REGISTRY))
    assert capsys.readouterr().out == ""
    now = policy._actor.state_dict()
    assert all(torch.equal(now[name], tensor) for name, tensor in learned.items())
    assert not any(part.requires_grad for part in policy._actor.parameters())


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("continuous", {"params.network.mlp.units": [9]}, "does not fit this run .* size mismatch"),
        ("continuous", {"params.config.normalize_input": False}, r"Unexpected key.*running_mean"),
        ("continuous", {"params.algo.name": "a2c_discrete"}, r"name=a2c_discrete, .* Box\("),
        ("continuous", {"params.algo.name": "dqn"}, r"name=dqn, .* cannot choose the task's act"),
        ("sac", {"params.network.mlp.units": [9]}, "does not fit this run .* size mismatch"),
        ("images beside vectors", {"params.network.cnn": None}, "does not fit this run"),
    ],
)
def test_what_does_not_fit_is_refused(saved, name, changes, message):
    checkpoint, agent, env = saved(name)
    for key, value in changes.items():
        set_dotted(agent, key, value)
    with pytest.raises(UsageError, match=f"--checkpoint {checkpoint}: .*{message}"):
        load(checkpoint, agent, env)


def test_a_checkpoint_of_another_algorithm_or_library_is_refused(saved):
    _, sac, env = saved("sac")
    checkpoint, ppo, _ = saved("continuous")
    with says(UsageError):
        load(checkpoint, sac, env)
    torch.save({"actor_state_dict": {}, "iter": 1}, checkpoint)
    with says(UsageError):
        load(checkpoint, ppo, make_env("continuous", 1))
    checkpoint.write_bytes(b"not a checkpoint")
    with says(UsageError):
        load(checkpoint, ppo, make_env("continuous", 1))


# As one function, and as a file


def arrays_of(policy, module, env):
    """Return what the policy chooses for first observations, and the function's arguments."""
    observations, _ = env.reset(seed=2)
    groups = isinstance(observations, dict)
    arrays = [observations[name] if groups else observations for name in module.inputs]
    states = [torch.zeros(env.num_envs, *info.shape) for info in module.states.values()]
    return policy.act(observations), [*arrays, *states]


@pytest.mark.parametrize(
    "name", ["lstm of actor and critic", "images beside vectors", "images, coordinates"]
)
def test_the_function_chooses_for_one_environment_and_many_what_the_policy_does(name, saved):
    checkpoint, agent, env = saved(name)
    policy = load(checkpoint, agent, env)
    module = policy.module()
    assert list(module.inputs) == list(policy.groups)
    actions, arrays = arrays_of(policy, module, env)
    found, *states = module.function(*arrays)
    of_one, *_ = module.function(*(array[:1] for array in arrays))
    for one, other in ((found, actions), (of_one, found[:1])):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
    told = (module.output.shape, f"torch.{module.output.dtype}")
    assert (found.shape[1:], str(found.dtype)) == told
    assert [state.shape[1:] for state in states] == [info.shape for info in module.states.values()]
    own = policy._actor.state_dict(keep_vars=True).values()
    of_function = module.function.state_dict()
    assert {x.data_ptr() for x in own}.isdisjoint(x.data_ptr() for x in of_function.values())
    assert not any(part in name for name in of_function for part in ("critic", "c_rnn", "value"))


@pytest.mark.parametrize(
    ("name", "clips", "told"),
    [
        ("clipped", {"input_clip": 0.2}, {"low": [-0.1], "high": [0.1]}),
        ("tanh", {}, {"squash": "tanh", "scale": [1], "offset": [0], "low": [-1], "high": [1]}),
        ("sac", {}, {"squash": "tanh", "scale": [2], "offset": [0], "low": [-2], "high": [2]}),
    ],
)
def test_what_a_file_tells_is_what_the_function_does(name, clips, told, saved):
    module = load(*saved(name)).module()
    squash = module.actions.get("squash")
    bounds = {key: np.array(x) for key, x in module.actions.items() if key != "squash"}
    assert bounds == {key: pytest.approx(x) for key, x in told.items() if key != "squash"}
    assert squash == told.get("squash")
    (normalized,) = module.normalization.values()
    assert {**clips, "clip": 5.0}.items() <= normalized.items()
    model, observations = module.function.actor.model, torch.randn(6, 3 if name == "sac" else 4)
    mean, std = torch.tensor(normalized["mean"]), torch.tensor(normalized["std"])
    bound = clips.get("input_clip", 100.0)
    read = ((observations.clamp(-bound, bound) - mean) / std).clamp(-5.0, 5.0)
    if name == "sac":
        output = model.sac_network.actor.trunk(read)[:, :1]
    else:
        output = model.a2c_network.mu(model.a2c_network.actor_mlp(read))
    output = output.tanh() * told["scale"][0] if "squash" in told else output
    output = output.clamp(told["low"][0], told["high"][0])
    torch.testing.assert_close(module.function(observations)[0], output)


def test_groups_have_moments_of_their_own_and_bytes_have_them_in_bytes(saved):
    module = load(*saved("critic of its own")).module()
    assert {name: len(told["mean"]) for name, told in module.normalization.items()} == {"policy": 2}
    assert list(load(*saved("images beside vectors")).module().normalization) == ["policy"]
    policy = load(*saved("normalized pixels"))
    (told,) = policy.module().normalization.values()
    mean = policy._actor.model.running_mean_std.running_mean
    assert np.allclose(told["mean"], 255 * mean.numpy())


def test_a_network_whose_actions_depend_on_the_batch_is_refused(saved):
    policy = load(*saved("layer norm of images"))
    assert policy.act(Images(2).reset(seed=1)[0]).shape == (2, 1)
    with says(UsageError):
        policy.module()


HARD = ("images beside vectors, lstm of both", "images, coordinates", "multi-discrete")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "name"),
    [("onnx", name) for name in CASES if name != "layer norm of images"]
    + [(format, name) for format in ("jit", "pt2") for name in HARD],
)
def test_an_exported_file_chooses_what_the_policy_does(format, name, saved, tmp_path):
    exporter = TorchExporter()
    try:
        exporter.check(format)
    except UsageError as error:
        pytest.skip(str(error))
    checkpoint, agent, env = saved(name, 3)
    policy = load(checkpoint, agent, env)
    module = policy.module()
    path = tmp_path / f"policy{exporter.formats[format]}"
    exporter.export(module, format, path, {})
    actions, arrays = arrays_of(policy, module, env)
    found, *_ = exporter.load(path, format)([array.numpy() for array in arrays])
    np.testing.assert_allclose(found, actions.numpy(), rtol=0, atol=1e-5)
