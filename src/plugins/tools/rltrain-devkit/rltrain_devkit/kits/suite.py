"""The conformance kit for suites, as tests to subclass."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from rltrain.errors import UsageError
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.rules import may, must, skip
from rltrain_devkit.kits.suite_drawing import DrawingRules
from rltrain_devkit.kits.suite_episodes import EpisodeRules
from rltrain_devkit.kits.suite_extras import ExtraRules
from rltrain_devkit.kits.suite_rollout import groups
from rltrain_devkit.kits.suite_spaces import SpaceRules

_NO_SUCH = "no_such_thing"


class SuiteConformance(SpaceRules, EpisodeRules, ExtraRules, DrawingRules):
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

    @must("describe(task, env) is a TaskInfo of that name, with at least one environment per rank.")
    def test_the_task_is_described(self) -> None:
        """Users type the name; `num_envs` is the default of `--num-envs`."""
        info = self.info()
        assert info.name == self.task, f"name is {info.name!r}; must be {self.task!r}."
        assert info.num_envs >= 1, f"num_envs is {info.num_envs}; must be 1 or more."

    @must("describe(task, env) is None for a task that the suite does not have.")
    def test_other_tasks_are_not_described(self) -> None:
        """Every suite is asked for every task: one that accepts all would take other suites'."""
        info = self.spec().describe(_NO_SUCH, {})
        assert info is None, f"describe({_NO_SUCH!r}, {{}}) returned {info!r}."

    @must("tasks() lists the task.")
    def test_the_task_is_listed(self) -> None:
        """Suggestions after a typo come from this list."""
        names = list(self.spec().tasks())
        assert self.task in names, f"{self.task!r} is not among {len(names)} names: {names[:9]}."

    @may("knows(task), if the suite has it, is true for the task and false for other names.")
    def test_names_are_told_apart(self) -> None:
        """It decides whether `describe`, which may start a simulator, is called."""
        knows = self.spec().knows
        if knows is None:
            skip("SuiteSpec.knows is None")
        assert knows(self.task), f"knows({self.task!r}) is false."
        assert not knows(_NO_SUCH), f"knows({_NO_SUCH!r}) is true."

    @may("TaskInfo.max_episode_length equals that of an environment made without options.")
    def test_episode_length_is_as_described(self) -> None:
        """Passes if the environments have no `max_episode_length`."""
        described = self.info({}).max_episode_length
        with closing(self.make({})) as env:
            self._check_length(described, env, "without options")

    @may("TaskInfo.max_episode_length follows the `env.` options that describe(task, env) gets.")
    def test_descriptions_follow_options(self) -> None:
        """With the kit's `env`, which the rules of spaces use too: set there what changes them."""
        if not self.env:
            skip("env is empty")
        described = self.info().max_episode_length
        with self.environment() as env:
            self._check_length(described, env, f"with {dict(self.env)}")

    @may("The `env.` options that TaskInfo declares are accepted, with their defaults.")
    def test_declared_options_are_accepted(self) -> None:
        """Skipped if the options are unknown before an environment is made (None)."""
        options = self.info().options
        if options is None:
            skip("TaskInfo.options is None")
        self.make(dict(options)).close()

    @must("An `env.` option that the task does not have is a UsageError that names it.")
    def test_unknown_options_are_refused(self) -> None:
        """Only the suite can check it: `+env.x=1` bypasses the core's check of declared options."""
        message = None
        try:
            self.make({_NO_SUCH: 1}).close()
        except UsageError as error:
            message = str(error)
        assert message is not None, f"env.{_NO_SUCH}=1 was accepted."
        assert _NO_SUCH in message, f"{_NO_SUCH!r} is not in its message: {message}"

    # The interface to the library

    @must("rltrain_make_env makes config.num_envs environments.")
    def test_number_of_environments(self) -> None:
        """`config.num_envs` is the number per rank."""
        with self.environment() as env:
            assert env.num_envs == self.num_envs, (
                f"num_envs is {env.num_envs}; config.num_envs was {self.num_envs}."
            )

    @must("It is a gymnasium.vector.VectorEnv, with the spaces of one environment and the batch.")
    def test_it_is_a_vector_env(self) -> None:
        """Libraries read `single_observation_space` and `single_action_space`."""
        from gymnasium.vector import VectorEnv
        from gymnasium.vector.utils import batch_space

        with self.environment() as env:
            assert isinstance(env, VectorEnv), f"it is a {type(env).__name__}."
            for name in ("observation_space", "action_space"):
                one, batch = getattr(env, f"single_{name}"), getattr(env, name)
                assert batch == batch_space(one, env.num_envs), (
                    f"{name} is {batch}; must be batch_space(single_{name}, num_envs), "
                    f"{batch_space(one, env.num_envs)}."
                )

    @must("metadata['autoreset_mode'] is AutoresetMode.SAME_STEP.")
    def test_it_declares_same_step(self) -> None:
        """One mode for all libraries. The rules of episodes test the behavior."""
        from gymnasium.vector import AutoresetMode

        with self.environment() as env:
            mode = env.metadata.get("autoreset_mode")
        assert mode == AutoresetMode.SAME_STEP, f"it is {mode!r}."

    @must("Observations are batched arrays of the framework on the device, in their space.")
    def test_observations(self) -> None:
        """Each group of a Dict space; finite, and within the bounds of a Box."""
        with self.player() as player:
            first, _ = player.env.reset(seed=0)
            self._check_observations(first, player.env, "after reset, observations")
            for index in range(1, 4):
                made, *_ = player.env.step(player.actions())
                self._check_observations(made, player.env, f"in step {index}, observations")

    @must("Rewards are float32, one per environment, on the device.")
    def test_rewards(self) -> None:
        """Of shape (num_envs,): (num_envs, 1) would broadcast to a matrix."""
        with self.player() as player:
            player.env.reset(seed=0)
            _, rewards, *_ = player.env.step(player.actions())
            self.check_array(rewards, (player.env.num_envs,), ("float32",), "rewards")
            values = kit_arrays.to_numpy(rewards)
            assert (abs(values) < float("inf")).all(), f"rewards are not finite: {values}."

    @must("Terminations and truncations are bool, one per environment, on the device.")
    def test_terminations_and_truncations(self) -> None:
        """Libraries combine them with `|`, `&` and `~`."""
        with self.player() as player:
            player.env.reset(seed=0)
            _, _, terminations, truncations, _ = player.env.step(player.actions())
            shape = (player.env.num_envs,)
            self.check_array(terminations, shape, ("bool",), "terminations")
            self.check_array(truncations, shape, ("bool",), "truncations")

    @must("step does not modify its actions.")
    def test_actions_are_not_modified(self) -> None:
        """The library learns from them after the step."""
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

    @must("Environments can be closed, and closed again.")
    def test_closing_twice(self) -> None:
        """After a failure, more than one place closes them."""
        with self.environment() as env:
            env.reset(seed=0)
            env.close()
            env.close()

    def _check_length(self, described: int | None, env: Any, how: str) -> None:
        made = getattr(env.unwrapped, "max_episode_length", described)
        assert described == made, f"{how}, describe says {described}; max_episode_length is {made}."

    def _check_observations(self, observations: Any, env: Any, label: str) -> None:
        space = env.single_observation_space
        spaces, arrays = groups(space, label), groups(observations, label)
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
    import numpy as np

    if not hasattr(space, "low"):
        return bool(space.contains(values))
    return bool(
        np.isfinite(values).all() and np.allclose(values, values.clip(space.low, space.high))
    )
