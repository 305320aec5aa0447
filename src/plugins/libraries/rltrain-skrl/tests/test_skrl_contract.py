"""What the plugin relies on in the installed skrl."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest
import torch
from gymnasium import spaces

from rltrain.testing import make_config
from rltrain_skrl.declare.iteration import mini_batches, steps_per_iteration, total_iterations
from rltrain_skrl.declare.options import ON_POLICY
from rltrain_skrl.run import bootstrap

skrl = bootstrap.import_skrl()

from skrl.agents.torch.a2c import A2C  # noqa: E402
from skrl.agents.torch.base import Agent  # noqa: E402
from skrl.agents.torch.ddpg import DDPG  # noqa: E402
from skrl.agents.torch.ddqn import DDQN  # noqa: E402
from skrl.agents.torch.dqn import DQN  # noqa: E402
from skrl.agents.torch.ppo import PPO, PPO_CFG  # noqa: E402
from skrl.agents.torch.rpo import RPO  # noqa: E402
from skrl.agents.torch.sac import SAC  # noqa: E402
from skrl.agents.torch.td3 import TD3  # noqa: E402
from skrl.memories.torch import RandomMemory  # noqa: E402
from skrl.models.torch import Model  # noqa: E402
from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402
from skrl.trainers.torch import SequentialTrainerCfg, Trainer  # noqa: E402
from skrl.utils.runner.torch import Runner  # noqa: E402
from skrl.utils.spaces.torch import sample_space  # noqa: E402

TORCH_SOURCES = [
    path
    for path in Path(skrl.__file__).parent.rglob("*.py")
    if "jax" not in path.parts and "warp" not in path.parts
]


def test_rank_variables_are_read_in_one_file_only():
    readers = [
        path.name
        for path in TORCH_SOURCES
        if re.search(
            r"getenv\(\"(RANK|LOCAL_RANK|WORLD_SIZE)|environ.*WORLD_SIZE", path.read_text()
        )
    ]
    assert [Path(skrl.__file__).name] == readers


def test_the_torch_configuration_is_an_attribute_read_at_each_use():
    assert "torch" in vars(skrl.config)
    held = re.compile(r"^\s*(?:\w+ = config\.torch$|from skrl\.config)", re.MULTILINE)
    assert not [path for path in TORCH_SOURCES if held.search(path.read_text())]


def test_the_place_is_known_by_these_names_only():
    used = {
        name
        for path in TORCH_SOURCES
        if path.name != "__init__.py" or path.parent.name == "utils"
        for name in re.findall(r"config\.torch\.(\w+)", path.read_text())
    }
    assert used <= {"device", "is_distributed", "key", "parse_device", "rank", "world_size"}


def test_the_torch_configuration_can_be_made_again():
    own = type(skrl.config.torch)
    assert list(inspect.signature(own).parameters) == []
    for name in ("rank", "local_rank", "world_size", "is_distributed"):
        assert isinstance(getattr(own, name), property)


@pytest.mark.parametrize(
    ("owner", "method", "parameters"),
    [
        (Runner, "_component", ["self", "name"]),
        (Runner, "_process_cfg", ["self", "cfg"]),
        (Runner, "_generate_models", ["self", "env", "cfg"]),
        (Runner, "_generate_agent", ["self", "env", "cfg", "models"]),
        (Model, "reduce_parameters", ["self"]),
        (Model, "broadcast_parameters", ["self", "rank"]),
        (Agent, "init", ["self", "trainer_cfg"]),
        (Agent, "post_interaction", ["self", "timestep", "timesteps"]),
        (
            RunningStandardScaler,
            "_parallel_variance",
            ["self", "input_mean", "input_var", "input_count"],
        ),
    ],
)
def test_overridden_methods_exist(owner, method, parameters):
    assert list(inspect.signature(getattr(owner, method)).parameters) == parameters


def test_fields_of_a_transition():
    names = set(inspect.signature(PPO.record_transition).parameters)
    assert names >= {"observations", "states", "next_observations", "next_states", "infos"}
    assert names >= {"terminated", "truncated"}


ROLLOUTS = (PPO, RPO, A2C)
REPLAYS = {
    SAC: ("critic_1", "critic_2", "policy"),
    TD3: ("critic_1", "critic_2", "policy"),
    DDPG: ("critic", "policy"),
    DQN: ("q_network",),
    DDQN: ("q_network",),
}
IN_ORDER = [
    # Gradients are reduced before clipping: policy first and value last, or critics first.
    *(
        (agent.update, "self.policy.reduce", "self.value.reduce_parameters()", "clip_grad_norm_")
        for agent in ROLLOUTS
    ),
    *(
        (agent.update, *(f"self.{name}.reduce_parameters()" for name in names), "step(self.")
        for agent, names in REPLAYS.items()
        if agent in (DQN, DDQN)
    ),
    # Standardized values are stored before the first mini-batch.
    *(
        (
            agent.update,
            'set_tensor_by_name("values", self._value_preprocessor(values, train=True))',
            'set_tensor_by_name("returns", self._value_preprocessor(returns, train=True))',
            'set_tensor_by_name("advantages", advantages)',
            "self.memory.sample(",
        )
        for agent in ROLLOUTS
    ),
    (RandomMemory.sample, "self.sample_by_index("),
    # A comparison with the threshold ends an epoch.
    *(
        (x.update, "if self.cfg.kl_threshold and kl_divergence > self.cfg.kl_threshold:")
        for x in (PPO, RPO)
    ),
    (Trainer.train, "self.env.num_envs > 1"),
    # The entropy coefficient is stepped right after its gradient, and tracked only when written.
    (
        SAC.update,
        *("self.entropy_optimizer.zero_grad()", "self.scaler.scale(entropy_loss).backward()"),
        "self.scaler.step(self.entropy_optimizer)",
        "self._entropy_coefficient = torch.exp(self.log_entropy_coefficient.detach())",
        "if self.write_interval > 0:",
    ),
    *((agent.init, "self._update_counter = 0") for agent in (TD3, DQN, DDQN)),
    *((agent.update, "self._update_counter += 1") for agent in (TD3, DQN, DDQN)),
    *((agent.act, f"self.{names[-1]}.random_act(") for agent, names in REPLAYS.items()),
    *(
        (agent.post_interaction, "timestep >= self.cfg.learning_starts", "self.update(")
        for agent in REPLAYS
    ),
    *((agent.update, "self.memory.sample(names=") for agent in REPLAYS),
    (Agent.init, "self.write_interval > 0"),  # Else it makes no writer.
]


@pytest.mark.parametrize("row", IN_ORDER, ids=lambda row: row[0].__qualname__)
def test_what_the_adapter_comes_between_is_in_this_order(row):
    function, *parts = row
    source, place = inspect.getsource(function), 0
    for part in parts:
        assert part in source[place:], f"{part!r} is not in {function.__qualname__} where it was."
        place += source[place:].index(part) + len(part)


@pytest.mark.parametrize("agent", [*ROLLOUTS, *REPLAYS])
def test_nothing_else_is_reduced_or_standardized(agent):
    update = inspect.getsource(agent.update)
    names = REPLAYS.get(agent, ("policy", "value"))
    assert update.count("reduce_parameters()") == len(names)
    reduced = [update.index(f"self.{name}.reduce_parameters()") for name in names]
    assert reduced == sorted(reduced)
    if agent in ROLLOUTS:
        assert update.count("self._value_preprocessor(") == 3, "and the inverse of the last values"
        assert update.count("kl_threshold") == (0 if agent is A2C else 2)
    else:
        steps = [f"step(self.{name})" for name in ("critic_optimizer", "policy_optimizer")]
        assert all(reduced[0] < update.index(step) for step in steps if step in update)


def test_the_temperature_is_its_optimizers_only_parameter():
    assert inspect.getsource(SAC.__init__).count("[self.log_entropy_coefficient]") == 1


def test_the_trainer_resets_twice():
    assert inspect.getsource(Trainer.train).count("self.env.reset()") == 2


@pytest.mark.parametrize("space", [spaces.Box(-1.0, 1.0, (1,)), spaces.Discrete(1000)], ids=str)
def test_native_random_actions_are_the_same_in_every_step(space):
    # This is why the adapter draws its own.
    space.seed(0)
    once, again = (
        sample_space(space, batch_size=4, backend="native", device="cpu") for _ in range(2)
    )
    assert torch.equal(once, again)


def options_of(algorithm):
    """Return the dataclass of an agent's options."""
    module = importlib.import_module(f"skrl.agents.torch.{algorithm}")
    return getattr(module, f"{algorithm.upper()}_CFG")


def test_the_plan_knows_the_defaults_of_the_installed_version():
    for algorithm in ON_POLICY:
        cfg = options_of(algorithm)()
        agent = {"class": algorithm}
        assert steps_per_iteration(agent) == cfg.rollouts
        assert mini_batches(agent) == cfg.mini_batches
    config = make_config(library="skrl", agent={"agent": {"class": "ppo"}})
    assert total_iterations(config) == SequentialTrainerCfg().timesteps // PPO_CFG().rollouts
