"""How environments are wrapped, images, and the value after a time limit."""

from __future__ import annotations

import math

import pytest
import torch
from gymnasium import spaces
from messages import check_said, says
from skrl_fakes import Corridor, FakeSession, Pictured, small_agent
from skrl_policies import Beside

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.testing import make_config
from rltrain.types import ArrayInfo, TaskInfo
from rltrain_skrl.declare.options import default_agent, in_jax
from rltrain_skrl.declare.refusals import REFUSES
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.env import FINAL
from rltrain_skrl.run.torch.env import SkrlEnv
from rltrain_skrl.run.torch.runner import SessionRunner, put_channels_first


def test_shapes_and_types():
    env = SkrlEnv(Corridor(6, limit=3, grouped=True), "cpu", "episode")
    observations, _ = env.reset()
    assert observations.shape == (6, 2)
    assert env.state().shape == (6, 3)
    assert (env.observation_space.shape, env.state_space.shape) == ((2,), (3,))
    for _ in range(3):
        observations, rewards, terminated, truncated, info = env.step(torch.zeros(6, 1))
    assert [x.shape for x in (rewards, terminated, truncated)] == [(6, 1)] * 3
    assert rewards.dtype == torch.float32
    assert truncated.dtype == terminated.dtype == torch.bool
    assert truncated.all()
    final, final_states, mask = info[FINAL]
    assert (observations[:, 1] == 0).all()
    assert (final[:, 1] == 1).all()
    assert final_states.shape == (6, 3)
    assert mask.shape == (6, 1)
    assert info["episode"]["Own/level"].shape == ()


@pytest.mark.parametrize(
    ("action", "given", "native"),
    [
        ("continuous", [[2.0], [-0.5]], [[1.0], [-0.5]]),
        ("discrete", [[0], [1]], [1, 2]),
        ("multi_discrete", [[0, 2], [1, 0]], [[0, 2], [1, 0]]),
    ],
)
def test_actions_lie_in_the_tasks_space(action, given, native):
    corridor = Corridor(2, action)
    env = SkrlEnv(corridor, "cpu", "episode")
    env.reset()
    env.step(torch.tensor(given))
    taken = corridor.actions[-1]
    assert taken.tolist() == native
    assert taken.dtype == (torch.float32 if action == "continuous" else torch.int64)


def test_only_the_first_reset_resets():
    corridor = Corridor(1, limit=2)
    env = SkrlEnv(corridor, "cpu", "episode")
    env.reset()
    for _ in range(2):
        after, *_ = env.step(torch.ones(1, 1))
    again, _ = env.reset()
    assert corridor.resets == 1
    assert torch.equal(after, again)


def test_rewards_are_not_shared_with_the_task():
    class Kept(Corridor):
        def step(self, actions):
            observations, self.kept, *rest = super().step(actions)
            return observations, self.kept, *rest

    corridor = Kept(2)
    env = SkrlEnv(corridor, "cpu", "episode")
    env.reset()
    rewards = env.step(torch.zeros(2, 1))[1]
    before = corridor.kept.clone()
    rewards += 5
    assert torch.equal(corridor.kept, before)


def test_groups_without_a_policy_are_refused():
    corridor = Corridor(2)
    corridor.single_observation_space = spaces.Dict({"camera": spaces.Box(0, 1, (2,))})
    with says(UsageError):
        SkrlEnv(corridor, "cpu", "episode")


PLACE, SPEED = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0]])
BOXES = spaces.Box(-9.0, 9.0, (2,)), spaces.Box(-9.0, 9.0, (1,))


@pytest.mark.parametrize(
    ("parts", "space"),
    [
        ({"place": PLACE, "speed": SPEED}, spaces.Dict(place=BOXES[0], speed=BOXES[1])),
        ((PLACE, SPEED), spaces.Tuple(BOXES)),
    ],
)
def test_the_policys_group_may_have_parts(parts, space):
    corridor = Corridor(1)
    corridor._observe = lambda: {"policy": parts}
    corridor.single_observation_space = spaces.Dict({"policy": space})
    env = SkrlEnv(corridor, "cpu", "episode")
    assert env.reset()[0].tolist() == [[1.0, 2.0, 3.0]]
    assert env.observation_space == space


