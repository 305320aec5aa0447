"""The suite: how it describes tasks, and how it converts Gymnasium's environments."""

from __future__ import annotations

import sys
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Space,
    Text,
    Tuple,
)
from messages import check_said, says

pytest.importorskip("jax")  # An optional framework.

import jax.numpy as jnp

from rltrain.errors import UsageError
from rltrain.metrics.environment import CountedEnv
from rltrain.options import DEFAULT_TASK
from rltrain_devkit import SuiteConformance
from rltrain_gymnasium.batched import BatchedEnv
from rltrain_gymnasium.plugin import describe, rltrain_provides, tasks


class Probe(gymnasium.Env):
    """Ends after a few steps, and records its actions. The test chooses its spaces."""

    metadata = {"render_modes": []}

    def __init__(self, observation, action, length=3):
        self.observation_space, self.action_space, self.length = observation, action, length
        self.actions, self.count = [], 0

    def observe(self):
        if isinstance(self.observation_space, Box):
            space = self.observation_space
            return np.full(space.shape, self.count, space.dtype)
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.actions.append(action)
        self.count += 1
        return self.observe(), 0.1 * self.count, self.count == self.length, False, {}


VECTOR = Box(-1e308, 1e308, (3,), np.float64)


@pytest.fixture
def probe():
    """Register a Probe with the given spaces and return its id."""
    names = []

    def register(observation=VECTOR, action=None, **more):
        name = f"Probe{len(names)}-v0"
        kwargs = {"observation": observation, "action": action or Discrete(2)}
        gymnasium.register(name, **{"entry_point": Probe, "kwargs": kwargs, **more})
        names.append(name)
        return name

    yield register
    for name in names:
        del gymnasium.registry[name]


def make(task, num_envs=3, framework="torch", **env):
    kit = SuiteConformance()
    kit.suite, kit.task, kit.num_envs, kit.framework = "gymnasium", task, num_envs, framework
    return kit.make(env)


# How the plugin describes tasks


@pytest.mark.parametrize(
    ("task", "expected", "options"),
    [
        (DEFAULT_TASK, ("continuous", 512, 500), {"pole_length": 1.0}),
        ("rltrain/Pendulum-v1", ("continuous", 256, 200), {}),
        ("CartPole-v1", ("discrete", 8, 500), {"max_episode_steps": 500}),
        ("FrozenLake8x8-v1", ("discrete", 8, 200), {"map_name": "8x8"}),
    ],
)
def test_tasks_are_described_with_their_defaults(task, expected, options):
    info = describe(task, {})
    assert (info.action, info.num_envs, info.max_episode_length) == expected
    assert options.items() <= info.options.items()


def test_describe_is_quiet(recwarn, capfd):
    warnings.simplefilter("always")
    assert describe("MountainCar-v0", {}) is not None
    assert describe("CartPole-v0", {}) is not None  # Outdated: Gymnasium would warn.
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")


def test_describe_spaces(probe):
    assert describe(probe(action=MultiDiscrete([3, 2])), {}).action == "multi_discrete"
    with says(UsageError):
        describe(probe(action=MultiBinary(3)), {})


def test_describe_takes_any_options_of_an_environment_with_kwargs(probe):
    def create(**kwargs):
        return Probe(VECTOR, Discrete(2))

    assert describe(probe(entry_point=create, kwargs={}), {}).options is None


class Mission(Space):
    """A space of one's own, which Gymnasium cannot flatten, as MiniGrid's `MissionSpace`."""


class Grid(Mission):
    """As if it were MiniGrid's."""


Grid.__module__ = "minigrid.core.mission"


@pytest.mark.parametrize(
    "space",
    [
        Text(9),
        Dict(eye=Box(0, 255, (8, 8, 3), np.uint8), words=Text(9)),
        OneOf([Discrete(2), VECTOR]),
        Dict(a=Tuple([VECTOR, OneOf([Discrete(2), VECTOR])])),
        Mission(),
        Dict(direction=Discrete(4), mission=Mission()),
        Sequence(VECTOR),
        Tuple([Graph(VECTOR, None)]),
    ],
)
def test_spaces_that_are_no_numbers_of_a_fixed_size_are_refused(probe, space):
    task = probe(space)
    with pytest.raises(UsageError) as refused:
        describe(task, {})
    check_said(str(refused.value))


