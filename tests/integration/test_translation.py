"""A policy sees the same numbers through every library's adapter.

A policy with fixed weights acts on the adapter's observations, for 1,000 steps with autoreset
between episodes. The suite's own environments are stepped with the same actions: observations,
rewards, terminations and time-outs must be equal to the last bit; then every score is equal too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from rltrain.errors import RltrainError
from rltrain.plugins.registry import discover
from rltrain.specs import SuiteSpec
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.suite_settings import SuiteSettings

STEPS = 1000


@dataclass(frozen=True)
class Task:
    suite: str
    name: str
    env: Mapping[str, Any] = field(default_factory=dict)
    framework: str = "torch"
    discrete: bool = False
    ends: tuple[str, ...] = ("terminations", "time_outs")
    """The ways in which its episodes are seen to end."""


TASKS = [
    Task("gymnasium", "rltrain/CartPoleContinuous-v1", {"max_episode_length": 40}),
    Task("gymnasium", "rltrain/CartPole-v1", {"max_episode_length": 40}, discrete=True),
    Task("gymnasium", "rltrain/CartPoleContinuous-v1", {"max_episode_length": 40}, "jax"),
    Task("gymnasium", "Pendulum-v1", {"max_episode_steps": 60}, ends=("time_outs",)),
    Task("gymnasium", "Hopper-v5", {"max_episode_steps": 8}),
    Task("gymnasium", "Hopper-v5", {"max_episode_steps": 8}, "jax"),
    Task("envpool", "envpool/Hopper-v4", {"max_episode_steps": 8}),
    Task("envpool", "envpool/Go1JoystickFlatTerrain-v1", {"max_episode_steps": 40}),
    Task("playground", "CartpoleBalance", {"episode_length": 60}, "jax", ends=("time_outs",)),
    Task("mjlab", "Mjlab-Cartpole-Balance", {"episode_length_s": 3.0}, ends=("time_outs",)),
]
LIBRARIES = {"torch": ("rl_games", "rsl_rl", "skrl"), "jax": ("skrl",)}


class Seen(NamedTuple):
    """The results of a step as numpy copies, one row per environment."""

    groups: Mapping[str, Any]
    rewards: Any
    dones: Any
    time_outs: Any


Stepped = tuple[Callable[[], Mapping[str, Any]], Callable[[Any], Seen]]
"""A function that resets and returns the observation groups, and one that steps with the policy's
output, which is from -1 to 1 (or the numbers of choices)."""


def through_suite(env: Any, task: Task) -> Stepped:
    def step(output: Any) -> Seen:
        observations, rewards, terminations, truncations, _ = env.step(in_bounds(env, task, output))
        ended, cut = numpy(terminations), numpy(truncations)
        return Seen(grouped(observations), numpy(rewards), ended | cut, cut & ~ended)

    return lambda: grouped(env.reset(seed=3)[0]), step


def through_rl_games(env: Any, task: Task) -> Stepped:
    from rltrain_rl_games.run.env import RlGamesEnv

    asymmetric = "critic" in getattr(env.single_observation_space, "spaces", {})
    env.reset(seed=3)
    adapted = RlGamesEnv(Begun(env), states=asymmetric)
    names = {"obs": "policy", "states": "critic"}

    def shown(observations: Any) -> dict[str, Any]:
        groups = observations if asymmetric else {"obs": observations}
        return {names[name]: numpy(group) for name, group in groups.items()}

    def step(output: Any) -> Seen:
        observations, rewards, dones, infos = adapted.step(in_bounds(env, task, output))
        ended = numpy(dones).astype(bool)
        return Seen(shown(observations), numpy(rewards), ended, numpy(infos["time_outs"]))

    return lambda: shown(adapted.reset()), step


def through_rsl_rl(env: Any, task: Task) -> Stepped:
    from rltrain_rsl_rl.run.env import RslRlEnv

    adapted = RslRlEnv(Begun(env), "cpu")

    def shown(observations: Any) -> dict[str, Any]:
        return {name: numpy(group) for name, group in observations.items()}

    def step(output: Any) -> Seen:
        observations, rewards, dones, extras = adapted.step(output)
        ended, cut = numpy(dones).astype(bool), numpy(extras["time_outs"])
        return Seen(shown(observations), numpy(rewards), ended, cut)

    return lambda: shown(adapted.get_observations()), step


def through_skrl(env: Any, task: Task) -> Stepped:
    adapted: Any
    if task.framework == "jax":
        from rltrain_jax.devices import local_device
        from rltrain_skrl.run.jax.env import SkrlEnv as JaxEnv

        adapted = JaxEnv(Begun(env), local_device("cpu"), "log")
    else:
        from rltrain_skrl.run.torch.env import SkrlEnv

        adapted = SkrlEnv(Begun(env), "cpu", "log")

    def shown(observations: Any) -> dict[str, Any]:
        groups = {"policy": numpy(observations)}
        return groups if adapted.state() is None else {**groups, "critic": numpy(adapted.state())}

    def step(output: Any) -> Seen:
        observations, rewards, terminated, truncated, _ = adapted.step(in_bounds(env, task, output))
        ended, cut = (numpy(x)[:, 0].astype(bool) for x in (terminated, truncated))
        return Seen(shown(observations), numpy(rewards)[:, 0], ended | cut, cut & ~ended)

    return lambda: shown(adapted.reset()[0]), step


THROUGH = {"rl_games": through_rl_games, "rsl_rl": through_rsl_rl, "skrl": through_skrl}


class Begun:
    """Environments whose first reset uses the test's seed, like a session's the rank's seed."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self) -> Any:
        return self._env.reset(seed=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "library"),
    [
        pytest.param(task, library, id=f"{task.name}-{task.framework}-{library}")
        for task in TASKS
        for library in LIBRARIES[task.framework]
        if not (task.discrete and library == "rsl_rl")  # It has no discrete actions.
    ],
)
def test_a_policy_scores_the_same_through_every_adapter(task, library):
    with closing(make(task)) as alone, closing(make(task)) as under:
        reset, step = through_suite(alone, task)
        adapted_reset, adapted_step = THROUGH[library](under, task)
        expected, shown = reset(), adapted_reset()
        check_groups("reset", shown, expected)
        policy = fixed_policy(alone, task, shown)
        seen = dict.fromkeys(("terminations", "time_outs"), 0)
        for index in range(STEPS):
            output = policy(shown)
            want, got = step(output), adapted_step(output)
            check_groups(f"step {index}", got.groups, want.groups)
            for name in ("rewards", "dones", "time_outs"):
                one, other = getattr(got, name), getattr(want, name)
                np.testing.assert_array_equal(one, other, err_msg=f"step {index}: {name}")
            shown = got.groups
            seen["terminations"] += int((got.dones & ~got.time_outs).sum())
            seen["time_outs"] += int(got.time_outs.sum())
        assert {name for name, count in seen.items() if count} == set(task.ends)


