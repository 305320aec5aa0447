"""One rank's run, from start to shutdown, with stubs for every plugin."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import stub_parts
from gymnasium.vector import AutoresetMode
from helpers import run_ranks
from made_up_arrays import MadeUpArrays, tensor
from made_up_sessions import session_of
from messages import check_said, says

from rltrain import train
from rltrain.errors import DivergenceError, NonFiniteError, PluginError, UsageError
from rltrain.hookspecs import hookimpl
from rltrain.metrics.environment import CountedEnv
from rltrain.plugins.manager import RunPlugins
from rltrain.ranks.folders import Notes
from rltrain.ranks.signals import ask_to_end
from rltrain.records import CheckpointSaved, RunEnded, RunStarted, Scalars
from rltrain.run.group import SingleProcess
from rltrain.run.session import RankSession
from rltrain.session import Session
from rltrain.storage.checkpoint import Checkpoint
from rltrain.testing import make_config
from rltrain.types import World


@pytest.fixture
def run(stub):
    def start(**options):
        return train(**{**stub.OPTIONS, **options})

    return start


@pytest.fixture
def ranks(stub, tmp_path):
    """Run sessions of several ranks, in threads; return results, or raised errors, by rank."""

    def start(body, world_size=2, configs=None, **options):
        def one(group):
            more = configs[group.rank] if configs else {}
            plugins = {} if group.rank else {"writer": stub_parts.NotesWriter()}
            where = {"library": "mine", "log_root": str(tmp_path / "logs")}
            return session_of(group, body, plugins, **{**where, **options, **more}).run()

        return run_ranks(world_size, one)

    return start


def steps(session, number):
    if not hasattr(session.env.unwrapped, "length"):
        session.env.reset()
    for _ in range(number):
        session.env.step(np.zeros((session.env.num_envs, 1)))


def test_hooks_are_called_in_the_order_of_the_run(run, stub):
    run(max_iterations=1, observers=["watcher"])
    assert [
        *("seed environment", "make_env", "seed model", "write RunStarted", "before train"),
        *("train", "wrap_model policy", "gradient_sync", "seed learner", "write Scalars"),
        *("write CheckpointSaved", "after train", "write RunEnded"),
        *(("shutdown", None), "env closed"),
    ] == stub.EVENTS


def test_a_rank_that_joins_makes_its_group_first_and_sees_only_the_chosen_gpus(
    run, stub, monkeypatch
):
    values = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "STUB_GPUS": "2"}
    for name, value in {**values, "CUDA_VISIBLE_DEVICES": "4,5"}.items():
        monkeypatch.setenv(name, value)
    run(distributed=True, backend="stub_gpu", gpu_ids=1)
    assert stub.EVENTS[0] == "init_distributed"
    assert stub.RECORDS[0].world.device == "cuda:0"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"


def test_the_result_holds_the_outcome_of_the_run(run):
    # 2 environments of lengths 2 and 3, 3 iterations of 4 steps: 6 + 4 episodes.
    result = run()
    assert (result.iterations, result.frames) == (3, 24)
    assert result.episode_return == result.episode_length == pytest.approx((6 * 2 + 4 * 3) / 10)
    assert not result.solved
    assert Path(result.checkpoint).read_text() == "stub 3"
    assert Path(result.checkpoint).parent == Path(result.run_dir) / "checkpoints"


def test_records_cover_the_whole_run(run, stub):
    result = run(max_iterations=2, seed=5)
    started, first, saved, second, _, ended = stub.RECORDS
    assert isinstance(started, RunStarted)
    assert (started.run_dir, started.seed, started.num_envs) == (result.run_dir, 5, 2)
    assert isinstance(first, Scalars)
    assert (first.values, first.frames, len(first.fps)) == ({"loss": 1.0}, 8, 1)
    assert saved == CheckpointSaved(result.checkpoint, 1)
    assert (second.values, second.frames) == ({"loss": 0.5}, 16)
    assert second.seconds >= first.seconds >= 0
    assert isinstance(ended, RunEnded)
    assert (ended.iterations, ended.frames, ended.error) == (2, 16, None)
    assert ended.episode_return == second.episode_return


def test_every_writer_gets_every_record(run, stub):
    run(writers=["notes", "more_notes"], max_iterations=1)
    written = [event for event in stub.EVENTS if str(event).startswith("write")]
    for kind in ("RunStarted", "Scalars", "CheckpointSaved", "RunEnded"):
        assert f"write {kind}" in written
        assert f"write more {kind}" in written


def test_an_error_in_training_propagates_unchanged_and_is_recorded(run, stub):
    with pytest.raises(ValueError, match=r"^as asked$") as caught:
        run(agent={"fail": "ValueError"})
    # A single process has no peer to lose: its environment is closed anyway.
    assert stub.EVENTS[-3:] == ["write RunEnded", ("shutdown", caught.value), "env closed"]
    assert stub.RECORDS[-1].error == "ValueError: as asked"
    with pytest.raises(KeyboardInterrupt):
        run(agent={"fail": "KeyboardInterrupt"})
    assert isinstance(stub.EVENTS[-2][1], KeyboardInterrupt)


def test_an_error_before_training_shuts_down_without_a_start(run, stub, monkeypatch):
    monkeypatch.setattr(stub_parts.StubSuite, "env_class", staticmethod(lambda num_envs: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        run()
    assert [type(record) for record in stub.RECORDS] == [RunEnded]
    assert isinstance(stub.EVENTS[-1][1], ZeroDivisionError)


@pytest.mark.parametrize(
    ("more", "metadata"),
    [(1, stub_parts.StubEnv.metadata), (0, {"autoreset_mode": AutoresetMode.NEXT_STEP}), (0, {})],
)
def test_an_environment_of_the_wrong_kind_is_refused(run, monkeypatch, more, metadata):
    monkeypatch.setattr(stub_parts.StubEnv, "metadata", metadata)
    made = staticmethod(lambda num_envs: stub_parts.StubEnv(num_envs + more))
    monkeypatch.setattr(stub_parts.StubSuite, "env_class", made)
    with says(PluginError):
        run()


def test_the_manifest_describes_the_run(run, site):
    site.install("broken-one", "", requires=("not a requirement at all",))  # Stops no run.
    result = run(seed=3, agent={"learn.steps": 2})
    manifest = json.loads((Path(result.run_dir) / "manifest.json").read_text())
    assert manifest["seed"] == 3
    assert [set(seeds) for seeds in manifest["seeds"]] == [
        {"rank", "model", "environment", "learner"}
    ]
    assert manifest["config"]["agent"]["learn"]["steps"] == 2
    assert manifest["config"]["num_envs"] == 2
    assert {"python", "rltrain", "rltrain-stub"} <= set(manifest["versions"])
    assert {"started", "command", "host", "folder", "world_size", "num_nodes"} <= set(manifest)


def test_a_drawn_seed_is_reported_and_differs_from_run_to_run(run, stub):
    seeds = set()
    for _ in range(3):
        stub.RECORDS.clear()
        result = run(seed=-1)
        seeds.add(stub.RECORDS[0].seed)
        assert stub.RECORDS[0].config["seed"] == stub.RECORDS[0].seed
        assert f"seed: {stub.RECORDS[0].seed}" in (Path(result.run_dir) / "config.yaml").read_text()
    assert len(seeds) == 3
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_ranks_agree_on_a_drawn_seed_and_a_folder(ranks):
    def body(session):
        seen[session.world.rank] = (session.config.seed, session.run_folder.path)
        groups.append(session.group)

    seen, groups = {}, []
    results = ranks(body, seed=-1)
    assert [group.closed for group in groups] == [1, 1]
    assert seen[0] == seen[1]
    assert seen[0][0] >= 0
    assert results[0].run_dir == results[1].run_dir == str(seen[0][1])


def test_the_first_reset_takes_the_ranks_seed_and_no_later_one(ranks):
    def body(session):
        session.env.reset()
        session.env.reset()
        session.env.reset(seed=9)
        seen[session.world.rank] = session.env.unwrapped.seeds, session.seeds.environment

    seen = {}
    ranks(body)
    for seeds, own in seen.values():
        assert seeds == [own, None, 9]
    assert seen[0][1] != seen[1][1]


def test_ranks_that_run_different_things_are_refused(ranks):
    for error in ranks(steps, configs=[{"agent": {"a": {"b": value}}} for value in (1, 2)]):
        assert isinstance(error, UsageError)
        check_said(str(error))


def test_a_folder_that_cannot_be_made_ends_every_rank(ranks, tmp_path):
    (tmp_path / "logs").write_text("in the way")
    errors = ranks(lambda session: None)
    assert all(isinstance(error, UsageError) for error in errors)
    assert "--log-root" in str(errors[1])


def test_scalars_and_episodes_are_merged_over_ranks(ranks, stub):
    # Environments end every 2 and 3 steps. Rank 0 does 6 steps and rank 1 does 12.
    def body(session):
        rank = session.world.rank
        steps(session, 6 * (rank + 1))
        values = {"loss": float(rank), "t (max)": rank, "t (min)": rank, "n (sum)": rank + 1}
        merged[rank] = session.record(Scalars(1, {**values, f"only {rank}": 5.0}))
        steps(session, 1)
        merged[rank + 2] = session.record(Scalars(2, {}))

    merged = {}
    results = ranks(body)
    for rank in (0, 1):
        means = {"loss": 0.5, "only 0": 5.0, "only 1": 5.0}
        assert merged[rank].values == {**means, "t (max)": 1.0, "t (min)": 0.0, "n (sum)": 3.0}
        assert merged[rank].frames == 2 * (6 + 12)
        assert len(merged[rank].fps) == 2
        # 3 + 2 episodes on rank 0, 6 + 4 on rank 1.
        assert merged[rank].episode_return == (3 * 2 + 2 * 3 + 6 * 2 + 4 * 3) / 15
        assert merged[rank].episode_length == merged[rank].episode_return
        assert merged[rank + 2].frames == 2 * 20
        assert merged[rank + 2].episode_return == merged[rank].episode_return
        assert results[rank].frames == 40
    assert stub.RECORDS[1] == merged[0]


@pytest.mark.slow
def test_a_rank_that_is_early_waits(ranks, stub):
    def body(session):
        for iteration in (1, 2):
            steps(session, 1)
            time.sleep(0.4 * (session.world.rank == 0))
            session.record(Scalars(iteration, {}))

    ranks(body)
    times = stub.RECORDS[2]  # Iteration 1 was over for rank 1 before it waited.
    assert times.waiting[1] > 0.2 > times.waiting[0] == 0.0
    assert times.update[0] > 0.2
    assert times.update[1] < 0.2
    assert all(0.0 < seconds < 0.2 for seconds in times.rollout)
    assert 0.2 < times.waiting_share < 0.9


def test_only_rank_0_writes(ranks, stub):
    def body(session):
        assert session.iteration == 0
        session.record(Scalars(1, {}))
        assert session.iteration == 1
        session.save_checkpoint("a.txt", lambda path: saved.append(path.write_text("a")), 1)

    saved = []
    results = ranks(body)
    kinds = [type(record).__name__ for record in stub.RECORDS]
    assert kinds == ["RunStarted", "Scalars", "CheckpointSaved", "RunEnded"]
    assert len(saved) == 1
    assert (bool(results[0].checkpoint), results[1].checkpoint) == (True, None)


def test_a_target_ends_every_rank_at_once(ranks, stub):
    # 100 episodes are needed: 5 in 6 steps of 2 environments on each of 2 ranks.
    def body(session):
        for iteration in range(1, 100):
            steps(session, 6)
            session.record(Scalars(iteration, {}))
            if session.should_stop:
                break

    results = ranks(body, target_return=2.4)
    assert [result.solved for result in results] == [True, True]
    assert [result.iterations for result in results] == [10, 10]
    assert stub.RECORDS[-1].solved
    assert not any(result.solved for result in ranks(body, target_return=2.41))


@pytest.mark.parametrize(("last", "done", "code"), [(9, 2, 75), (2, 2, 0)])
def test_a_request_to_one_rank_ends_all(ranks, stub, tmp_path, last, done, code):
    def body(session):
        if session.world.rank == 1:
            Notes(tmp_path).set_training()
            session.recorder.requests.read_from(tmp_path, has_launcher=False)
        for iteration in range(1, last + 1):
            if iteration == 2:
                ask_to_end(tmp_path, signal.SIGTERM, quiet=True)
            session.record(Scalars(iteration, {}, iterations=last))
            if session.should_stop:
                break

    results = ranks(body)
    assert [(result.iterations, result.exit_code) for result in results] == [(done, code)] * 2
    assert stub.RECORDS[-1].asked is (code != 0)


EVERY = make_config().check_interval


@pytest.mark.parametrize(
    ("begin", "iterations", "since", "found"),
    [
        *((1, 3 * EVERY + 1, since, EVERY) for since in (2, EVERY)),
        (1, 3 * EVERY + 1, 1, 1),
        (1, 3 * EVERY + 1, EVERY + 1, 2 * EVERY),
        (1, 3 * EVERY + 1, 2 * EVERY + 1, 3 * EVERY),
        (1, 2, 2, 2),  # When training ends.
        (2 * EVERY + 2, 2 * EVERY + 3, 1, 2 * EVERY + 2),  # After a resumed run's first iteration.
    ],
)
def test_ranks_that_diverge_are_found_after_the_first_iteration_and_every_interval(
    ranks, begin, iterations, since, found
):
    def body(session):
        rank, now = session.world.rank, 0
        parts = {"same": 1, "weight": rank % 2, "bias": rank}
        session.watch("policy", lambda: parts if now >= since else {})
        for now in range(begin, iterations + 1):
            session.record(Scalars(now, {}))

    errors = ranks(body, world_size=3)
    for error in errors:
        assert isinstance(error, DivergenceError)
        assert f"at iteration {found}: policy.weight differs" in str(error)
        assert "on rank(s) 1 (rank 0: 0; rank 1: 1)" in str(error)


def test_a_rank_that_ends_before_the_others_is_reported(ranks):
    def body(session):
        for iteration in range(1, 4 - session.world.rank):
            session.record(Scalars(iteration, {}))

    for error in ranks(body):
        assert isinstance(error, DivergenceError)
        check_said(str(error))


def single(body, tmp_path, *more) -> Session:
    plugins = {f"more {number}": plugin for number, plugin in enumerate(more)}
    alone = SingleProcess("cpu")
    return session_of(alone, body, plugins, library="mine", log_root=str(tmp_path))


def test_a_checkpoint_that_fails_leaves_the_one_before_it(stub, tmp_path):
    def body(session):
        session.save_checkpoint("last.txt", lambda path: path.write_text("first"), 1)

        def save(path):
            path.write_text("sec")
            raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            session.save_checkpoint("last.txt", save, 2)
        (file,) = session.run_folder.checkpoints.glob("*.txt")
        assert (file.name, file.read_text()) == ("last.txt", "first")
        assert Checkpoint(file).state["iteration"] == 1

    assert single(body, tmp_path).run().checkpoint.endswith("last.txt")


def test_each_stream_seeds_the_generators_at_the_right_time(stub, tmp_path):
    def body(session):
        drawn["model"] = random.random(), np.random.rand()
        session.seed("learner")
        drawn["learner"] = random.random(), np.random.rand()

    drawn = {}
    single(body, tmp_path).run()
    again, drawn = drawn, {}
    single(body, tmp_path).run()
    assert drawn == again
    assert drawn["model"] != drawn["learner"]


def test_environments_show_what_a_suite_adds_and_a_reset_restarts_every_episode(stub, tmp_path):
    def body(session):
        assert session.env.max_episode_length == 4
        assert not hasattr(session.env, "no_such_thing")
        session.env.unwrapped.max_episode_length = 7
        assert session.env.max_episode_length == 7
        steps(session, 1)
        session.env.reset()
        steps(session, 2)
        assert session.record(Scalars(101, {})).episode_return == 2.0
        for iteration in (102, 103):  # It goes on after a loaded checkpoint.
            session.record(Scalars(iteration, {}))

    assert single(body, tmp_path).run().iterations == 3


class Shuts:
    def __init__(self, error=None):
        self.error, self.calls = error, 0

    @hookimpl
    def rltrain_shutdown(self, error):
        self.calls += 1
        if self.error:
            raise self.error


def test_a_shutdown_error_fails_a_good_run_after_everything_is_released(stub, tmp_path):
    other = Shuts()
    with pytest.raises(OSError, match="cannot close"):
        single(lambda session: None, tmp_path, Shuts(OSError("cannot close")), other).run()
    assert other.calls == 1
    assert stub.EVENTS[-1] == "env closed"
    # It does not hide an earlier error.
    with pytest.raises(ZeroDivisionError):
        single(lambda session: 1 / 0, tmp_path, Shuts(OSError("cannot close"))).run()


def test_a_launcher_that_does_not_launch_or_returns_nothing_names_itself(run, monkeypatch):
    with says(PluginError):
        run(distributed=True, nproc_per_node=2, launcher="without_launch")
    monkeypatch.setattr(stub_parts.StubLauncher, "launch", lambda self, config, work: None)
    with says(PluginError):
        run(distributed=True, nproc_per_node=2)


@pytest.mark.parametrize("what", ["observation space", "action space", "longest episode"])
def test_ranks_whose_tasks_differ_are_refused_alike(ranks, monkeypatch, what):
    made = itertools.count(1)

    def env(num_envs):
        env, number = stub_parts.StubEnv(num_envs), next(made)
        if what == "longest episode":
            env.max_episode_length = number
        else:
            space = gymnasium.spaces.Box(-number, number, (1,))
            setattr(env, f"single_{what.replace(' ', '_')}", space)
        return env

    monkeypatch.setattr(stub_parts.StubSuite, "env_class", staticmethod(env))
    first, second = ranks(lambda session: steps(session, 1))
    assert isinstance(first, UsageError)
    assert str(first) == str(second)
    check_said(str(first))


def breaks(session, rank=1, value=np.nan):
    """Let a rank's environments return a number that is not finite from now on."""
    env = session.env.unwrapped
    if session.world.rank == rank:
        reset, step = env.reset, env.step

        def broken(observations, *rest):
            observations[1] = value
            return observations, *rest

        env.reset = lambda **arguments: broken(*reset(**arguments))
        env.step = lambda actions: broken(*step(actions))


