"""The rules of optional features: episode lengths, states, metrics to log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.data import pack_object
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.rules import may, must, skip
from rltrain_devkit.kits.suite_rollout import STEPS, first_difference, table
from rltrain_devkit.kits.suite_settings import SuiteSettings


class ExtraRules(SuiteSettings):
    """The part of `SuiteConformance` that checks optional features."""

    @may("episode_length_buf counts each environment's steps, and can be set.")
    def test_episode_length_buf(self) -> None:
        """Skipped if the environment does not have it."""
        with self.player() as player:
            player.reset(seed=0)
            self.offered(player.env, "episode_length_buf")
            for count in range(4):
                self._check_lengths(player.env, count)
                if player.step().ended.any():
                    break
            most = int(self.offered(player.env, "max_episode_length"))
            self.set_lengths(player.env, most - 1)
            ended = player.step().ended
            assert ended.all(), (
                f"set to {most - 1}, one less than max_episode_length, environments "
                f"{(~ended).nonzero()[0].tolist()} were not truncated in the next step."
            )

    @may("set_state(get_state()) restores the state: the same actions give the same steps.")
    def test_state_can_be_set(self) -> None:
        """Skipped if the environment does not have both."""
        with self.player() as player:
            player.play(3, seed=0)
            self.offered(player.env, "set_state")
            state = self.offered(player.env, "get_state")()
            player.rewind()
            one = table(list(player.steps(STEPS)))
            player.env.unwrapped.set_state(state)
            player.rewind()
            other = table(list(player.steps(STEPS)))
        difference = first_difference(one, other)
        assert difference is None, f"after set_state, counted from 0: {difference}."

    @may("After set_curricula(get_curricula()) curricula go on, from the first reset on.")
    def test_curricula_can_be_set(self) -> None:
        """On other environments, which were not reset yet. Skipped if they do not have both."""
        with self.player() as player:
            self.offered(player.env, "set_curricula")
            player.play(STEPS, seed=0)
            given = self.offered(player.env, "get_curricula")()
            pack_object(given)
        with self.player() as other:  # Afterwards: some simulators have one scene in a process.
            other.env.unwrapped.set_curricula(given)
            other.reset(seed=1)
            found = other.env.unwrapped.get_curricula()
        wrong = [name for name in given if not _equal(given[name], found.get(name))]
        assert not wrong, f"{wrong[0]} is {found.get(wrong[0])}; it was {given[wrong[0]]}."

    @may("step_dt is the time between two steps, in s.")
    def test_step_dt(self) -> None:
        """Skipped if the environment does not have it."""
        with self.environment() as env:
            step_dt = float(self.offered(env, "step_dt"))
        assert 0.0 < step_dt < float("inf"), f"it is {step_dt}; must be a positive number."

    @may("info['log'] is a mapping of scalars by name.")
    def test_log_holds_scalars(self) -> None:
        """Skipped if there is none until the first episode ends."""
        with self.player() as player:
            player.reset(seed=0)
            for step in player.steps(self.max_steps):
                if "log" in step.info:
                    _check_log(step.info["log"])
                    return
                if step.ended.any():
                    break
        skip("there is no info['log']")

    @must("For jax: after the first episodes, stepping compiles nothing more.")
    def test_stepping_compiles_nothing(self) -> None:
        """Compiling takes as long as thousands of steps. Skipped for other frameworks."""
        if self.framework != "jax":
            skip(f"framework = {self.framework!r} compiles nothing")
        with self.player() as player:
            player.play(STEPS, seed=0)
            with kit_arrays.compilations() as compiled:
                for _ in player.steps(STEPS):
                    pass
        assert not compiled, (
            f"in {STEPS} steps, after {STEPS} earlier ones, jax compiled {len(compiled)} programs: "
            f"{', '.join(sorted(set(compiled)))}."
        )

    def _check_lengths(self, env: Any, count: int) -> None:
        lengths = env.unwrapped.episode_length_buf
        self.check_array(lengths, (env.num_envs,), ("int32", "int64"), "episode_length_buf")
        found = kit_arrays.to_numpy(lengths)
        assert (found == count).all(), f"{count} steps after a reset it is {found.tolist()}."


def _equal(one: Any, other: Any) -> bool:
    import numpy as np

    return bool(np.array_equal(np.asarray(one), np.asarray(other)))


def _check_log(log: Any) -> None:
    assert isinstance(log, Mapping), f"it is a {type(log).__name__}."
    for name, value in log.items():
        shape = tuple(getattr(value, "shape", ()))
        assert not shape, f"{name!r} has shape {shape}; must be a scalar."
        float(value)