@pytest.mark.parametrize(
    "space", [spaces.Dict(place=BOXES[0], speed=BOXES[1]), spaces.Tuple(BOXES), spaces.Discrete(3)]
)
def test_networks_that_take_a_composite_group_as_one_array_are_refused(space):
    corridor = Corridor(1)
    corridor.single_observation_space = spaces.Dict({"policy": space})
    session = FakeSession(corridor, small_agent(observation_preprocessor=None))
    with (
        bootstrap.configured(session.world),
        says(UsageError) as caught,
    ):
        SessionRunner(session)
    check_said(str(caught.value))


@pytest.mark.parametrize("known", [True, False])
def test_the_value_after_a_time_limit_is_that_of_the_final_observation(known):
    """The value is the share of steps done, so a final observation differs from a first one."""

    class Hidden(Corridor):
        def step(self, actions):
            *rest, info = super().step(actions)
            return *rest, info if known else {}

    agent = small_agent(value_preprocessor=None, observation_preprocessor=None)
    session = FakeSession(Hidden(4, limit=4), agent, max_iterations=1)
    with bootstrap.configured(session.world):
        runner = SessionRunner(session)
        runner.agent.value.act = lambda inputs, role: (inputs["observations"][:, 1:], {})
        runner.agent.update = lambda **timing: None
        runner.train()
    memory = runner.agent.memory
    stored = memory.get_tensor_by_name("rewards")
    bare = -(memory.get_tensor_by_name("observations")[1:, :, :1]).abs()
    assert torch.allclose(stored[:-1], bare)
    # The last reward is the position's, between -2 and 0, plus 0.99 of the value: 1 or 3/4.
    added = stored[-1] - (-_final_position(memory, session).abs())
    assert torch.allclose(added, torch.full((4, 1), 0.99 * (1.0 if known else 0.75)), atol=1e-5)


def _final_position(memory, session):
    last = memory.get_tensor_by_name("observations")[-1, :, :1]
    return last + 0.3 * session.env.unwrapped.actions[-1]


def test_a_termination_at_the_time_limit_has_no_value_after_it():
    class Both(Corridor):
        def step(self, actions):
            observations, rewards, _, truncated, info = super().step(actions)
            return observations, rewards, truncated.clone(), truncated, info

    agent = small_agent(value_preprocessor=None, observation_preprocessor=None)
    session = FakeSession(Both(4, limit=4), agent, max_iterations=1)
    with bootstrap.configured(session.world):
        runner = SessionRunner(session)
        runner.agent.update = lambda **timing: None
        runner.train()
    memory = runner.agent.memory
    last = memory.get_tensor_by_name("rewards")[-1]
    assert torch.allclose(last, -_final_position(memory, session).abs(), atol=1e-6)


bootstrap.import_skrl()

SHORT = {"agent.rollouts": 4, "agent.learning_epochs": 2, "agent.mini_batches": 2}
IMAGE = ArrayInfo((6, 8, 3), "uint8")
SIGHT = {"policy": IMAGE}


def agent(algorithm="ppo", action="continuous", groups=SIGHT, **changes):
    task = TaskInfo("any", action, num_envs=64, observations=groups)
    options = default_agent(task, algorithm)
    for key, value in {**SHORT, **changes}.items():
        set_dotted(options, key, value)
    return options


def trained(env, options):
    """Return a runner after two iterations."""
    session = FakeSession(env, options, max_iterations=2)
    with bootstrap.configured(session.world):
        runner = SessionRunner(session)
        runner.train()
    return runner


def test_the_defaults_keep_bytes_and_read_floats():
    runner = trained(Pictured(8), agent())
    memory = runner.agent.memory
    assert memory.tensors["observations"].dtype == torch.uint8
    assert memory.tensors["observations"].shape == (4, 8, 6 * 8 * 3)
    assert set(memory.tensors["observations"].unique().tolist()) == {0, 255}
    records = runner._session.records
    assert all(math.isfinite(x) for record in records for x in record.values.values())


def test_scaled_images_are_kept_as_floats():
    options = agent(**{"agent.observation_preprocessor": "RunningStandardScaler"})
    runner = trained(Pictured(8), options)
    assert runner.agent.memory.tensors["observations"].dtype == torch.float32
    assert float(runner._session.wrapped["observation_preprocessor"].current_count) > 1


