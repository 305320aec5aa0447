"""skrl's jax agents on the ranks of a fake world: equal results, few collectives, exact resume."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from skrl_fakes import PLACE

pytest.importorskip("jax")

import jax
import numpy as np

from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.run.group import SingleProcess
from rltrain.storage.checkpoint import Checkpoint
from rltrain.testing import FakeWorld
from rltrain.types import TaskInfo, World
from rltrain_jax.moments import pool_moments
from rltrain_skrl.declare.options import ACTS_IN, ALGORITHMS, default_agent, in_jax
from rltrain_skrl.run import bootstrap, checkpoints
from rltrain_skrl.run.normalizers import MomentPool

bootstrap.import_skrl()

from rltrain_skrl.run.jax.memory import PooledMemory  # noqa: E402

PENDULUM = "rltrain/Pendulum-v1"
SHORT = {"agent.rollouts": 4, "agent.mini_batches": 2}
REPLAY = {
    "agent.batch_size": 16,
    "agent.gradient_steps": 2,
    "agent.random_timesteps": 4,
    "agent.learning_starts": 6,
    "agent.experiment.write_interval": 8,
    "memory.memory_size": 12,
}


def train(train_ranks, iterations=2, ranks=2, algorithm="ppo", agent=None, **options):
    discrete = ACTS_IN.get(algorithm) == "discrete"
    return train_ranks(
        FakeWorld(ranks, rank_local=PLACE),
        framework="jax",
        algorithm=algorithm,
        task="rltrain/CartPole-v1" if discrete else PENDULUM,
        agent={**(SHORT if algorithm in ("ppo", "rpo", "a2c") else REPLAY), **(agent or {})},
        max_iterations=iterations,
        env={"max_episode_length": 5},
        check_interval=1,
        **options,
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("num_envs", [8, 512])
def test_default_options_use_jax_terms(algorithm, num_envs):
    task = TaskInfo("any", ACTS_IN.get(algorithm, "continuous"), num_envs=num_envs)
    assert "torch" not in str(in_jax(default_agent(task, algorithm)))


@pytest.mark.slow
def test_two_critics_are_not_one_twice(train_ranks):
    (run,) = train(train_ranks, algorithm="td3", ranks=1, iterations=1)
    first, second = (jax.tree.leaves(run.models[role]) for role in ("critic_1", "critic_2"))
    kernels = [(x, y) for x, y in zip(first, second, strict=True) if x.ndim == 2]
    assert kernels
    assert not any(np.array_equal(x, y) for x, y in kernels)


COMPILED = []
"""What is compiled in this process, on any rank, from the first time that it is asked for."""


def note(event, duration_secs, **_):
    if event.endswith("backend_compile_duration"):
        COMPILED.append(event)


class Compilations:
    """Counts the programs that are compiled, by iteration."""

    def __init__(self):
        self.by_iteration = []

    @hookimpl
    def rltrain_write(self, record):
        if type(record).__name__ == "Scalars":
            self.by_iteration.append(len(COMPILED))
            COMPILED.clear()


@pytest.fixture
def compilations():
    jax.monitoring.register_event_duration_secs_listener(note)
    yield Compilations
    jax.monitoring.clear_event_listeners()


@pytest.mark.slow
@pytest.mark.parametrize(
    "algorithm", ["ppo", *(pytest.param(x, marks=pytest.mark.slow) for x in ("sac", "dqn"))]
)
def test_nothing_is_compiled_after_the_second_iteration(train_ranks, algorithm, compilations):
    # The ranks of a fake world share compiled programs: first those of the first rank, then others.
    run, _ = train(train_ranks, 4, algorithm=algorithm, observers=[compilations])
    first, _, *later = run.observers[0].by_iteration
    assert first
    assert later == [0, 0]


@pytest.mark.slow
def test_a_mini_batch_costs_one_collective(train_ranks):
    world = FakeWorld(2, rank_local=PLACE)
    iterations, epochs, batches = 3, 2, 2
    agent = {"agent.learning_epochs": epochs, "agent.learning_rate_scheduler": "KLAdaptiveLR"}
    train_ranks(
        world,
        framework="jax",
        task=PENDULUM,
        max_iterations=iterations,
        agent={**SHORT, **agent},
        check_interval=0,
    )
    callers = Counter(item.callers[0].rpartition("/")[2].partition(":")[0] for item in world.trace)
    assert callers["gradients.py"] == iterations * epochs * batches
    assert callers["moments.py"] == iterations
    divergences = [x for x in world.trace if "run/jax/algorithms.py" in x.callers[0]]
    assert len(divergences) == iterations * epochs, "one for the rates of policy and value"


class Broken:
    """An observer that makes one update's gradients infinite: the first of an epoch."""

    def __init__(self):
        self._count = 0

    @hookimpl(wrapper=True)
    def rltrain_gradient_sync(self):
        sync = yield

        def broken(given):
            self._count += 1
            factor = np.inf if self._count == 3 else 1
            return sync(jax.tree.map(lambda x: x * factor, given))

        return broken