def test_minigrids_own_wrappers_are_named(probe):
    with says(UsageError):
        describe(probe(Dict(mission=Grid())), {})


@pytest.mark.parametrize(
    "task", ["CartPool-v1", "CartPole-v9", "nowhere/CartPole-v1", "what is this?", "a b:C-v0"]
)
def test_unknown_task(task):
    assert describe(task, {}) is None  # The core then suggests the closest name.
    with pytest.raises(UsageError, match="Please use `HalfCheetah-v5` instead"):
        describe("HalfCheetah-v1", {})


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "import gymnasium\nraise gymnasium.error.DependencyNotInstalled('pip install sim')",
            "on this machine: pip install sim",
        ),
        ("import os\nos.stat('no.urdf')", "FileNotFoundError: .* 'no.urdf' (FILE:2)$"),
        ("class Env:\n def __init__(self): int()[0]", "TypeError: 'int' .* (FILE:2)$"),
    ],
)
def test_what_the_module_of_a_simulator_raises_is_one_line(
    code, words, probe, monkeypatch, tmp_path
):
    (tmp_path / "simulator.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "simulator", raising=False)
    name = probe(entry_point="simulator:Env", kwargs={})
    words = words.replace("(FILE", rf"\({tmp_path}/simulator.py").replace(")$", r"\)$")
    with pytest.raises(UsageError, match=f"^The task '{name}' cannot be made.*{words}") as refused:
        describe(name, {})
    assert "\n" not in str(refused.value)


class OfPath(Probe):
    def __init__(self, path, *, gain, length=3):
        super().__init__(VECTOR, Discrete(2))
        assert (path, gain) == ("arm.xml", 2)


@pytest.mark.parametrize("creator", [OfPath, lambda **options: OfPath(**options)])
def test_arguments_without_defaults_are_given(probe, creator):
    name = probe(entry_point=creator, kwargs={})
    given = {"path": "arm.xml", "gain": 2}
    options = describe(name, given).options
    assert options is None or options == {**given, "length": 3, "max_episode_steps": None}
    make(name, 2, **given)
    with pytest.raises(UsageError, match=r"missing 1 .*: 'path'.*\. Give env\.path=VALUE\.$"):
        describe(name, {"gain": 2})
    with says(UsageError):
        describe(name, {"pth": "arm.xml", "gain": 2})


class OfAgents(gymnasium.Env):
    """As PettingZoo's: its spaces are methods."""

    def observation_space(self, agent):
        return VECTOR

    def action_space(self, agent):
        return VECTOR


def test_a_task_of_several_agents_is_refused(probe):
    name = probe(entry_point=OfAgents, kwargs={})
    with says(UsageError):
        describe(name, {})


def test_a_task_with_a_vector_entry_point_alone_is_refused(probe):
    name = probe(entry_point=None, vector_entry_point=Probe, kwargs={})
    with says(UsageError):
        describe(name, {})


class Late(Probe):
    def observe(self):
        observation = self.observation_space.sample()
        return {"arm": observation["arm"]} if self.count == 2 else observation


def test_what_a_task_raises_later_names_it(probe):
    name = probe(Dict(arm=Box(-1, 1, (2,)), goal=Box(-1, 1, (2,))), entry_point=Late)
    env = make(name)
    env.reset(seed=0)
    env.step(torch.zeros(3))
    with says(RuntimeError):
        env.step(torch.zeros(3))


def test_tasks_registered_by_isaac_lab_belong_to_another_suite():
    gymnasium.register("Isaac-Ours-v0", "nowhere:Env", kwargs={"env_cfg_entry_point": "a:B"})
    try:
        assert describe("Isaac-Ours-v0", {}) is None
    finally:
        del gymnasium.registry["Isaac-Ours-v0"]


def test_missing_module(probe):
    name = probe(entry_point="no_such_simulator.envs:Arm", kwargs={})
    with pytest.raises(UsageError, match="Try `pip install no_such_simulator`"):
        describe(name, {})


def test_listed_tasks_are_complete_and_unique():
    names = tasks()
    assert names[0] == DEFAULT_TASK
    assert "Pendulum-v1" in names
    assert len(names) == len(set(names))


def test_tasks_of_packages_that_are_not_imported(tmp_path, monkeypatch):
    def install(name, needs, code):
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nRequires-Dist: {needs}"
        )
        (info / "RECORD").write_text(f"{name}/__init__.py,,\n{name}-1.dist-info/METADATA,,\n")
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit\n{code}")

    bot = 'register(\n    id="Bots/Bot-v0", entry_point="x:Y")\nregister("network")'
    install("bots_of_ours", "gymnasium[mujoco]>=1", bot)
    install("bots_of_lab", "gymnasium", f"{bot}\nenv_cfg_entry_point")
    install("bots_maybe", 'gymnasium>=1; extra == "bots"', bot)
    install("bots_other", "gymnasium-robotics", bot)
    monkeypatch.syspath_prepend(tmp_path)
    (spec,) = rltrain_provides()
    assert [name for name in spec.undiscovered_tasks(None) if "bots" in name] == [
        "bots_of_ours:Bots/Bot-v0"
    ]
    named = [f"bots_other:{name}" for name in ("Bots/Bot-v0", "network")]
    assert spec.undiscovered_tasks("bots_other") == named


