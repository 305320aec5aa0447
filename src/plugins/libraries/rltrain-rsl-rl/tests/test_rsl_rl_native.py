"""Faults of rsl_rl itself on several ranks, each with its counterpart under the adapter.

Only rsl_rl's startup is replaced, because it needs NCCL and a GPU; its own collectives run over
the fake group. If a test of a native fault fails, rsl_rl has fixed the fault: check whether the
adapter can do less.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from packaging.version import Version
from rsl_rl.runners import OnPolicyRunner
from rsl_rl_stubs import CURIOUS, POOLS, VERSION, LocalSession, PointEnv, pools, small_agent

from rltrain.metrics.environment import CountedEnv
from rltrain.options import set_dotted
from rltrain.testing import FakeWorld, RankRun, differing
from rltrain_rsl_rl.run.env import RslRlEnv
from rltrain_rsl_rl.run.library import RslRlLibrary
from rltrain_rsl_rl.run.runner import SessionRunner

ALONE = {"obs_groups.rnd_state": ["policy"]}
"""Without it, rsl_rl warns."""


class NativeRunner(OnPolicyRunner):
    """rsl_rl's runner on the default group, whatever its backend."""

    def _configure_multi_gpu(self):
        self.is_distributed = True
        self.gpu_world_size = dist.get_world_size()
        self.gpu_global_rank = self.gpu_local_rank = dist.get_rank()
        self.cfg["multi_gpu"] = {
            "global_rank": self.gpu_global_rank,
            "local_rank": self.gpu_local_rank,
            "world_size": self.gpu_world_size,
        }


class TimedEnv(PointEnv):
    step_dt = 0.02


def native(prepare=lambda runner: None, world=None, options=None):
    """Train two ranks with rsl_rl's own runner."""

    def on_rank(group):
        torch.manual_seed(group.rank)
        env = RslRlEnv(CountedEnv(TimedEnv(), seed=group.rank), "cpu")
        agent = small_agent(schedule="adaptive", desired_kl=0.01)
        for key, value in (options or {}).items():
            set_dotted(agent, key, value)
        runner = NativeRunner(env, agent)
        prepared = prepare(runner)
        runner.learn(2)
        models = {"actor": runner.alg.actor, "critic": runner.alg.critic}
        state = RankRun(None, models, ()).state
        return SimpleNamespace(state=state, runner=runner, prepared=prepared)

    return (world or FakeWorld(2, torch=True)).run(on_rank)


def advantages(runs):
    return [run.runner.alg.storage.advantages for run in runs]


def test_native_ranks_end_equal():
    """Not a fault: rsl_rl broadcasts, averages and pools over the fake group as over any other.

    Before 5.5 it did not pool.
    """
    left = [name for name in differing(native()) if POOLS or "normalizer" not in name]
    assert not left


@pytest.mark.skipif(POOLS, reason="rsl_rl pools its normalizers since 5.5")
def test_native_normalizers_diverge():
    assert "actor.obs_normalizer._mean" in differing(native())


def test_native_load_on_rank_0_only_diverges(tmp_path):
    path = str(tmp_path / "model.pt")
    native()[0].runner.save(path)

    def load(runner):
        if runner.gpu_global_rank == 0:
            runner.load(path)
        return runner.current_learning_iteration, runner.alg.learning_rate

    runs = native(load)
    (iteration, rate), (other_iteration, other_rate) = [run.prepared for run in runs]
    assert (iteration, other_iteration) == (1, 0)
    if Version("5.4.2") <= VERSION:  # Earlier versions used the initial learning rate.
        assert rate != other_rate
    # Weights were broadcast, but Adam's moments were not.
    assert any("mlp" in name for name in differing(runs))


@pytest.mark.slow
def test_adapted_load_is_made_on_every_rank(train_ranks):
    first = train_ranks(FakeWorld(2))
    runs = train_ranks(FakeWorld(2), checkpoint=first[0].result.checkpoint, max_iterations=4)
    # The run itself compares the learning rates when it ends.
    assert not differing(runs)
    assert [run.result.iterations for run in runs] == [2, 2]
    assert runs[0].result.checkpoint.endswith("model_3.pt")


def test_native_advantages_are_standardized_within_each_rank():
    each = advantages(native())
    assert not torch.equal(*each)
    for own in each:
        assert (float(own.mean()), float(own.std())) == pytest.approx((0, 1), abs=1e-4)


def test_adapted_advantages_are_standardized_over_all_ranks(tmp_path):
    def on_rank(group):
        session = LocalSession(tmp_path, world=group.world, group=group, seed=group.rank)
        runner = SessionRunner(RslRlEnv(session.env, "cpu"), small_agent(), session)
        runner.connect()
        runner.learn(2)
        return SimpleNamespace(runner=runner)

    each = advantages(FakeWorld(2, torch=True).run(on_rank))
    assert all(abs(float(own.mean())) > 1e-3 for own in each)
    both = torch.cat(each)
    assert (float(both.mean()), float(both.std())) == pytest.approx((0, 1), abs=1e-4)


@pools
def test_native_rnd_waits_three_times_in_every_step():
    def collectives(steps):
        world = FakeWorld(2, torch=True)
        native(world=world, options={**CURIOUS, **ALONE, "num_steps_per_env": steps})
        return len(world.trace)

    # Two iterations; the adapter makes one collective in each, whatever the number of steps.
    assert collectives(16) - collectives(8) == 2 * 3 * 8


def test_native_learning_rates_take_two_collectives_per_mini_batch():
    def collectives(schedule):
        world = FakeWorld(2, torch=True)
        native(world=world, options={"algorithm.schedule": schedule})
        return len(world.trace)

    assert collectives("adaptive") - collectives("fixed") == 2 * 2 * 2 * 2


def test_an_adapted_run_of_one_process_trains_inside_another_group(tmp_path):
    def on_rank(group):
        if group.rank:
            return None
        session = LocalSession(tmp_path)
        RslRlLibrary().rltrain_train(session)
        return list(session.iterations())

    assert FakeWorld(2, torch=True).run(on_rank) == [[1, 2, 3], None]