@pytest.mark.slow
def test_after_a_left_out_update_learning_rates_are_those_of_one_rank(train_ranks, scalars):
    # Any divergence is small to this schedule: each epoch raises the rate.
    agent = {"agent.learning_epochs": 3, "agent.learning_rate_scheduler": "KLAdaptiveLR"}
    agent["+agent.learning_rate_scheduler_kwargs.kl_threshold"] = 1e6
    rates = []
    for ranks in (1, 2):
        first, *_ = train(
            *(train_ranks, 2, ranks),
            agent=agent,
            on_nonfinite="skip",
            observers=[scalars, Broken],
        )
        values = first.observers[0].values
        assert np.isfinite(list(values[1].values())).all(), "it was left out"
        rates.append([{k: v for k, v in each.items() if "rate" in k} for each in values])
    assert rates[0][1]
    assert rates[0] == rates[1]


def trees(path):
    """Return the parts of a checkpoint as skrl wrote them."""
    return pickle.loads(Path(path).read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "agent"),
    # By default exploration depends on the length of the whole run.
    [("sac", {}), ("td3", {}), ("ddqn", {"agent.exploration_scheduler": 0.5})],
)
def test_a_resumed_run_ends_with_the_same_bytes(train_ranks, algorithm, agent):
    agent = {**agent, "+memory.save_replay_buffer": True}
    agent["agent.experiment.checkpoint_interval"] = 0
    whole = train(train_ranks, 4, algorithm=algorithm, agent=agent)
    first = train(train_ranks, 2, algorithm=algorithm, agent=agent)
    path = first[0].result.checkpoint
    assert checkpoints.AGENT in checkpoints.parts(path)
    rest = train(train_ranks, 4, algorithm=algorithm, agent=agent, checkpoint=path)
    assert [run.result.iterations for run in rest] == [2, 2]
    one, other = (run[0].result.checkpoint for run in (whole, rest))
    assert trees(one) == trees(other)
    states = [Checkpoint(Path(path)).state for path in (one, other)]
    assert states[0]["ranks"] == states[1]["ranks"], "keys, generators, environments"


@pytest.mark.slow
def test_stock_skrl_reads_the_checkpoint_with_its_optimizers(train_ranks):
    (run,) = train(train_ranks, ranks=1)
    saved = trees(run.result.checkpoint)
    import flax

    adam = flax.serialization.msgpack_restore(saved["policy_optimizer"])
    assert "state" in adam
    moments = [x for x in jax.tree.leaves(adam) if np.size(x) > 1]
    assert any(np.any(x) for x in moments), "as it is after its steps"
    policy = flax.serialization.msgpack_restore(saved["policy"])
    assert set(policy) == {"params"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"), [("agent.pt", "cannot be read"), ("agent.pickle", "does not fit")]
)
def test_a_checkpoint_of_another_framework_is_reported(train_ranks, tmp_path, name, message):
    import torch

    path = tmp_path / name
    if name.endswith("pt"):
        torch.save({"policy": {}, "value": {}, "optimizer": {}}, path)
    else:
        path.write_bytes(pickle.dumps({"policy": b"", "optimizer": b""}, protocol=4))
    with pytest.raises(UsageError, match=message):
        train(train_ranks, ranks=1, checkpoint=str(path))


@pytest.mark.slow
def test_it_trains_where_torch_cannot_be_imported(tmp_path):
    code = """
import sys
sys.modules["torch"] = None
import rltrain
result = rltrain.train(
    library="skrl", framework="jax", num_envs=8, max_iterations=2, log_root=sys.argv[1],
    agent={"agent.rollouts": 4, "agent.mini_batches": 2}, writers=(),
)
print(result.iterations, sorted(name for name in sys.modules if name.startswith("torch.")))
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.stdout.strip().endswith("2 []"), result.stderr


def test_a_step_is_written_into_the_memory_in_place():
    # Stock skrl copies the tensor: there are two of them then.
    with bootstrap.configured(World(), "jax"):
        pool = MomentPool(SingleProcess("cpu"), pool_moments)
        memory = PooledMemory(pool=pool, memory_size=3, num_envs=8)
        memory.create_tensor(name="observations", size=4, dtype=jax.numpy.float32)
        kept = memory.tensors["observations"]
        for _ in range(4):
            memory.add_samples(observations=np.ones((8, 4)), rewards=np.ones((8, 1)))
    assert kept.is_deleted(), "it was written to"
    assert (memory.filled, memory.memory_index) == (True, 1)
    assert np.array_equal(memory.tensors["observations"], np.ones((3, 8, 4)))