def test_nan_of_the_first_reset_ends_all_ranks_before_a_checkpoint(ranks, stub, tmp_path):
    def body(session):
        breaks(session)
        steps(session, 3)
        session.record(Scalars(1, {}))
        session.save_checkpoint("last.txt", lambda path: path.write_text(""), 1)

    first, second = ranks(body)
    assert isinstance(first, NonFiniteError)
    check_said(str(first))
    assert str(first) == str(second)
    assert stub.RECORDS[-1].error == f"NonFiniteError: {first}"
    assert not list(tmp_path.rglob("last.txt"))


def test_nan_in_gradients_is_named_by_the_model_that_has_the_parameter(ranks):
    def body(session):
        steps(session, 1)
        layer = {"weight": tensor([0.0]), "bias": tensor([0.0])}
        parameters = [*session.wrap_model(layer, "actor").values()]
        sync = session.gradient_sync(parameters)
        good, broken = tensor([1.0]), tensor([np.inf])
        bad = broken if session.world.rank else good
        with_extra = session.gradient_sync([*parameters, tensor(0.0)], extras=1)
        with_extra([good, good, tensor(np.inf)])
        sync([good, bad])
        sync = session.gradient_sync(parameters, may_overflow=True)
        sync([broken, bad])
        session.record(Scalars(1, {}))

    for error in ranks(body, framework="numpy", arrays={"numpy": MadeUpArrays()}):
        check_said(str(error))


