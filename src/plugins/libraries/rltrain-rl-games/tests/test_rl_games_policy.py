"""Loaded policies act bit for bit as the agents of this adapter, and of rl_games itself."""

from __future__ import annotations

import contextlib
import copy
import inspect
from pathlib import Path

import pytest
import torch
from gymnasium.vector import VectorWrapper
from rl_games.algos_torch import model_builder, players
from rl_games.common import env_configurations, vecenv
from rl_games.torch_runner import Runner
from rl_games_envs import making
from rl_games_policies import CASES, STEPS, Case, each_case, load, options_of, untrained

from rltrain.errors import UsageError
from rltrain.metrics.environment import CountedEnv
from rltrain.options import load_yaml, set_dotted
from rltrain.policies.session import open_session
from rltrain.policies.trained import find_trained, plan_policy
from rltrain.testing import FakeWorld
from rltrain_rl_games.run.agents import ContinuousAgent, DiscreteAgent
from rltrain_rl_games.run.env import RlGamesEnv
from rltrain_rl_games.run.sac import SacAgent

PPO = {
    "params.network.mlp.units": [8],
    "params.config.horizon_length": STEPS,
    "params.config.minibatch_size_per_env": STEPS,
    "params.config.mini_epochs": 1,
}
SAC = {
    "params.network.mlp.units": [8],
    "params.config.num_steps_per_episode": 4,
    "params.config.num_updates_per_step": 1,
    "params.config.num_warmup_frames": 16,
    "params.config.batch_size": 16,
    "params.config.replay_buffer_size": 64,
}
CRITIC_BATCH = {"params.config.central_value_config.minibatch_size_per_env": STEPS}


class Recorder(VectorWrapper):
    """Keeps what passes between the environments and the agent, and the generator's states."""

    def __init__(self, env):
        super().__init__(env)
        self.observed, self.taken, self.ended, self.generators = [], [], [], []

    def reset(self, **arguments):
        observations, info = self.env.reset(**arguments)
        self._keep(observations)
        return observations, info

    def step(self, actions):
        self.taken.append(actions.clone())
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        self.ended.append(terminations | truncations)
        self._keep(observations)
        return observations, rewards, terminations, truncations, info

    def _keep(self, observations):
        self.observed.append(copy.deepcopy(observations))
        self.generators.append(torch.get_rng_state())


@contextlib.contextmanager
def most_likely_actions():
    """Collect the suite's actions that training agents would take without drawing."""
    found = []

    def ppo(agent, obs):
        result = get(agent, obs)
        if isinstance(agent, DiscreteAgent):
            logits = result["logits"]
            several = isinstance(logits, list)
            actions = [part.argmax(-1) for part in (logits if several else [logits])]
            actions = torch.stack(actions, -1) if several else actions[0]
        else:
            tanh = "Tanh" in type(agent.model).__qualname__
            mean = result["mus"].tanh() if tanh else result["mus"]
            actions = agent.preprocess_actions(mean)
        found.append(agent.vec_env.conversion.actions(actions))
        return result

    def sac(agent, obs, action_dim, sample=False):
        found.append(agent.vec_env.conversion.actions(act(agent, obs, action_dim)))
        return act(agent, obs, action_dim, sample)

    get, act = ContinuousAgent.get_action_values, SacAgent.act
    with pytest.MonkeyPatch.context() as patch:
        for agent in (ContinuousAgent, DiscreteAgent):
            patch.setattr(agent, "get_action_values", ppo)
        patch.setattr(SacAgent, "act", sac)
        yield found


def train(folder, case, env, **options):
    size = SAC if case.algorithm == "sac" else PPO
    critic = CRITIC_BATCH if any("central_value" in name for name in case.agent) else {}
    settings = {
        "library": "rl_games",
        "algorithm": case.algorithm,
        "task": case.task,
        "writers": (),
        "log_root": str(folder),
        "agent": {**size, **case.agent, **critic},
        "observers": [making(env)],
        **options,
    }
    return FakeWorld(1).train(**settings)[0].result


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train a case, once: the run's result, and its options as the run folder has them."""
    runs = {}

    def get(name):
        if name not in runs:
            folder, case = tmp_path_factory.mktemp("logs"), CASES[name]
            run = train(folder, case, case.make_env, num_envs=16, max_iterations=1)
            runs[name] = (run, load_yaml(str(Path(run.run_dir) / "agent.yaml"), "the run"))
        return runs[name]

    return get


