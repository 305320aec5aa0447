"""Faults of rl_games itself on several ranks, each with its counterpart under the adapter.

Only rl_games' startup is replaced, because it needs NCCL and a GPU; its own collectives run over
the fake group. If a test of a native fault fails, rl_games has fixed the fault: check whether the
adapter can do less.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace

import gymnasium
import pytest
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
from rl_games.algos_torch.sac_agent import SACAgent
from rl_games.torch_runner import Runner

import rltrain_gymnasium.registration  # noqa: F401 - makes the tasks known to gymnasium
from rltrain.metrics.environment import CountedEnv
from rltrain.options import set_dotted
from rltrain.testing import FakeWorld, RankRun, differing
from rltrain.types import TaskInfo
from rltrain_rl_games.plugin import rltrain_provides
from rltrain_rl_games.run.env import RlGamesEnv

pytestmark = pytest.mark.slow

(SPEC,) = rltrain_provides()
TASKS = {"continuous": "rltrain/CartPoleContinuous-v1", "discrete": "rltrain/CartPole-v1"}
STOCK = {"continuous": A2CAgent, "discrete": DiscreteA2CAgent}
ADAPTIVE = {"params.config.lr_schedule": "adaptive", "params.config.schedule_type": "standard"}
FIXED = {"params.config.lr_schedule": "identity"}
SMALL_SAC = {
    "batch_size": 16,
    "num_warmup_frames": None,
    "num_warmup_steps": 1,
    "replay_buffer_size": 256,
    "torch_compile": False,
}


def native(action, options, folder):
    """Train two ranks with rl_games' own agent."""

    def on_rank(group):
        agent = native_agent(group, action, options, folder / str(group.rank))
        agent.train()
        return SimpleNamespace(state=RankRun(None, {"model": agent.model}, ()).state, agent=agent)

    return FakeWorld(2, torch=True).run(on_rank)


def native_agent(group, action, options, folder):
    class Agent(STOCK[action]):
        def __init__(self, base_name, params):
            if group.rank:  # What the replaced startup does.
                params["config"].update(print_stats=False, lr_schedule=None)
            super().__init__(base_name, params)
            self.multi_gpu, self.world_size = True, group.world_size
            # Selecting device -1 does nothing, even without a GPU.
            self.global_rank, self.local_rank = group.rank, -1

    runner = Runner()
    runner.load_config(native_params(group.rank, action, options, folder))
    agent = Agent(base_name="run", params=runner.params)
    agent.writer.close()
    return agent


def native_sac(group, folder):
    options = {f"params.config.{name}": value for name, value in SMALL_SAC.items()}
    params = native_params(group.rank, "continuous", options, folder, "sac")
    runner = Runner()
    runner.load_config(params)
    agent = SACAgent(base_name="run", params=runner.params)
    agent.vec_env = params["config"]["vec_env"]  # It does not accept an existing one.
    agent.writer.close()
    agent.writer = SimpleNamespace(add_scalar=lambda *arguments: None)
    agent.epoch_num = 1
    agent.init_tensors()
    agent.obs = agent.env_reset()
    agent.train_epoch()
    return SimpleNamespace(state=RankRun(None, {"model": agent.model}, ()).state, agent=agent)


def native_params(rank, action, options, folder, algorithm="ppo"):
    task = TaskInfo(TASKS[action], action, num_envs=64)
    agent = copy.deepcopy(dict(SPEC.default_agent(task, algorithm)))
    for key, value in options.items():
        set_dotted(agent, key, value)
    made = gymnasium.make_vec(TASKS[action], num_envs=8, framework="torch", device="cpu")
    env = RlGamesEnv(CountedEnv(made, seed=rank))
    agent["params"].update(seed=1 + rank, torch_threads=0)
    agent["params"]["config"].update(
        name="native",
        env_name="any",
        num_actors=env.env.num_envs,
        env_info=env.get_env_info(),
        vec_env=env,
        device="cpu",
        max_epochs=3,
        train_dir=str(folder),
    )
    return agent["params"]


@pytest.mark.parametrize("action", TASKS)
def test_native_learning_rates_differ_and_weights_diverge(action, tmp_path):
    runs = native(action, ADAPTIVE, tmp_path)
    # Each rank's learning rate after the first mini-batch; only rank 0's ever changes.
    rates = [run.agent.last_lr for run in runs]
    assert rates[0] != rates[1] == float(runs[1].agent.config["learning_rate"])
    assert any("a2c_network" in name for name in differing(runs))


@pytest.mark.parametrize("action", TASKS)
def test_adapted_learning_rates_and_weights_are_equal(action, train_ranks):
    # The run itself compares the learning rates when it ends.
    assert not differing(
        train_ranks(FakeWorld(2), task=TASKS[action], agent=ADAPTIVE, max_iterations=3)
    )


def test_native_normalizers_differ_although_weights_do_not(tmp_path):
    names = set(differing(native("continuous", FIXED, tmp_path)))
    assert {"model.running_mean_std.running_mean", "model.value_mean_std.running_mean"} <= names
    assert not any("a2c_network" in name for name in names)


def test_adapted_normalizers_are_equal(train_ranks):
    assert not differing(train_ranks(FakeWorld(2), agent=FIXED, max_iterations=3))


def test_native_continuous_frames_are_counted_on_rank_0_only(tmp_path):
    runs = native("continuous", FIXED, tmp_path)
    assert [run.agent.frame for run in runs] == [3 * 2 * 8 * 32, 0]


def test_adapted_frames_are_counted_on_every_rank(train_ranks):
    # Each rank ends by its own count.
    options = {"params.config.max_frames": 3 * 2 * 8 * 32, "params.config.max_epochs": -1}
    runs = train_ranks(FakeWorld(2), agent=FIXED | options, max_iterations=None)
    assert [run.result.iterations for run in runs] == [3, 3]


def test_native_sac_trains_a_separate_replica_on_each_rank(tmp_path):
    world = FakeWorld(2, torch=True)
    runs = world.run(lambda group: native_sac(group, tmp_path / str(group.rank)))
    assert any("actor" in name for name in differing(runs))
    assert not world.trace


def test_adapted_sac_is_equal_on_all_ranks(train_ranks):
    agent = {f"params.config.{name}": value for name, value in SMALL_SAC.items()}
    assert not differing(train_ranks(FakeWorld(2), algorithm="sac", agent=agent))


def test_native_sac_forgets_its_temperature(tmp_path):
    (run,) = FakeWorld(1).run(lambda group: native_sac(group, tmp_path))
    state = run.agent.get_full_state_weights()
    assert "log_alpha_optimizer" in state
    assert not [name for name in state if name in ("alpha", "log_alpha")]