def test_a_library_that_stumbles_over_nan_is_explained(ranks):
    def body(session):
        breaks(session, value=-np.inf)
        steps(session, 1)
        raise ValueError("Expected parameter loc to satisfy the constraint Real()")

    other, error = ranks(body)
    assert isinstance(error, NonFiniteError)
    check_said(str(error))
    assert isinstance(error.__cause__, ValueError)
    assert isinstance(other, ValueError), "it has found nothing"


def test_skip_goes_on_with_zeros_and_says_so_once(ranks, stub, capsys):
    def body(session):
        breaks(session)
        for iteration in (1, 2):
            steps(session, 1)
            assert np.isfinite(session.env.step(np.zeros((2, 1)))[0]).all()
            session.record(Scalars(iteration, {}))

    first, _ = ranks(body, on_nonfinite="skip")
    assert first.iterations == 2
    said = capsys.readouterr().out
    assert said.count("NaN or infinity in iteration 1: rank 1: observations, first") == 1
    check_said(said)
    assert stub.RECORDS[-2].values == {"nonfinite/observations": 5.0}


class Module:
    """A model as torch's are: its parameters stay the same objects."""

    def named_parameters(self, prefix):
        return [(name, vars(self).setdefault(name, np.zeros(2))) for name in ("weight", "bias")]