# The environments that the suite makes


def test_embedded_task_with_options():
    env = make(DEFAULT_TASK, 7, pole_length=2, max_episode_length=30)
    assert isinstance(env, BatchedEnv)
    assert (env.task.pole_length, env.max_episode_length) == (2, 30)


def test_first_episodes_of_random_lengths():
    """Drawn once, from the rank's seed, and not when a run resumes from a state."""

    def lengths(seed, state=None):
        env = CountedEnv(make(DEFAULT_TASK, 64), seed, random_lengths=True)
        if state is not None:
            env.load_state(state)
        env.reset()
        first = env.episode_length_buf.clone()
        env.step(torch.zeros(64, 1))
        kept = env.save_state()
        env.reset()
        assert not env.episode_length_buf.any()
        return first, kept

    first, state = lengths(seed=1)
    assert first.min() < 50
    assert first.max() > 400
    assert torch.equal(lengths(seed=1)[0], first)
    assert not torch.equal(lengths(seed=2)[0], first)
    resumed = lengths(seed=2, state=state)[0]
    assert torch.equal(resumed[resumed > 0], (first + 1)[resumed > 0])


def test_lengths_that_cannot_be_set_are_not_drawn():
    env = CountedEnv(make("Pendulum-v1", 2), seed=1, random_lengths=True)
    with says(UsageError):
        env.reset()


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
def test_converter_matches_gymnasium(task):
    env, single = make(task, 1), gymnasium.make(task)
    assert env.max_episode_length == single.spec.max_episode_steps
    observations, _ = env.reset(seed=5)
    expected, _ = single.reset(seed=5)
    finished = 0
    single.action_space.seed(0)
    for _ in range(220):
        np.testing.assert_array_equal(observations[0].numpy(), expected)
        action = single.action_space.sample()
        observations, rewards, terminations, truncations, info = env.step(
            torch.as_tensor(np.asarray(action))[None]
        )
        expected, reward, terminated, truncated, _ = single.step(action)
        assert float(rewards[0]) == pytest.approx(float(reward))
        assert bool(terminations[0]) is bool(terminated)
        assert bool(truncations[0]) is bool(truncated)
        np.testing.assert_array_equal(info["final_obs"][0].numpy(), expected)
        assert bool(info["_final_obs"][0]) == (terminated or truncated)
        if terminated or truncated:
            finished += 1
            expected, _ = single.reset()
    assert finished
    env.close()


