"""Distillation on the ranks of a fake world: from a teacher that PPO trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rsl_rl.runners import DistillationRunner
from rsl_rl_stubs import recurrent

from rltrain.errors import UsageError
from rltrain.testing import FakeWorld, differing
from rltrain.types import TaskInfo
from rltrain_gymnasium.batched import make_batched
from rltrain_rsl_rl.declare.options import default_agent
from rltrain_rsl_rl.run.env import RslRlEnv

TASK = "rltrain/CartPoleContinuous-v1"
SHORT = {"num_steps_per_env": 16, "save_interval": 100}
EPISODES = {"max_episode_length": 12}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """Return the path of a PPO checkpoint."""
    [run] = FakeWorld(1).train(
        library="rsl_rl",
        task=TASK,
        agent=SHORT,
        env=EPISODES,
        max_iterations=2,
        log_root=str(tmp_path_factory.mktemp("teacher")),
    )
    return run.result.checkpoint


@pytest.fixture
def distil(train_ranks):
    def run(ranks, checkpoint, agent=None, **options):
        return train_ranks(
            FakeWorld(ranks),
            algorithm="distillation",
            task=TASK,
            agent={**SHORT, **(agent or {})},
            env=EPISODES,
            checkpoint=checkpoint,
            **options,
        )

    return run


def loaded(path):
    return torch.load(path, weights_only=False)


def test_ranks_distill_the_actor_of_a_ppo_run(distil, teacher):
    runs = distil(2, teacher)
    assert not differing(runs)
    # A new run: iterations and frames of the teacher's run do not count.
    assert [run.result.iterations for run in runs] == [2, 2]
    assert runs[0].result.frames == 2 * 16 * 8 * 2
    actor, saved = loaded(teacher)["actor_state_dict"], loaded(runs[0].result.checkpoint)
    assert all(torch.equal(saved["teacher_state_dict"][name], actor[name]) for name in actor)
    assert saved["student_state_dict"]["obs_normalizer.count"] == 2 * 16 * 8 * 2
    assert saved["iter"] == 1


@pytest.mark.slow
def test_the_student_gets_closer_to_the_teacher(distil, teacher, scalars):
    runs = distil(2, teacher, observers=[scalars], max_iterations=20)
    losses = [values["Loss/behavior"] for values in runs[0].observers[0].values]
    assert len(losses) == 20
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.slow
def test_a_resumed_distillation_ends_with_the_same_bytes(distil, teacher):
    options = recurrent("lstm", "student")
    whole = distil(2, teacher, options, max_iterations=4)
    first = distil(2, teacher, options, max_iterations=2)
    resumed = distil(2, first[0].result.checkpoint, options, max_iterations=4)
    assert [run.result.iterations for run in resumed] == [2, 2]
    for one, other in zip(whole, resumed, strict=True):
        assert not differing([one, other])
    paths = [Path(runs[0].result.checkpoint) for runs in (whole, resumed)]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_rsl_rls_own_runner_loads_the_checkpoint(distil, teacher):
    [run] = distil(1, teacher)
    env = RslRlEnv(make_batched(8, TASK, "torch"), "cpu")
    stock = DistillationRunner(env, default_agent(TaskInfo(TASK, "continuous"), "distillation"))
    stock.load(run.result.checkpoint)
    assert stock.alg.teacher_loaded
    assert stock.current_learning_iteration == 1
    trained, found = run.models["student"].state_dict(), stock.alg.get_policy().state_dict()
    assert all(torch.equal(found[name], trained[name]) for name in trained)


def test_a_teacher_of_another_shape_is_a_usage_error(distil, teacher):
    with pytest.raises(UsageError, match=r"does not fit this run .*mlp.4.weight.* And 4 more"):
        distil(2, teacher, {"teacher.hidden_dims": [8]})