def parameters(model):
    return [parameter for _, parameter in model.named_parameters("")]


def records(session, number):
    steps(session, 1)
    for iteration in range(1, number + 1):
        session.record(Scalars(iteration, {}))


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("model", [Module(), {"weight": np.zeros(2), "bias": np.zeros(2)}])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_library_that_wraps_nothing_that_it_trains_is_named(ranks, world_size, model, wrapped):
    def body(session):
        if wrapped:
            session.wrap_model(model, "policy")
        trained = [*model.values()] if isinstance(model, dict) else parameters(model)
        session.gradient_sync([*trained, np.zeros(())], extras=1)
        records(session, 2)

    results = ranks(body, world_size)
    if wrapped or world_size == 1:
        assert [each.iterations for each in results] == [2] * world_size
    else:
        for each in results:
            assert isinstance(each, PluginError)
            check_said(str(each))


@pytest.mark.parametrize("recorded", [0, 1])
def test_ranks_that_share_nothing_end_with_an_error(ranks, recorded):
    def body(session):
        records(session, recorded)

    for each in ranks(body, learns_nothing=False):
        assert isinstance(each, PluginError)
        check_said(str(each))
    (alone,) = ranks(body, 1, learns_nothing=False)
    assert alone.iterations == recorded
    for each in ranks(body):
        assert each.iterations == recorded  # It says that it learns nothing.