@each_case("lstm of actor and critic")
def test_a_policy_acts_bit_for_bit_as_the_training_agent(name, trained, tmp_path):
    case, (first, agent) = CASES[name], trained(name)
    sac, recorders = case.algorithm == "sac", []

    def env(num_envs):
        recorders.append(Recorder(case.make_env(num_envs)))
        return recorders[-1]

    # With another number of environments it begins new episodes, with the weights loaded.
    options = {"num_envs": 12, "max_iterations": 2, "checkpoint": first.checkpoint}
    with most_likely_actions() as expected:
        train(tmp_path, case, env, **options)
    (seen,) = recorders
    policy = load(first.checkpoint, agent, case.make_env(1))
    ends = {int(ended.sum()) for ended in seen.ended[:STEPS]}
    assert sac or ends > {0}
    assert ends - {0, 12} or "+params.network.rnn" not in case.agent
    steps = range(1 if sac else STEPS)  # SAC learns after each step.
    for step in steps:
        torch.set_rng_state(seen.generators[step])
        actions = policy.act(seen.observed[step], deterministic=False)
        assert torch.equal(actions, seen.taken[step])
        policy.reset(seen.ended[step])
    policy.reset()
    for step in steps:
        assert torch.equal(policy.act(seen.observed[step]), expected[step])
        policy.reset(seen.ended[step])


def native(case, folder):
    """Train with rl_games' own runner, agent and player; return file, options and player."""
    agent, env = options_of(case), RlGamesEnv(CountedEnv(case.make_env(16), seed=1))
    vecenv.register("native", lambda *arguments, **options: env)
    env_configurations.register("native", {"vecenv_type": "native"})
    for key, value in (SAC if case.algorithm == "sac" else PPO).items():
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
    "case",
    [
        pytest.param(CASES["lstm, discrete"], marks=pytest.mark.slow),
        pytest.param(CASES["multi-discrete"], marks=pytest.mark.slow),
        CASES["gru before the layers"],
        pytest.param(Case(algorithm="sac"), marks=pytest.mark.slow),
    ],
    ids=lambda case: f"{case.algorithm} {case.action}",
)
def test_a_checkpoint_of_rl_games_own_script_acts_as_its_player(case, tmp_path):
    checkpoint, agent, player = native(case, tmp_path)
    env = case.make_env(6)
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


def test_a_real_session_loads_it_for_any_number_of_environments(trained):
    run, _ = trained("lstm of actor and critic")
    plan = plan_policy(find_trained(run.run_dir, None, {"num_envs": 1}))
    with open_session(plan.config, plan.world, plan.registry) as session:
        policy = session.load_policy()
        assert policy.groups == ("policy",)
        actions = policy.act(session.reset(seed=1))
        assert actions.shape == session.env.action_space.shape
        session.env.step(actions)


@pytest.fixture
def saved(tmp_path):
    """Save an untrained policy; return its file, options, and environments."""

    def save(name):
        case, path = CASES[name], tmp_path / "policy.pth"
        return path, untrained(case, path), case.make_env(4)

    return save


def test_one_environment_and_many_take_the_same_actions(saved):
    policy = load(*saved("multi-discrete"))
    observations = torch.randn(4, 4)
    one_by_one = [policy.act(part) for part in observations.split(1)]
    assert [actions.shape for actions in one_by_one] == [(1, 2)] * 4
    assert torch.equal(torch.cat(one_by_one), policy.act(observations))


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
    with pytest.raises(UsageError, match=r"of another algorithm .* it lacks actor, critic"):
        load(checkpoint, sac, env)
    torch.save({"actor_state_dict": {}, "iter": 1}, checkpoint)
    with pytest.raises(UsageError, match="or of another library: it lacks model"):
        load(checkpoint, ppo, CASES["continuous"].make_env(1))
    checkpoint.write_bytes(b"not a checkpoint")
    with pytest.raises(UsageError, match="cannot be read as a checkpoint"):
        load(checkpoint, ppo, CASES["continuous"].make_env(1))
