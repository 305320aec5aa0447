"""A session that resumes from a checkpoint."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path

import numpy as np
import pytest
import stub_parts
from helpers import run_ranks
from made_up_sessions import session_of
from messages import check_said, says

from rltrain.data import pack_state, unpack_state
from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.records import RunStarted, Scalars
from rltrain.storage.checkpoint import INDEX, Checkpoint, write_state
from rltrain.storage.resume import circumstances
from rltrain.testing import make_config
from rltrain.types import World


class SavedEnv(stub_parts.StubEnv):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.generator = np.random.default_rng(seed)
        self.place = self.generator.random((self.num_envs, 1))
        return self.place.copy(), {}

    def step(self, actions):
        _, rewards, terminations, truncations, info = super().step(actions)
        self.place = self.place + self.generator.random((self.num_envs, 1))
        return self.place.copy(), rewards, terminations, truncations, info

    def get_state(self):
        return {
            "place": self.place.copy(),
            "length": self.length.copy(),
            "generator": self.generator.bit_generator.state,
        }

    def set_state(self, state):
        self.place, self.length = state["place"].copy(), state["length"].copy()
        self.generator.bit_generator.state = state["generator"]


class StagedEnv(stub_parts.StubEnv):
    """Cannot save its state, but how often it was stepped, and who it was: the first to step."""

    steps, first = 0, None

    def step(self, actions):
        self.steps += 1
        self.first = self.first or self.seeds[0]
        return super().step(actions)

    def get_curricula(self):
        return {"steps": self.steps, "first": np.array([self.first])}

    def set_curricula(self, state):
        self.steps, self.first = state["steps"], int(state["first"][0])


class Parts:
    """Suite and writer of one rank."""

    def __init__(self, notes, env_class):
        self.notes, self.env_class = notes, env_class

    @hookimpl
    def rltrain_make_env(self, session):
        self.made = self.env_class(session.config.num_envs)
        return self.made

    @hookimpl
    def rltrain_write(self, record):
        if isinstance(record, RunStarted):
            self.notes["message"] = record.resumed


def learn(notes, session):
    """Note random numbers and observations, iteration by iteration."""
    rank = session.world.rank
    own = notes.setdefault(rank, [])
    done = int(session.checkpoint.read_text()) if session.checkpoint else 0
    notes.setdefault("states", {})[rank] = session.rank_state
    left = session.iterations_left(session.config.max_iterations, done)
    session.seed("learner")
    observations, _ = session.env.reset()
    for iteration in range(done + 1, done + left + 1):
        for _ in range(3):
            drawn = random.random(), np.random.rand()
            observations, *_ = session.env.step(np.zeros((session.env.num_envs, 1)))
        record = session.record(Scalars(iteration, {}))
        metrics = (iteration, record.frames, record.episode_return, record.episode_length)
        own.append((*drawn, observations.tolist(), *metrics))
        save = functools.partial(Path.write_text, data=str(iteration))
        state = f"rank {rank} at {iteration}"
        session.save_checkpoint(f"{iteration}.txt", save, iteration, rank_state=state)


@pytest.fixture
def train(stub, tmp_path):
    def start(iterations, checkpoint=None, world_size=2, env_class=SavedEnv, **options):
        notes = {"suites": {}}
        where = {"library": "mine", "log_root": str(tmp_path / "logs"), "checkpoint": checkpoint}

        def one(group):
            notes["suites"][group.rank] = suite = Parts(notes, env_class)
            body = functools.partial(learn, notes)
            given = {**where, "max_iterations": iterations, **options}
            return session_of(group, body, {"suite": suite}, **given).run()

        results = run_ranks(world_size, one)
        failed = [result for result in results if isinstance(result, BaseException)]
        if failed:
            raise failed[0]
        return notes, results[0]

    return start


def saved(result, iteration):
    return f"{result.run_dir}/checkpoints/{iteration}.txt"


def test_ranks_that_start_again_continue_in_the_same_folder(train):
    whole, _ = train(6)
    failed, result = train(4)
    manifest = Path(result.run_dir, "manifest.json").read_bytes()
    again, restarted = train(6, saved(result, 2), run_dir=result.run_dir, run_name="other")
    assert [*failed[1][:2], *again[1]] == whole[1]
    assert restarted.run_dir == result.run_dir
    assert Path(result.run_dir, "manifest.json").read_bytes() == manifest
    index = json.loads(Path(result.run_dir, INDEX).read_text())
    assert [each["name"] for each in index] == [f"{iteration}.txt" for iteration in range(1, 7)]


def test_a_resumed_run_continues_as_if_it_had_never_stopped(train):
    whole, result = train(6)
    again, resumed = train(6, saved(result, 2))
    for rank in (0, 1):
        assert again[rank] == whole[rank][2:]
    assert whole[0] != whole[1]
    assert (resumed.iterations, resumed.frames) == (4, result.frames)
    check_said(again["message"])
    assert whole["message"] == ""
    assert again["states"] == {0: "rank 0 at 2", 1: "rank 1 at 2"}


@pytest.mark.parametrize(
    "changed",
    [
        {"world_size": 1},
        {"num_envs": 4},
        {"seed": 7},
        {"env": {"mass": 2}},
        {"env_class": stub_parts.StubEnv},
    ],
)
def test_changed_parts_are_reported_and_start_fresh(train, changed):
    _, result = train(2, env_class=changed.get("env_class", SavedEnv))
    notes, resumed = train(3, saved(result, 2), **changed)
    check_said(notes["message"])
    (metrics,) = notes[0]
    assert metrics[3] == 3
    assert resumed.frames > result.frames
    fresh, _ = train(1, **changed)
    assert metrics[:2] != fresh[0][0][:2], "the random numbers of the beginning came again"


def wrong_states_of_a_rank():
    """Return what may stand in a rank's place, by what is wrong with it."""
    whole = {"plugins": {}, "env": None, "library": None}
    numbers = random.getstate(), np.random.get_state()
    beyond = list(numbers[1])
    beyond[2] = 10**9
    env = {"env": {}, "observations": None, "episodes": {}}
    generators = {"random": numbers[0], "numpy": numbers[1]}
    return {
        "no mapping": 3,
        "an empty one": {},
        "a part is missing": {"plugins": {}, "env": None},
        "no plugins": {**whole, "env": env, "plugins": 3},
        "an environment's state": {**whole, "env": 3},
        "its parts": {**whole, "env": env},
        "its generator": {**whole, "env": {**env, "env": {"place": 1, "length": 2}}},
        "python's generator": {**whole, "plugins": {"core": {**generators, "random": "x"}}},
        "numpy's generator": {**whole, "plugins": {"core": {**generators, "numpy": tuple(beyond)}}},
    }