def test_models_of_which_one_is_not_wrapped_are_named_in_the_first_iteration(ranks, stub):
    def body(session):
        policy, value = Module(), Module()
        session.wrap_model(policy, "policy")
        session.gradient_sync([*parameters(policy), *parameters(value)])
        records(session, 1)

    for each in ranks(body):
        check_said(str(each))
    for each in ranks(lambda session: session.gradient_sync([np.zeros(1)]) and None):
        check_said(str(each))  # It records nothing.
    assert not [record for record in stub.RECORDS if isinstance(record, Scalars)]


def test_a_number_that_is_trained_beside_models_need_not_be_wrapped(ranks):
    def body(session):
        policy = session.wrap_model(Module(), "policy")
        session.gradient_sync(parameters(policy))
        session.gradient_sync([np.zeros(1)])  # A temperature, say.
        records(session, 1)

    assert [each.iterations for each in ranks(body)] == [1, 1]


def test_numbers_that_a_plugin_adds_join_the_iterations_metrics(ranks, stub):
    def body(session):
        rank = session.world.rank
        steps(session, 1)
        for number in (1.0, 3.0):
            session.add_metric("added/mean", number + 10 * rank)
            session.add_metric("added/most (max)", number)
        if rank:
            session.add_metric("added/on rank 1", np.float32(7))
        session.record(Scalars(1, {"loss": 1.0}))
        session.record(Scalars(2, {"loss": 1.0}))
        return session.result()

    ranks(body)
    first, second = (x.values for x in stub.RECORDS if isinstance(x, Scalars))
    added = {"added/mean": 7.0, "added/most (max)": 2.0, "added/on rank 1": 7.0}
    assert first == {"loss": 1.0, **added}
    assert second == {"loss": 1.0}


