"""Images: bytes in skrl's memories, convolutions by default, groups next to vectors."""

from __future__ import annotations

import math

import pytest
import torch
from gymnasium import spaces
from skrl_fakes import FakeSession, Pictured

from rltrain.options import set_dotted
from rltrain.testing import make_config
from rltrain.types import ArrayInfo, TaskInfo, World
from rltrain_skrl.declare.options import default_agent, in_jax
from rltrain_skrl.declare.refusals import REFUSES
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.torch.env import SkrlEnv
from rltrain_skrl.run.torch.runner import SessionRunner, put_channels_first

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
    class Beside(Pictured):
        def __init__(self, num_envs):
            super().__init__(num_envs)
            image = self.single_observation_space
            vector = spaces.Box(-9, 9, (1,))
            self.single_observation_space = spaces.Dict(policy=vector, eye=image, critic=vector)

        def _observe(self):
            place = self.position[:, None]
            return {"policy": place, "eye": super()._observe(), "critic": place}

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


@pytest.mark.slow
def test_jax_networks_read_channels_last():
    jax = pytest.importorskip("jax")
    from skrl.utils.model_instantiators.jax import deterministic_model

    with bootstrap.configured(World(), "jax"):
        network = in_jax(agent())["models"]["value"]["network"]
        model = deterministic_model(
            observation_space=spaces.Box(0, 255, IMAGE.shape), network=network, output="ONE"
        )
        model.init_state_dict(role="value")
        (first, *_) = [x for x in jax.tree.leaves(model.state_dict.params) if x.ndim == 4]
    assert first.shape == (3, 3, 3, 16)  # Height, width, channels in, channels out.