@pytest.mark.parametrize(("limit", "terminates"), [(3, True), (2, False)])
def test_terminated_or_truncated(probe, limit, terminates):
    env = make(probe(max_episode_steps=limit), 2)  # a Probe terminates in its third step
    assert env.max_episode_length == limit
    assert env.single_observation_space == Box(-np.inf, np.inf, (3,))  # float64 beyond float32.
    env.reset(seed=0)
    for _ in range(limit):
        _, _, terminations, truncations, _ = env.step(torch.tensor([0, 1]))
    assert terminations.tolist() == [terminates] * 2
    assert truncations.tolist() == [not terminates] * 2


class Judged(Probe):
    """Reports success in every step; it is true only in the last step of a long episode."""

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, {"is_success": self.count == 3}


def test_successes_count_only_finished_episodes(probe):
    task = probe(entry_point=Judged, max_episode_steps=5)
    env = CountedEnv(make(task, num_envs=2), seed=0)
    env.reset()
    for _ in range(3):
        info = env.step(torch.zeros(2))[-1]
    assert info["success"].tolist() == [True, True]
    assert "success" not in env.step(torch.zeros(2))[-1]
    assert env.episodes.take()[2:] == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("space", "actions", "taken"),
    [
        (
            Box(np.array([-1.0, 0.0]), np.array([1.0, 0.5]), dtype=np.float64),
            torch.tensor([[-3.0, 0.25], [0.5, 9.0]], requires_grad=True),
            [[-1.0, 0.25], [0.5, 0.5]],
        ),
        (Discrete(2, start=5), torch.tensor([[0], [1]]), [5, 6]),
        (MultiDiscrete([2, 3], start=[0, 4]), torch.tensor([[1, 2], [0, 0]]), [[1, 6], [0, 4]]),
    ],
)
def test_actions_are_those_of_the_tasks_own_space(probe, space, actions, taken):
    env = make(probe(action=space), 2)
    assert env.single_action_space.dtype in (np.float32, np.int64)
    env.reset(seed=0)
    env.step(actions)
    assert [np.array(sub.unwrapped.actions[0]).tolist() for sub in env._env.envs] == taken


@pytest.mark.parametrize(("task", "size"), [("FrozenLake-v1", 16), ("Blackjack-v1", 45)])
def test_other_observations_are_flattened(task, size):
    env = make(task, 4)
    assert env.single_observation_space.shape == (size,)
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(30):
        observations, _, _, _, info = env.step(torch.as_tensor(env.action_space.sample()))
        ones = observations.sum(1)
        assert (ones == ones[0]).all()
        assert torch.equal(info["final_obs"].sum(1), ones)


def test_wrong_options():
    with says(UsageError):
        make("CartPole-v1", pole=1)
    with pytest.raises(UsageError, match=r"map_name.*KeyError"):
        make("FrozenLake-v1", map_name="9x9")
    with says(UsageError):
        make(DEFAULT_TASK, pole=1)
    with says(UsageError):
        make(DEFAULT_TASK, pole_length=0)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_converter_leaves_earlier_observations_as_they_are(framework):
    env = make("CartPole-v1", 3, framework=framework)
    ones = np.ones(3, np.int64)
    actions = torch.as_tensor(ones) if framework == "torch" else jnp.asarray(ones)
    kept = [env.reset(seed=0)[0]]
    for _ in range(20):
        observations, *_, info = env.step(actions)
        kept += [observations, info["final_obs"]]
    copies = [np.array(observations) for observations in kept]
    for _ in range(5):
        env.step(actions)
    for observations, copied in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(np.asarray(observations), copied)
    assert len({copied.tobytes() for copied in copies}) > 20


def test_converter_gives_each_environment_its_own_copy_of_the_action(probe):
    """Jax arrays are read-only, but an environment may write to its action."""

    class Writing(Probe):
        def step(self, action):
            action *= 0.5
            return super().step(action)

    task = probe(entry_point=Writing, action=Box(-1.0, 1.0, (1,)))
    env, actions = make(task, framework="jax"), jnp.ones((3, 1))
    env.reset(seed=0)
    env.step(actions)
    assert actions.tolist() == [[1.0]] * 3
