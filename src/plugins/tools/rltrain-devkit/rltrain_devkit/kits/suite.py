"""The conformance kit for suites, as tests to subclass."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rltrain.errors import UsageError
from rltrain.options import resolve_env
from rltrain.types import ArrayInfo
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.rules import after, skip
from rltrain_devkit.kits.suite_episodes import EpisodeRules
from rltrain_devkit.kits.suite_settings import STEPS, Player, first_difference, groups

_NO_SUCH = "no_such_thing"

_DTYPES = {1: ("float32",), 3: ("float32", "uint8")}
"""Allowed dtypes of observations, by their number of axes."""

_KINDS = {"Box": "continuous", "Discrete": "discrete", "MultiDiscrete": "multi_discrete"}

_RENDERED = 3
"""Number of rendered steps; some environments take seconds for a frame."""


class SuiteConformance(EpisodeRules):
    """What every suite must do, on one of its tasks. Subclass it once for each kind of task.

    `rltrain_devkit.kits.suite_settings` has the other settings.

    Example:
        ```python
        from rltrain_devkit import SuiteConformance

        class TestMySuite(SuiteConformance):
            suite = "my_suite"
            task = "Point-v0"
        ```
    """

    # Before an environment is made

    def test_the_task_is_described(self) -> None:
        """tasks() lists the task, and describe(task, env) is a TaskInfo of that name."""
        info, names = self.info(), list(self.spec().tasks())
        assert info.name == self.task, f"name is {info.name!r}; must be {self.task!r}."
        assert info.num_envs >= 1, f"num_envs is {info.num_envs}; must be 1 or more."
        assert self.task in names, f"{self.task!r} is not among {len(names)} names: {names[:9]}."

    def test_other_tasks_are_not_described(self) -> None:
        """describe(task, env) is None for a task that the suite does not have.

        Every suite is asked for every task. knows(task), if the suite has it, says as much.
        """
        info, knows = self.spec().describe(_NO_SUCH, {}), self.spec().probably_has
        assert info is None, f"describe({_NO_SUCH!r}, {{}}) returned {info!r}."
        if knows is not None:
            assert knows(self.task), f"knows({self.task!r}) is false."
            assert not knows(_NO_SUCH), f"knows({_NO_SUCH!r}) is true."

    def test_spaces_are_as_described(self) -> None:
        """TaskInfo describes the observations and actions correctly, where it is not None.

        Where there are images, vectors may be left out.
        """
        info = self.info()
        with self.environment() as env:
            observations, space = env.single_observation_space, env.single_action_space
        kind = _KINDS.get(type(space).__name__)
        assert info.action == kind, f"describe says {info.action!r}; the space {space} is {kind!r}."
        parts = getattr(observations, "spaces", {"policy": observations})
        made = {name: ArrayInfo(part.shape, str(part.dtype)) for name, part in parts.items()}
        described = made if info.observations is None else dict(info.observations)
        known = {name: x for name, x in made.items() if name in described or x.is_image}
        if not any(x.is_image for x in described.values()):
            known = made
        assert described == known, f"describe has observations {described}; the space has {made}."
        sizes = tuple(int(n) for n in getattr(space, "nvec", (getattr(space, "n", 0),)))
        actions = space.shape if info.action == "continuous" else sizes
        assert info.actions in (None, actions), (
            f"describe has actions {info.actions}; the space has {actions}."
        )

    def test_episode_length_is_as_described(self) -> None:
        """TaskInfo.max_episode_length is that of the environments, with `env` and without."""
        for options in ({}, self.env):
            described = self.info(options).max_episode_length
            with closing(self.make(resolve_env(self.info(options), options))) as env:
                made = getattr(env.unwrapped, "max_episode_length", described)
            assert described == made, (
                f"with {dict(options)}, describe says {described}; max_episode_length is {made}."
            )

    def test_options_are_checked(self) -> None:
        """The `env.` options that TaskInfo declares are accepted, with their defaults.

        One that the task does not have is a UsageError that names it. Only the suite can check it:
        `+env.x=1` bypasses the core's check of declared options.
        """
        if (options := self.info().options) is not None:
            self.make(dict(options)).close()
        message = None
        try:
            self.make({_NO_SUCH: 1}).close()
        except UsageError as error:
            message = str(error)
        assert message is not None, f"env.{_NO_SUCH}=1 was accepted."
        assert _NO_SUCH in message, f"{_NO_SUCH!r} is not in its message: {message}"

    # The interface to the library

    def test_it_is_a_vector_env(self) -> None:
        """rltrain_make_env makes a VectorEnv of config.num_envs, with autoreset SAME_STEP.

        It has the spaces of one environment, and of the batch.
        """
        with self.environment() as env:
            assert isinstance(env, VectorEnv), f"it is a {type(env).__name__}."
            count, mode = env.num_envs, env.metadata.get("autoreset_mode")
            assert count == self.num_envs, f"num_envs is {count}; it should be {self.num_envs}."
            assert mode == AutoresetMode.SAME_STEP, f"metadata['autoreset_mode'] is {mode!r}."
            for name in ("observation_space", "action_space"):
                one, batch = getattr(env, f"single_{name}"), getattr(env, name)
                assert batch == batch_space(one, count), (
                    f"{name} is {batch}; must be batch_space(single_{name}, num_envs), "
                    f"{batch_space(one, count)}."
                )

    def test_spaces(self) -> None:
        """Observations are a Box, or a Dict of Boxes with a `policy`; each is a vector or image.

        Images have three axes, channels last; libraries divide bytes by 255. Actions are a Box with
        one axis, Discrete from 0, or MultiDiscrete with one axis.
        """
        with self.environment() as env:
            space, actions = env.single_observation_space, env.single_action_space
        if hasattr(space, "spaces"):
            assert "policy" in space.spaces, f"its groups are {sorted(space.spaces)}: no 'policy'."
        for name, part in groups(space, "single_observation_space").items():
            assert type(part).__name__ == "Box", f"{name} is {part}; must be a Box."
            assert str(part.dtype) in _DTYPES.get(len(part.shape), ()), (
                f"{name} is {part}; must be a vector of float32, or an image with height, width "
                "and channels, of uint8 or float32."
            )
            if str(part.dtype) == "uint8":
                bounds = {int(part.low.min()), int(part.low.max()), int(part.high.min())}
                assert bounds == {0, 255}, f"{name} is {part}: images of bytes go from 0 to 255."
        kind, start = type(actions).__name__, np.asarray(getattr(actions, "start", 0))
        assert kind in _KINDS, f"actions are {actions}; must be one of {list(_KINDS)}."
        assert len(actions.shape) == (kind != "Discrete"), (
            f"actions are {actions}, of shape {actions.shape}; must have one axis."
        )
        assert not start.any(), f"actions are {actions}, which starts at {start}; must start at 0."

    def test_observations(self) -> None:
        """Observations are batched arrays of the framework on the device, and in their space."""
        with self.player() as player:
            first, _ = player.env.reset(seed=0)
            self._check_observations(first, player.env, "after reset, observations")
            for index in range(1, 4):
                made, *_ = player.env.step(player.actions())
                self._check_observations(made, player.env, f"in step {index}, observations")

    def test_step_results(self) -> None:
        """Rewards are float32, terminations and truncations bool: one per environment.

        A shape (num_envs, 1) would broadcast to a matrix. If there is an info['log'], it is a
        mapping of scalars by name; step_dt, if the environment has it, is in s.
        """
        with self.player() as player:
            player.env.reset(seed=0)
            _, rewards, terminations, truncations, info = player.env.step(player.actions())
            shape = (player.env.num_envs,)
            self.check_array(rewards, shape, ("float32",), "rewards")
            self.check_array(terminations, shape, ("bool",), "terminations")
            self.check_array(truncations, shape, ("bool",), "truncations")
            values = kit_arrays.to_numpy(rewards)
            assert (abs(values) < float("inf")).all(), f"rewards are not finite: {values}."
            step_dt = float(getattr(player.env.unwrapped, "step_dt", 1.0))
            assert 0.0 < step_dt < float("inf"), f"step_dt is {step_dt}; must be positive."
            for step in player.steps(self.max_steps):
                if "log" in info or step.ended.any():
                    break
                info = step.info
        log = info.get("log", {})
        assert isinstance(log, Mapping), f"info['log'] is a {type(log).__name__}."
        for name, value in log.items():
            of_value = tuple(getattr(value, "shape", ()))
            assert not of_value, f"info['log']: {name!r} has shape {of_value}; must be a scalar."
            float(value)

    def test_actions_are_not_modified(self) -> None:
        """Step does not modify its actions: the library learns from them after the step."""
        with self.player() as player:
            player.env.reset(seed=0)
            for index in range(1, 11):
                given = player.actions()
                before = kit_arrays.to_numpy(given)
                player.env.step(given)
                after = kit_arrays.to_numpy(given)
                assert (before == after).all(), (
                    f"step {index} changed the actions {before.tolist()} to {after.tolist()}."
                )

    @after("test_a_seed_repeats_episodes")
    def test_actions_beyond_the_bounds(self) -> None:
        """Actions beyond the finite bounds of a Box have the same effect as the bounds.

        Libraries pass what their policy sampled; the suite clips it, and raises no error.
        """
        self.skip_unless("reproducible")
        with self.player() as player:
            one, space = player.env.single_action_space, player.env.action_space
            if type(one).__name__ != "Box" or not one.is_bounded():
                skip(f"the action space is {one}")
            center, plays = (space.high + space.low) / 2, []
            for times in (1, 3):
                plays.append([player.reset(seed=0)])
                for bound in (space.high, space.low, space.high):
                    actions = center + times * (bound - center)
                    given = kit_arrays.array(self.framework, actions, "float32", self.device)
                    plays[-1].append(player.step(given))
        difference = first_difference(*plays)
        assert difference is None, f"at the bounds, and three times as far out: {difference}."

    def test_closing_twice(self) -> None:
        """Environments can be closed, and closed again: after a failure, several places do."""
        with self.environment() as env:
            env.reset(seed=0)
            env.close()
            env.close()

    # What is seen of them

    @after("test_a_seed_repeats_episodes")
    def test_environments_are_rendered(self) -> None:
        """If session.renders, render() returns a tuple of frames, uint8 (height, width, 3).

        The first is recorded. Rendering changes nothing: steps are equal to those without it.
        """
        if not self.spec().renders:
            skip("the suite does not render its environments")
        try:
            made = self.make(resolve_env(self.info(), self.env), renders=True)
        except UsageError as error:
            skip(str(error))
        with closing(made) as env:
            player, shapes = Player(env, self.framework, self.device), set()
            seen = [player.reset(seed=0)]
            for _ in range(_RENDERED):
                frames = env.render()
                assert isinstance(frames, tuple), f"it returned a {type(frames).__name__}."
                frame = frames[0]
                assert isinstance(frame, np.ndarray), f"a frame is a {type(frame).__name__}."
                assert frame.dtype == np.uint8, f"a frame has dtype {frame.dtype}."
                assert frame.shape[2:] == (3,), f"a frame has shape {frame.shape}."
                shapes.add(frame.shape)
                seen.append(player.step())
            seen += player.steps(STEPS)
        assert len(shapes) == 1, f"frames have shapes {sorted(shapes)}; all must be the same."
        if self.reproducible:
            with self.player() as player:
                difference = first_difference(player.play(len(seen) - 1, seed=0), seen)
            assert difference is None, f"without rendering and with it, {difference}."

    def _check_observations(self, observations: Any, env: Any, label: str) -> None:
        spaces, arrays = groups(env.single_observation_space, label), groups(observations, label)
        assert arrays.keys() == spaces.keys(), (
            f"{label}: got {sorted(arrays)}; the space has {sorted(spaces)}."
        )
        for name, part in arrays.items():
            wanted = spaces[name]
            shape = (env.num_envs, *wanted.shape)
            self.check_array(part, shape, (str(wanted.dtype),), name)
            values = kit_arrays.to_numpy(part)
            wrong = [row for row in range(env.num_envs) if not _inside(values[row], wanted)]
            assert not wrong, (
                f"{name}: environment {wrong[0]} has {values[wrong[0]].tolist()}, which is not in "
                f"{wanted}."
            )


def _inside(values: Any, space: Any) -> bool:
    """Return whether one environment's observation is finite, and in its space up to rounding."""
    if not hasattr(space, "low"):
        return bool(space.contains(values))
    return bool(
        np.isfinite(values).all() and np.allclose(values, values.clip(space.low, space.high))
    )
