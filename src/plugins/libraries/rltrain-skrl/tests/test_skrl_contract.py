"""What the plugin relies on in the installed skrl."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

from rltrain.testing import make_config
from rltrain_skrl.declare.iteration import mini_batches, steps_per_iteration, total_iterations
from rltrain_skrl.declare.options import ON_POLICY
from rltrain_skrl.plugin import rltrain_provides
from rltrain_skrl.run import bootstrap

skrl = bootstrap.import_skrl()

from skrl.agents.torch.a2c import A2C  # noqa: E402
from skrl.agents.torch.base import Agent  # noqa: E402
from skrl.agents.torch.ppo import PPO, PPO_CFG  # noqa: E402
from skrl.agents.torch.rpo import RPO  # noqa: E402
from skrl.memories.torch import RandomMemory  # noqa: E402
from skrl.models.torch import Model  # noqa: E402
from skrl.resources.preprocessors.torch import RunningStandardScaler  # noqa: E402
from skrl.trainers.torch import SequentialTrainerCfg, Trainer  # noqa: E402
from skrl.utils.runner.torch import Runner  # noqa: E402

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
    ],
)
def test_overridden_methods_exist(owner, method, parameters):
    assert list(inspect.signature(getattr(owner, method)).parameters) == parameters


def test_fields_of_a_transition():
    names = set(inspect.signature(PPO.record_transition).parameters)
    assert names >= {"observations", "states", "next_observations", "next_states", "infos"}
    assert names >= {"terminated", "truncated"}


@pytest.mark.parametrize("agent", [PPO, RPO, A2C])
def test_gradients_are_reduced_policy_first_and_value_last(agent):
    update = inspect.getsource(agent.update)
    assert update.count("reduce_parameters()") == 2
    assert update.index("self.policy.reduce_parameters()") < update.index(
        "self.value.reduce_parameters()"
    )
    assert update.index("reduce_parameters()") < update.index("clip_grad_norm_")


@pytest.mark.parametrize("agent", [PPO, RPO, A2C])
def test_standardized_values_are_stored_before_the_first_mini_batch(agent):
    update = inspect.getsource(agent.update)
    setters = [
        'set_tensor_by_name("values", self._value_preprocessor(values, train=True))',
        'set_tensor_by_name("returns", self._value_preprocessor(returns, train=True))',
        'set_tensor_by_name("advantages", advantages)',
        "self.memory.sample(",
    ]
    places = [update.index(setter) for setter in setters]
    assert places == sorted(places)
    assert update.count("self._value_preprocessor(") == 3, "and the inverse of the last values"
    assert "self.sample_by_index(" in inspect.getsource(RandomMemory.sample)
    gae = inspect.getsource(sys.modules[agent.__module__].compute_gae)
    assert "returns = advantages + values" in gae
    assert "(advantages - advantages.mean()) / (advantages.std() + 1e-8)" in gae


@pytest.mark.parametrize("agent", [PPO, RPO])
def test_a_comparison_with_the_threshold_ends_an_epoch(agent):
    update = inspect.getsource(agent.update)
    assert "if self.cfg.kl_threshold and kl_divergence > self.cfg.kl_threshold:" in update
    assert update.count("kl_threshold") == 2


@pytest.mark.parametrize("agent", [PPO, RPO, A2C])
def test_skrl_averages_the_divergence_by_which_a_schedule_decides(agent):
    update = inspect.getsource(agent.update)
    known = update[update.index("isinstance(self.scheduler, KLAdaptiveLR)") :]
    order = ["all_reduce(kl", "kl /= config.torch.world_size", "self.scheduler.step(kl"]
    places = [known.index(each) for each in order]
    assert places == sorted(places)


def test_how_batch_statistics_are_merged():
    merge = RunningStandardScaler._parallel_variance
    assert list(inspect.signature(merge).parameters)[1:] == [
        "input_mean",
        "input_var",
        "input_count",
    ]
    assert "torch.var(x, dim=0)" in inspect.getsource(RunningStandardScaler._compute)


def test_the_trainer_uses_the_environment_as_the_wrapper_expects():
    train = inspect.getsource(Trainer.train)
    assert "self.env.num_envs > 1" in train
    assert train.count("self.env.reset()") == 2


def fields(cls):
    return {field.name for field in dataclasses.fields(cls)}


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


def test_the_spec_names_what_exists():
    (spec,) = rltrain_provides()
    for name in (spec.factory, spec.checkpoint.read):
        module, attribute = name.split(":")
        assert hasattr(__import__(module, fromlist=[attribute]), attribute)
