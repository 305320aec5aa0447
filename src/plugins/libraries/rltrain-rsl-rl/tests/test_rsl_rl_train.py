"""Short trainings: as rsl_rl's own, on one rank and on ranks of a fake world."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest
import torch
from messages import says
from rsl_rl.runners import DistillationRunner, OnPolicyRunner
from rsl_rl_stubs import (
    CURIOUS,
    POOLS,
    LocalSession,
    PointEnv,
    mirrored,
    recurrent,
    small_agent,
)

from rltrain import hookimpl
from rltrain.errors import UsageError
from rltrain.metrics.environment import CountedEnv
from rltrain.options import get_dotted, set_dotted
from rltrain.records import Scalars
from rltrain.testing import FakeWorld, differing
from rltrain.types import TaskInfo
from rltrain_gymnasium.batched import make_batched
from rltrain_rsl_rl.declare.options import default_agent
from rltrain_rsl_rl.run.env import RslRlEnv
from rltrain_rsl_rl.run.library import RslRlLibrary
from rltrain_rsl_rl.run.rollouts import standardize_over_ranks
from rltrain_rsl_rl.run.runner import SessionRunner
from rltrain_rsl_rl.run.upstream import rnd_optimizer


def train(session: LocalSession):
    return RslRlLibrary().rltrain_train(session)


def test_each_iteration_is_recorded(tmp_path, capsys):
    session = LocalSession(tmp_path)
    assert train(session).iterations == 3
    scalars = [item for item in session.records if isinstance(item, Scalars)]
    assert [(item.iteration, item.iterations) for item in scalars] == [(1, 3), (2, 3), (3, 3)]
    values = scalars[-1].values
    assert {"Loss/value", "Loss/surrogate", "Loss/learning_rate", "Policy/mean_std"} <= set(values)
    assert values["Episode/distance"] == 1.5
    assert scalars[0].values["Episode/later"] > 2.0  # The first step has not logged it.
    assert all(type(value) is float for value in values.values())
    assert {"time/rollout", "time/update"} <= set(values)
    assert not [name for name in values if name.startswith(("Train/", "Perf/"))]
    assert "Learning iteration" not in capsys.readouterr().out


def test_the_session_is_called_in_order_and_before_the_first_record(tmp_path):
    session = LocalSession(tmp_path)
    train(session)
    assert session.calls == [
        "wrap actor",
        "wrap critic",
        "gradient_sync",
        "watch optimizer",
        "seed learner",
    ]
    wanted = [p for model in session.models.values() for p in model.parameters()]
    assert [id(p) for p in session.parameters] == [id(p) for p in wanted]


def test_a_missing_number_of_iterations_is_reported(tmp_path):
    agent = small_agent()
    del agent["max_iterations"]
    with says(UsageError):
        train(LocalSession(tmp_path, agent))


def test_the_options_of_the_run_are_not_changed(tmp_path):
    agent = small_agent()
    before = copy.deepcopy(agent)
    train(LocalSession(tmp_path, agent))
    assert agent == before


def test_only_checkpoints_are_written_and_each_once(tmp_path):
    session = LocalSession(tmp_path)
    train(session)
    # save_interval is 2, and the last iteration has index 2.
    assert session.saved() == [("model_0.pt", 1), ("model_2.pt", 3)]
    files = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert files == ["model_0.pt", "model_2.pt"]


def test_rsl_rls_own_runner_loads_the_checkpoint(tmp_path):
    session = LocalSession(tmp_path)
    train(session)
    stock = OnPolicyRunner(RslRlEnv(PointEnv(), "cpu"), small_agent())
    stock.load(str(tmp_path / "checkpoints/model_2.pt"))
    assert stock.current_learning_iteration == 2
    trained = session.models["actor"].state_dict()
    loaded = stock.alg.get_policy().state_dict()
    assert all(torch.equal(loaded[name], trained[name]) for name in trained)


@pytest.mark.parametrize("content", [{"model": 1}, None])
def test_a_checkpoint_that_does_not_fit_is_a_usage_error(tmp_path, content):
    path = tmp_path / "wrong.pt"
    path.write_text("no checkpoint") if content is None else torch.save(content, path)
    reason = "does not fit this run" if content is not None else "it cannot be read"
    with pytest.raises(UsageError, match=rf"wrong\.pt: {reason}"):
        train(LocalSession(tmp_path, checkpoint=path))


# Ranks of a fake world

ADAPTIVE = {
    "num_steps_per_env": 16,
    "algorithm.num_learning_epochs": 2,
    "algorithm.num_mini_batches": 2,
    "algorithm.schedule": "adaptive",
    "algorithm.desired_kl": 0.01,
}


class StrayVariables:
    """Sets wrong values for the variables that rsl_rl reads its rank from."""

    @hookimpl(wrapper=True)
    def rltrain_init_distributed(self):
        group = yield
        os.environ.update(WORLD_SIZE="5", RANK="3", LOCAL_RANK="3")
        return group


def test_only_the_session_determines_a_ranks_place(train_ranks):
    runs = train_ranks(FakeWorld(2))
    assert not differing([*runs, *train_ranks(FakeWorld(2), observers=[StrayVariables])])


def test_advantages_are_standardized_over_all_ranks():
    x = torch.arange(6.0)
    parts = FakeWorld(2).run(lambda group: standardize_over_ranks(group, x.chunk(2)[group.rank]))
    assert torch.allclose(torch.cat(parts), (x - x.mean()) / (x.std() + 1e-8))


def test_rsl_rl_calls_no_collective_by_itself(train_ranks):
    world = FakeWorld(2)
    train_ranks(world, agent=ADAPTIVE)
    assert not [item for item in world.trace if "/rsl_rl/" in item.callers[0]]


def test_normalizing_images_is_refused(train_ranks):
    task = "rltrain/CartPoleContinuousCamera-v1"
    options = {**ADAPTIVE, "actor.obs_normalization": True}
    with says(UsageError):
        train_ranks(FakeWorld(2), task=task, agent=options)


@pytest.mark.slow
def test_lengths_are_random_at_the_start_and_not_when_it_resumes(train_ranks):
    def train(**options):
        agent = {**ADAPTIVE, **CURIOUS, "init_at_random_ep_len": True, "save_interval": 100}
        env = {"max_episode_length": 12}
        return train_ranks(FakeWorld(2), agent=agent, env=env, **options)[0].result

    whole, first = train(max_iterations=4), train(max_iterations=2)
    resumed = train(max_iterations=4, checkpoint=first.checkpoint)
    assert whole.frames == resumed.frames == 4 * 16 * 8 * 2
    assert whole.episode_return == resumed.episode_return
    assert Path(whole.checkpoint).read_bytes() == Path(resumed.checkpoint).read_bytes()


@pytest.mark.slow
def test_a_run_resumes_on_another_number_of_ranks(train_ranks):
    options = {**ADAPTIVE, **recurrent("lstm"), **CURIOUS}
    first = train_ranks(FakeWorld(2), agent=options, env={"max_episode_length": 12})
    runs = train_ranks(
        FakeWorld(4),
        agent=options,
        env={"max_episode_length": 12},
        max_iterations=3,
        checkpoint=first[0].result.checkpoint,
    )
    assert not differing(runs)
    assert [run.result.iterations for run in runs] == [1] * 4
    # State that does not belong to one rank is resumed anyway.
    saved = torch.load(runs[0].result.checkpoint, weights_only=False)
    assert saved["iter"] == 2
    assert saved["infos"] == {"rltrain": {"rnd_update_counter": 3 * 16}}
    count = saved["actor_state_dict"]["obs_normalizer.count"]
    assert count == (2 * 2 + 1 * 4) * 16 * 8


def test_an_adapted_run_of_one_process_trains_inside_another_group(tmp_path):
    def on_rank(group):
        if group.rank:
            return None
        session = LocalSession(tmp_path)
        RslRlLibrary().rltrain_train(session)
        return list(session.iterations())

    assert FakeWorld(2, torch=True).run(on_rank) == [[1, 2, 3], None]


SYMMETRY = {
    "data_augmentation_func": mirrored,
    "use_data_augmentation": True,
    "use_mirror_loss": True,
    "mirror_loss_coeff": 0.5,
}
NORMALIZES = (
    "actor.obs_normalization",
    "critic.obs_normalization",
    "algorithm.rnd_cfg.state_normalization",
)
CASES = {
    "adaptive learning rate": {"algorithm.schedule": "adaptive", "algorithm.desired_kl": 0.01},
    "advantages by mini-batch": {"algorithm.normalize_advantage_per_mini_batch": True},
    "recurrent": recurrent("lstm"),
    "RND": CURIOUS,
    "RND, recurrent": {**CURIOUS, **recurrent("gru")},
    "symmetry": {
        "algorithm.symmetry_cfg": SYMMETRY,
        "algorithm.schedule": "adaptive",
        "algorithm.desired_kl": 0.01,
    },
}


class TimedEnv(PointEnv):
    step_dt = 0.02


def learned(runner) -> dict[str, torch.Tensor]:
    """Return every tensor of models and optimizers, by name."""
    algorithm = runner.alg
    models = {"actor": algorithm.actor, "critic": algorithm.critic}
    optimizers = {"optimizer": algorithm.optimizer}
    if algorithm.rnd:
        models["rnd"], optimizers["rnd optimizer"] = algorithm.rnd, rnd_optimizer(algorithm)
    found = {
        f"{role}.{name}": tensor
        for role, model in models.items()
        for name, tensor in model.state_dict().items()
    }
    for role, optimizer in optimizers.items():
        for index, state in optimizer.state_dict()["state"].items():
            found.update({f"{role}.{index}.{name}": value for name, value in state.items()})
    return {**found, "learning rate": torch.tensor(algorithm.learning_rate)}


@pytest.mark.parametrize("distributed", [False, True])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_one_rank_learns_what_rsl_rl_learns(tmp_path, options, distributed):
    agent = small_agent()
    agent["obs_groups"]["rnd_state"] = ["policy"]
    for key, value in options.items():
        set_dotted(agent, key, copy.deepcopy(value))
    if not POOLS:  # The adapter's normalizers are updated when those of 5.5 are.
        for key in NORMALIZES:
            if get_dotted(agent, key, None):
                set_dotted(agent, key, False)

    def stock(group):
        torch.manual_seed(3)
        runner = OnPolicyRunner(RslRlEnv(CountedEnv(TimedEnv(), 0), "cpu"), copy.deepcopy(agent))
        runner.learn(3)
        return learned(runner)

    def adapted(group):
        torch.manual_seed(3)
        run = {"distributed": True, "nproc_per_node": 1} if distributed else {}
        session = LocalSession(tmp_path, agent, TimedEnv(), group=group, **run)
        runner = SessionRunner(RslRlEnv(session.env, "cpu"), copy.deepcopy(agent), session)
        runner.connect()
        runner.learn(3)
        return learned(runner)

    # Fake worlds of one rank restore the generators, so both runs start equal.
    [expected], [state] = FakeWorld(1).run(stock), FakeWorld(1).run(adapted)
    assert list(state) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-5, msg=name)


TASK = "rltrain/CartPoleContinuous-v1"
TAUGHT = {"num_steps_per_env": 16, "save_interval": 100}
EPISODES = {"max_episode_length": 12}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """Return the path of a PPO checkpoint."""
    [run] = FakeWorld(1).train(
        library="rsl_rl",
        task=TASK,
        agent=TAUGHT,
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
            agent={**TAUGHT, **(agent or {})},
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


def test_rsl_rls_own_runner_loads_a_student(distil, teacher):
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
