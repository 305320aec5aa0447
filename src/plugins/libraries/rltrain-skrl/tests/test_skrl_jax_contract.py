"""What the jax adapter relies on in the installed skrl."""

from __future__ import annotations

import inspect

import pytest
from skrl_fakes import PLACE

pytest.importorskip("flax")

import jax.numpy as jnp

from rltrain.testing import FakeWorld
from rltrain.types import World
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.jax.algorithms import SharedThreshold

skrl = bootstrap.import_skrl()

from skrl.agents.jax.a2c import A2C  # noqa: E402
from skrl.agents.jax.base import Agent  # noqa: E402
from skrl.agents.jax.ppo import PPO  # noqa: E402
from skrl.agents.jax.rpo import RPO  # noqa: E402
from skrl.agents.jax.sac import SAC  # noqa: E402
from skrl.memories.jax import RandomMemory  # noqa: E402
from skrl.models.jax import (  # noqa: E402
    CategoricalMixin,
    GaussianMixin,
    Model,
    MultiCategoricalMixin,
)
from skrl.resources.noises.jax import GaussianNoise, OrnsteinUhlenbeckNoise  # noqa: E402
from skrl.resources.optimizers.jax import Adam  # noqa: E402
from skrl.utils.runner.jax import Runner  # noqa: E402

MIXINS = {"_g": GaussianMixin, "_c": CategoricalMixin, "_mc": MultiCategoricalMixin}
PARTS = [
    # Schedules are called in sequence with the same number, another object in each epoch.
    (PPO.update, "kl = np.mean(kl_divergences)"),
    (PPO.update, "self.policy_scheduler(timestep, lr=self.policy_learning_rate, kl=kl)"),
    (PPO.update, "self.value_scheduler(timestep, lr=self.value_learning_rate, kl=kl)"),
    (PPO.__init__, "kladaptive"),
    (Agent.save, "_get_internal_value"),
    (Agent.load, "module.state_dict = module.state_dict.replace(params=params)"),
    # What this adapter does in place of a reduction that compiles a new program each time.
    (Model.reduce_parameters, "jax.pmap(lambda x:"),
    # Sampling uses a key and a counter.
    *((mixin.__init__, f"self.{own}_key = config.jax.key") for own, mixin in MIXINS.items()),
    *((mixin.act, f"self.{own}_i += 1") for own, mixin in MIXINS.items()),
    *(
        (mixin.act, f"jax.random.fold_in(self.{own}_key, self.{own}_i)")
        for own, mixin in MIXINS.items()
    ),
    *((x.__init__, "self._key = config.jax.key") for x in (GaussianNoise, OrnsteinUhlenbeckNoise)),
    *((x.sample, "self._i += 1") for x in (GaussianNoise, OrnsteinUhlenbeckNoise)),
    # Agents use the memory's methods that ours overrides, and the runner asks for each component.
    (RandomMemory.sample, "self.sample_by_index(names=names, indexes=indexes"),
    (RandomMemory.set_tensor_by_name, "self.tensors[name] = _copyto("),
    (Runner._generate_agent, "self._component("),
    (Runner._generate_agent, 'del cfg["agent"]["mixed_precision"]'),
    (Runner._generate_agent, "self._process_cfg("),
]


@pytest.mark.parametrize(("owner", "part"), PARTS)
def test_what_the_adapter_comes_between_is_in_the_source(owner, part):
    assert part in inspect.getsource(owner)


def test_skrl_sees_a_single_process(monkeypatch):
    monkeypatch.setenv("JAX_WORLD_SIZE", "2")
    stock = skrl.config.jax
    with bootstrap.configured(World(rank=1, world_size=2), "jax"):
        place = skrl.config.jax
        assert (place.rank, place.world_size, place.is_distributed) == (0, 1, False)
        assert place.parse_device("cuda:7") == place.device
    assert skrl.config.jax is stock


@pytest.mark.parametrize("agent", [PPO, A2C, RPO, SAC])
def test_one_flag_controls_all_distributed_code_of_skrl(agent):
    text = inspect.getsource(agent)
    collectives = text.count("reduce_parameters(") + text.count("jax.pmap(")
    guards = text.count("if config.jax.is_distributed:")
    broadcasts = int("broadcast_parameters()" in text)
    assert collectives
    assert guards >= collectives - (agent is SAC) + broadcasts


@pytest.mark.parametrize("agent", [PPO, RPO])
def test_policy_and_value_are_stepped_one_after_the_other(agent):
    update = inspect.getsource(agent.update)
    stop, policy = update.index("break"), update.index("self.policy_optimizer.step(")
    between = update[policy : update.index("self.value_optimizer.step(")]
    assert stop < policy, "an epoch is left before a step waits for its gradients"
    assert "self.policy." not in between.partition(")\n")[2]
    assert update.count("kl_divergence > self.cfg.kl_threshold") == 1
    assert update.count("self.cfg.kl_threshold") == 2


def test_only_the_entropy_is_learned_after_the_policy():
    update = inspect.getsource(SAC.update)
    policy = update.index("self.policy_optimizer = self.policy_optimizer.step(")
    between = update[policy : update.index("self.entropy_optimizer.step(")].partition(")\n")[2]
    for model in ("self.policy.", "self.critic_1.", "self.critic_2."):
        assert model not in between.replace("self.policy_learning_rate", "")


def test_values_returns_and_advantages_are_stored_in_this_order():
    update = inspect.getsource(PPO.update)
    names = ("values", "returns", "advantages")
    order = [update.index(f'self.memory.set_tensor_by_name("{name}"') for name in names]
    assert order == sorted(order)
    parameters = ["self", "names", "indexes", "mini_batches"]
    assert list(inspect.signature(RandomMemory.sample_by_index).parameters) == parameters


def test_an_optimizer_is_a_tree_with_one_part():
    class Model:
        class state_dict:
            params = {"w": jnp.zeros(2)}

    optimizer = Adam(model=Model)
    assert set(type(optimizer).__dataclass_fields__) == {"transformation", "state"}
    assert list(inspect.signature(optimizer.step).parameters) == ["grad", "model", "lr"]


def test_ranks_decide_by_the_mean_of_an_array():
    def above(group):
        threshold = SharedThreshold(0.5, group)
        assert threshold
        return bool(jnp.float32(group.rank) > threshold), bool(
            jnp.float32(group.rank + 0.1) > threshold
        )

    assert FakeWorld(2, rank_local=PLACE).run(above) == [(False, True)] * 2
    assert not SharedThreshold(0.0, None)
