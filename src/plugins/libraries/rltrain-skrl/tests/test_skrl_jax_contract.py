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
from skrl.agents.jax.ppo.ppo import _compute_gae  # noqa: E402
from skrl.agents.jax.rpo import RPO  # noqa: E402
from skrl.agents.jax.sac import SAC  # noqa: E402
from skrl.memories.jax import RandomMemory  # noqa: E402
from skrl.models.jax import (  # noqa: E402
    CategoricalMixin,
    GaussianMixin,
    MultiCategoricalMixin,
)
from skrl.resources.noises.jax import GaussianNoise, OrnsteinUhlenbeckNoise  # noqa: E402
from skrl.resources.optimizers.jax import Adam  # noqa: E402
from skrl.utils.runner.jax import Runner  # noqa: E402


def source(x):
    return inspect.getsource(x)


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
    text = source(agent)
    collectives = text.count("reduce_parameters(") + text.count("jax.pmap(")
    guards = text.count("if config.jax.is_distributed:")
    broadcasts = int("broadcast_parameters()" in text)
    assert collectives
    assert guards >= collectives - (agent is SAC) + broadcasts


@pytest.mark.parametrize("agent", [PPO, RPO])
def test_policy_and_value_are_stepped_one_after_the_other(agent):
    update = source(agent.update)
    stop, policy = update.index("break"), update.index("self.policy_optimizer.step(")
    between = update[policy : update.index("self.value_optimizer.step(")]
    assert stop < policy, "an epoch is left before a step waits for its gradients"
    assert "self.policy." not in between.partition(")\n")[2]
    assert update.count("kl_divergence > self.cfg.kl_threshold") == 1
    assert update.count("self.cfg.kl_threshold") == 2


def test_only_the_entropy_is_learned_after_the_policy():
    update = source(SAC.update)
    policy = update.index("self.policy_optimizer = self.policy_optimizer.step(")
    between = update[policy : update.index("self.entropy_optimizer.step(")].partition(")\n")[2]
    for model in ("self.policy.", "self.critic_1.", "self.critic_2."):
        assert model not in between.replace("self.policy_learning_rate", "")


def test_schedules_are_called_in_sequence_with_the_same_number():
    update = source(PPO.update)
    assert "kl = np.mean(kl_divergences)" in update, "another object in each epoch"
    assert "self.policy_scheduler(timestep, lr=self.policy_learning_rate, kl=kl)" in update
    assert "self.value_scheduler(timestep, lr=self.value_learning_rate, kl=kl)" in update
    assert "kladaptive" in source(PPO.__init__)


def test_advantages_are_standardized_by_the_biased_estimate():
    assert "(advantages - advantages.mean()) / (advantages.std() + 1e-8)" in source(
        _compute_gae.__wrapped__
    )
    order = [
        source(PPO.update).index(f'self.memory.set_tensor_by_name("{name}"')
        for name in ("values", "returns", "advantages")
    ]
    assert order == sorted(order)


def test_an_optimizer_is_a_tree_with_one_part():
    class Model:
        class state_dict:
            params = {"w": jnp.zeros(2)}

    optimizer = Adam(model=Model)
    assert set(type(optimizer).__dataclass_fields__) == {"transformation", "state"}
    assert list(inspect.signature(optimizer.step).parameters) == ["grad", "model", "lr"]
    assert "_get_internal_value" in source(Agent.save)
    assert "module.state_dict = module.state_dict.replace(params=params)" in source(Agent.load)


def test_sampling_uses_a_key_and_a_counter():
    policies = {"_g": GaussianMixin, "_c": CategoricalMixin, "_mc": MultiCategoricalMixin}
    for own, mixin in policies.items():
        assert f"self.{own}_key = config.jax.key" in source(mixin.__init__)
        assert f"self.{own}_i += 1" in source(mixin.act)
        assert f"jax.random.fold_in(self.{own}_key, self.{own}_i)" in source(mixin.act)
    for noise in (GaussianNoise, OrnsteinUhlenbeckNoise):
        assert "self._key = config.jax.key" in source(noise.__init__)
        assert "self._i += 1" in source(noise.sample)


def test_agents_use_the_memory_methods_that_ours_overrides():
    assert list(inspect.signature(RandomMemory.sample_by_index).parameters) == [
        "self",
        "names",
        "indexes",
        "mini_batches",
    ]
    assert "self.sample_by_index(names=names, indexes=indexes" in source(RandomMemory.sample)
    assert "self.tensors[name] = _copyto(" in source(RandomMemory.set_tensor_by_name)


def test_the_runner_asks_for_each_component():
    assert "self._component(" in source(Runner._generate_agent)
    assert 'del cfg["agent"]["mixed_precision"]' in source(Runner._generate_agent)
    assert "self._process_cfg(" in source(Runner._generate_agent)


def test_ranks_decide_by_the_mean_of_an_array():
    def above(group):
        threshold = SharedThreshold(0.5, group)
        assert threshold
        return bool(jnp.float32(group.rank) > threshold), bool(
            jnp.float32(group.rank + 0.1) > threshold
        )

    assert FakeWorld(2, rank_local=PLACE).run(above) == [(False, True)] * 2
    assert not SharedThreshold(0.0, None)
