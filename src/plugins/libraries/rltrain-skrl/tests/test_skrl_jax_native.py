"""Faults of stock skrl with jax that rltrain fixes."""

from __future__ import annotations

import inspect
import pickle

import pytest

pytest.importorskip("jax")

import flax
import jax
import jax.numpy as jnp
import numpy as np

from rltrain.types import TaskInfo, World
from rltrain_skrl.declare.options import default_agent, in_jax
from rltrain_skrl.run import bootstrap

bootstrap.import_skrl()

from skrl.utils.runner.jax import Runner  # noqa: E402

from rltrain_gymnasium.batched import make_batched  # noqa: E402
from rltrain_jax.moments import pool_moments  # noqa: E402
from rltrain_skrl.run.jax.env import SkrlEnv  # noqa: E402
from rltrain_skrl.run.jax.memory import PooledMemory  # noqa: E402
from rltrain_skrl.run.normalizers import MomentPool  # noqa: E402

pytestmark = pytest.mark.slow  # Stock skrl recompiles its updates for each agent.


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return stock skrl's PPO after two iterations."""
    agent = in_jax(default_agent(TaskInfo("any", "continuous", num_envs=64), "ppo"))
    agent["seed"] = 1
    agent["agent"] |= {"rollouts": 4, "learning_epochs": 1, "mini_batches": 2}
    agent["agent"]["experiment"] |= {"directory": str(tmp_path_factory.mktemp("skrl"))}
    agent["agent"]["experiment"] |= {"write_interval": 0, "checkpoint_interval": 0}
    agent["trainer"] |= {"timesteps": 8, "headless": True, "disable_progressbar": True}
    agent["trainer"]["close_environment_at_exit"] = False
    with bootstrap.configured(World(), "jax"):
        made = make_batched(8, "rltrain/CartPoleContinuous-v1", "jax")
        runner = Runner(SkrlEnv(made, jax.devices()[0], "episode"), agent)
        runner.run("train")
        yield runner.agent


def test_its_checkpoints_have_the_optimizers_before_their_first_step(trained, tmp_path):
    trained.save(str(tmp_path / "agent.pickle"))
    saved = pickle.loads((tmp_path / "agent.pickle").read_bytes())
    state = flax.serialization.msgpack_restore(saved["policy_optimizer"])
    assert not any(np.any(x) for x in jax.tree.leaves(state))
    assert any(np.any(x) for x in jax.tree.leaves(trained.policy_optimizer.state))


def test_it_does_not_load_optimizers(trained):
    assert "pass  # TODO: raise NotImplementedError" in inspect.getsource(type(trained).load)


def test_each_reduction_compiles_a_new_program(trained):
    assert "jax.pmap(lambda x:" in inspect.getsource(type(trained.policy).reduce_parameters)
    assert "jax.pmap(lambda x:" in inspect.getsource(type(trained).update)


def test_it_copies_a_tensor_to_store_a_step(trained):
    memory = trained.memory
    kept = memory.tensors["observations"]
    row = {"observations": jnp.ones((8, 4)), "rewards": jnp.ones((8, 1))}
    memory.add_samples(**row)
    assert not kept.is_deleted(), "there are two of them now"

    from rltrain.run.group import SingleProcess

    with bootstrap.configured(World(), "jax"):
        ours = PooledMemory(
            pool=MomentPool(SingleProcess("cpu"), pool_moments), memory_size=3, num_envs=8
        )
        ours.create_tensor(name="observations", size=4, dtype=jnp.float32)
        kept = ours.tensors["observations"]
        for _ in range(4):
            ours.add_samples(**row)
    assert kept.is_deleted(), "it was written to"
    assert ours.filled
    assert ours.memory_index == 1
    assert np.array_equal(ours.tensors["observations"], np.ones((3, 8, 4)))