def make(task: Task) -> Any:
    settings = type("Settings", (SuiteSettings,), {"num_envs": 4, "framework": task.framework})()
    settings.suite, settings.task, settings.env = task.suite, task.name, task.env
    try:
        discover().get(SuiteSpec, task.suite)
    except RltrainError as error:
        pytest.skip(str(error))
    return settings.make(dict(task.env))


def fixed_policy(env: Any, task: Task, groups: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a policy that sees the group `policy`, with weights that are always the same."""
    space = env.single_action_space
    features = int(np.prod(groups["policy"].shape[1:]))
    outputs = int(space.n) if task.discrete else space.shape[0]
    weights = np.random.default_rng(0).normal(size=(features, outputs)).astype(np.float32)

    def act(groups: Mapping[str, Any]) -> Any:
        flat = groups["policy"].reshape(len(groups["policy"]), -1).astype(np.float32)
        output = flat @ weights
        values = output.argmax(axis=1) if task.discrete else np.tanh(output)
        dtype = "int64" if task.discrete else "float32"
        return kit_arrays.array(task.framework, values, dtype, "cpu")

    return act


def in_bounds(env: Any, task: Task, output: Any) -> Any:
    """Return actions: outputs from -1 to 1, scaled to the bounds if they are finite."""
    if task.discrete:
        return output
    low, high = env.single_action_space.low, env.single_action_space.high
    finite = np.isfinite(low) & np.isfinite(high)
    scale = np.where(finite, high / 2 - low / 2, 1).astype(np.float32)
    center = np.where(finite, high / 2 + low / 2, 0).astype(np.float32)
    actions = numpy(output) * scale + center
    return kit_arrays.array(task.framework, actions, "float32", "cpu")


def grouped(observations: Any) -> dict[str, Any]:
    groups = observations if isinstance(observations, Mapping) else {"policy": observations}
    return {name: numpy(group) for name, group in groups.items()}


def numpy(x: Any) -> Any:
    return np.array(kit_arrays.to_numpy(x))


def check_groups(where: str, shown: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """An adapter may omit groups, but not `policy`."""
    assert "policy" in shown
    for name, group in shown.items():
        want = expected[name].reshape(group.shape)
        np.testing.assert_array_equal(group, want, err_msg=f"{where}: {name}")