def test_a_metric_that_is_added_and_no_number_is_named():
    session = RankSession(make_config(), World(), RunPlugins())
    with says(PluginError):
        session.add_metric("phase", "warm up")


FLOATS, ENDS = np.zeros(3), np.zeros(3, bool)


@pytest.mark.parametrize(
    "returned",
    [
        (FLOATS, FLOATS, ENDS, {}),
        None,
        (FLOATS, FLOATS.astype(int), ENDS, ENDS, {}),
        (FLOATS, FLOATS[:, None], ENDS, ENDS, {}),
        (FLOATS, [0.0] * 3, ENDS, ENDS, {}),
        (FLOATS, FLOATS, ENDS.astype(int), ENDS, {}),
        (FLOATS, FLOATS, ENDS, ENDS.any(), {}),
    ],
)
def test_a_first_step_that_cannot_be_counted_is_named(monkeypatch, returned):
    monkeypatch.setattr(stub_parts.StubEnv, "step", lambda self, actions: returned)
    env = CountedEnv(stub_parts.StubEnv(3), seed=0)
    env.reset()
    with says(PluginError):
        env.step(np.zeros((3, 1)))


def test_arrays_of_numpy_become_those_of_the_framework_and_return():
    session = RankSession(make_config(), World(), RunPlugins(), arrays={"torch": MadeUpArrays()})
    made = session.from_host(np.arange(3.0))
    assert session.arrays.owns(made)
    assert session.to_host(made).tolist() == [0.0, 1.0, 2.0]
    assert session.to_host([1, 2]).tolist() == [1, 2]
    of_numpy = RankSession(make_config(), World(), RunPlugins())
    assert of_numpy.from_host(np.arange(2)).tolist() == [0, 1]