@pytest.mark.parametrize("wrong", wrong_states_of_a_rank().items(), ids=lambda item: item[0])
def test_wrong_contents_of_a_ranks_state_are_refused_in_one_line(train, wrong):
    name, state = wrong
    _, result = train(2)
    (path,) = Path(result.run_dir, "checkpoints", "ranks").glob("2.txt.*")
    found = Checkpoint(saved(result, 2))
    if "generator" in name and name != "its generator":
        good = unpack_state(found.part(0), "cpu", {})
        (plugin,) = (key for key, value in good["plugins"].items() if "numpy" in value)
        state = {**good, "plugins": {plugin: state["plugins"]["core"]}}
    write_state(path, found.state, [pack_state(state, {})] * 2)
    with says(UsageError) as refused:
        train(3, saved(result, 2))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "changed", [{}, {"world_size": 3}, {"world_size": 1, "num_envs": 5}, {"task": "Another-v0"}]
)
def test_curricula_continue_also_on_other_ranks(train, changed):
    before, result = train(2, env_class=StagedEnv)
    notes, _ = train(3, saved(result, 2), env_class=StagedEnv, **changed)
    check_said(notes["message"])
    first = [before["suites"][rank].made.first for rank in (0, 1)]
    assert first[0] != first[1]
    for rank, suite in notes["suites"].items():
        assert suite.made.steps == (3 if "task" in changed else 9)
        assert ("task" in changed) != (suite.made.first == first[rank % 2])


def test_a_checkpoint_without_state_can_be_resumed(train, tmp_path):
    path = tmp_path / "5.txt"
    path.write_text("5")
    notes, result = train(6, str(path))
    check_said(notes["message"])
    assert result.iterations == 1


def test_a_checkpoint_that_a_rank_cannot_see_or_of_a_finished_run_is_refused(train, tmp_path):
    with pytest.raises(UsageError, match=r"rank \d on .* cannot see this file"):
        train(2, str(tmp_path / "elsewhere.txt"))
    _, result = train(2)
    with says(UsageError):
        train(2, saved(result, 2))


def test_a_drawn_seed_is_kept(train):
    whole, result = train(3, seed=-1)
    again, _ = train(3, saved(result, 1), seed=-1)
    assert again[0] == whole[0][1:]


def test_state_saved_on_a_gpu_fits_any_gpu_but_not_the_cpu():
    def of(device):
        return circumstances(make_config(), World(device=device))

    assert of("cuda:0") == of("cuda:1")
    assert of("cuda:0") != of("cpu")