def test_replay_buffers_keep_bytes_too():
    options = default_agent(TaskInfo("none", "discrete", num_envs=64), "dqn")
    convolutions = agent()["models"]["policy"]["network"]
    for role in options["models"].values():
        if isinstance(role, dict):
            role["network"] = convolutions
    options["agent"] |= {"random_timesteps": 2, "learning_starts": 2, "batch_size": 8}
    options["agent"] |= {"observation_preprocessor": None}
    options["agent"]["experiment"] = {"write_interval": 6}
    options["memory"]["memory_size"] = 20
    runner = trained(Pictured(8, "discrete"), options)
    for name in ("observations", "next_observations"):
        assert runner.agent.memory.tensors[name].dtype == torch.uint8


@pytest.mark.parametrize("algorithm", ["sac", "dqn"])
def test_defaults_that_would_read_an_image_as_a_vector_are_refused(algorithm):
    action = "discrete" if algorithm == "dqn" else "continuous"
    task = TaskInfo("any", action, num_envs=64, observations=SIGHT)
    config = make_config(library="skrl", agent=default_agent(task, algorithm))
    names = [refusal.name for refusal in REFUSES if refusal.applies(config, task)]
    assert names == ["images without convolutions"]
    set_dotted(config.agent, "models.policy.network.0.layers", [{"conv2d": [4, 3]}, "flatten"])
    assert not [refusal for refusal in REFUSES if refusal.applies(config, task)]


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("OBSERVATIONS", "permute(OBSERVATIONS, (0, 3, 1, 2))"),
        ('OBSERVATIONS["eye"]', 'permute(OBSERVATIONS["eye"], (0, 3, 1, 2))'),
        ("STATES / 255", "permute(STATES, (0, 3, 1, 2)) / 255"),
        ("permute(OBSERVATIONS, (0, 3, 1, 2))", "permute(OBSERVATIONS, (0, 3, 1, 2))"),
    ],
)
def test_convolutions_take_channels_first(given, taken):
    convolves = {"name": "eye", "input": given, "layers": [{"conv2d": [4, 3]}, "flatten"]}
    dense = {"name": "net", "input": "concatenate([eye, OBSERVATIONS])", "layers": [8]}
    models = {"policy": {"network": [convolves, dense]}, "separate": True}
    put_channels_first(models)
    assert convolves["input"] == taken
    assert dense["input"] == "concatenate([eye, OBSERVATIONS])"


def test_networks_for_channels_first_learn():
    options = agent()
    for role in ("policy", "value"):
        options["models"][role]["network"][0]["input"] = "OBSERVATIONS / 255"
    weights = trained(Pictured(8), options)._session.wrapped["policy"].state_dict().values()
    assert next(x.shape[1] for x in weights if x.dim() == 4) == IMAGE.shape[-1]


def test_images_next_to_the_policys_vector_are_observations_too():
    env = SkrlEnv(Beside(3), "cpu", "episode")
    assert list(env.observation_space) == ["eye", "policy"]
    assert env.reset()[0].shape == (3, 6 * 8 * 3 + 1)
    assert env.reset()[0].dtype == torch.float32
    assert env.state().shape == (3, 1)


def test_the_defaults_have_an_encoder_for_each_image():
    groups = {"policy": ArrayInfo((2,)), "left": IMAGE, "right": IMAGE, "critic": IMAGE}
    network = agent(groups=groups)["models"]["value"]["network"]
    assert [part["name"] for part in network] == ["image_0", "image_1", "net"]
    assert network[1]["input"] == 'permute(OBSERVATIONS["right"], (0, 3, 1, 2)) / 255'
    assert network[2]["input"] == 'concatenate([image_0, image_1, OBSERVATIONS["policy"]])'
    floats = {**groups, "right": ArrayInfo((6, 8, 1))}
    network = agent(groups=floats)["models"]["policy"]["network"]
    assert network[0]["input"] == 'permute(OBSERVATIONS["left"], (0, 3, 1, 2)) / 255'
    assert network[1]["input"] == 'permute(OBSERVATIONS["right"], (0, 3, 1, 2))'
    (alone,) = agent(groups={"policy": ArrayInfo((6, 8, 1))})["models"]["value"]["network"]
    assert alone["input"] == "permute(OBSERVATIONS, (0, 3, 1, 2))"
    assert in_jax(agent(groups=groups))["models"]["value"]["network"][1]["input"] == (
        'OBSERVATIONS["right"] / 255'
    )
