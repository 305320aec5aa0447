"""The rules of episodes: how they end, follow each other, vary, repeat, and are restored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rltrain.data import pack_object
from rltrain.options import RunOptions
from rltrain.seeding import SeedPlan
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.rules import skip
from rltrain_devkit.kits.suite_settings import (
    STEPS,
    Player,
    Step,
    SuiteSettings,
    first_difference,
    groups,
    table,
)


class EpisodeRules(SuiteSettings):
    """The part of `SuiteConformance` that checks several steps."""

    def test_episodes_end(self) -> None:
        """Episodes that end by themselves are terminated; those cut off are truncated only.

        Libraries bootstrap the value after a truncation, not after a termination. The flags `ends`
        and `truncates` say which of these happens.
        """
        missing = [flag for flag in ("ends", "truncates") if getattr(self, flag)]
        with self.player() as player:
            player.reset(seed=0)
            for step in player.steps(self.max_steps):
                if "ends" in missing and step.terminations.any():
                    missing.remove("ends")
                if "truncates" in missing and (step.truncations & ~step.terminations).any():
                    missing.remove("truncates")
                if not missing:
                    return
        how = {"ends": "terminated", "truncates": "truncated without also being terminated"}
        assert not missing, (
            f"no episode was {how[missing[0]]} within max_steps = {self.max_steps} steps of "
            f"{self.num_envs} environments with the options {dict(self.env)}. If the task's "
            "episodes do end this way, shorten them with `env` or raise `max_steps`; if they never "
            f"do, set `{missing[0]} = False`."
        )

    def test_lengths_restart(self) -> None:
        """Every episode, not only the first, is truncated max_episode_length steps after it began.

        After an end, and after a reset in the middle of an episode.
        """
        with self.player() as player:
            most = int(self.offered(player.env, "max_episode_length"))
            player.play(2, seed=0)
            steps = player.play(min(3 * most, self.max_steps))[1:]
        begun, later = np.zeros(len(steps[0].ended), int), []
        for count, step in enumerate(steps, 1):
            lengths = count - begun
            late = (lengths >= most) & ~step.ended
            assert not late.any(), (
                f"environment {late.argmax()}: the episode that began after step "
                f"{begun[late.argmax()]} was not truncated in its step {most} (max_episode_length)."
            )
            later += lengths[step.ended & (begun > 0)].tolist()
            begun[step.ended] = count
        assert most in later or not self.truncates, (
            f"after the first end no episode lasted {most} steps (max_episode_length); lengths "
            f"were {later[:20]}. A reset must restart the count. If episodes are shorter than "
            f"that, shorten them with `env`; {len(steps)} steps were taken (`max_steps`)."
        )

    def test_final_observations_are_dense(self) -> None:
        """info['final_obs'] is one dense batch like the observations.

        info['_final_obs'] is the mask of the environments whose episode ended in this step.
        """
        with self.player() as player:
            player.env.reset(seed=0)
            for _ in range(self.max_steps):
                observations, _, terminations, truncations, info = player.env.step(player.actions())
                ended = kit_arrays.to_numpy(terminations | truncations)
                if "final_obs" in info:
                    self._check_final(info, observations, ended.tolist())
                elif ended.any():
                    skip("there is no info['final_obs'] when an episode ends")
                if ended.any():
                    return

    def test_observations_when_an_episode_ends(self) -> None:
        """In the step in which an episode ends, the observation is the first of the next one.

        info['final_obs'], if present, is the last of the old one.
        """
        with self.player() as player:
            player.reset(seed=0)
            pairs: list[tuple[Any, Any]] = []
            for step in player.steps(self.max_steps):
                if step.final_obs is not None:
                    ended = step.ended.nonzero()[0]
                    pairs += [(step.observations[i], step.final_obs[i]) for i in ended]
                if len(pairs) >= self.num_envs:
                    break
            # By chance, an episode may begin where another ended, but not always.
            assert not pairs or any((one != other).any() for one, other in pairs), (
                f"at all of {len(pairs)} ends the two are equal, such as {pairs[0][0].tolist()}."
            )
            offers = ("episode_length_buf", "max_episode_length")
            if self.reproducible and all(hasattr(player.env.unwrapped, name) for name in offers):
                self._check_truncation(player)
            elif not pairs:
                skip("neither info['final_obs'] nor episode_length_buf shows where episodes end")

    def test_a_seed_repeats_episodes(self) -> None:
        """The same seed and actions give the same episodes (flag `reproducible`)."""
        self.skip_unless("reproducible")
        with self.player() as player:
            one = player.play(STEPS, seed=1)
        with self.player() as player:
            player.play(3, seed=2)
            other = player.play(STEPS, seed=1)
        difference = first_difference(one, other)
        assert difference is None, f"after reset(seed=1), a second time: {difference}."

    def test_ranks_differ(self) -> None:
        """The seeds of two ranks give different episodes (flag `varies`)."""
        self.skip_unless("varies")
        with self.player(alike=True) as player:
            one, other = (
                table(player.play(STEPS, SeedPlan(RunOptions.seed, rank).environment))
                for rank in range(2)
            )
        envs = range(one.shape[1])
        same = [(i, j) for i in envs for j in envs if (one[:, i] == other[:, j]).all()]
        assert not same, (
            f"with the same actions, environment {same[0][0]} of rank 0 and environment "
            f"{same[0][1]} of rank 1 are the same for {STEPS} steps."
        )

    def test_environments_differ(self) -> None:
        """The environments of a batch are not copies of one another (flag `varies`)."""
        self.skip_unless("varies")
        with self.player(alike=True) as player:
            seen = table(player.play(STEPS, seed=1))
        envs = range(seen.shape[1])
        same = [(i, j) for j in envs for i in range(j) if (seen[:, i] == seen[:, j]).all()]
        assert not same, (
            f"with the same actions, environments {same[0][0]} and {same[0][1]} are the same for "
            f"{STEPS} steps."
        )

    def test_episode_length_buf(self) -> None:
        """episode_length_buf counts each environment's steps, and can be set."""
        with self.player() as player:
            player.reset(seed=0)
            for count in range(4):
                lengths = self.offered(player.env, "episode_length_buf")
                shape = (player.env.num_envs,)
                self.check_array(lengths, shape, ("int32", "int64"), "episode_length_buf")
                found = kit_arrays.to_numpy(lengths)
                assert (found == count).all(), f"{count} steps after a reset it is {found}."
                if player.step().ended.any():
                    break
            most = int(self.offered(player.env, "max_episode_length"))
            self.set_lengths(player.env, most - 1)
            ended = player.step().ended
            assert ended.all(), (
                f"set to {most - 1}, one less than max_episode_length, environments "
                f"{(~ended).nonzero()[0].tolist()} were not truncated in the next step."
            )

    def test_state_can_be_set(self) -> None:
        """set_state(get_state()) restores the state: the same actions give the same steps."""
        with self.player() as player:
            player.play(3, seed=0)
            self.offered(player.env, "set_state")
            state = self.offered(player.env, "get_state")()
            player.rewind()
            one = list(player.steps(STEPS))
            player.env.unwrapped.set_state(state)
            player.rewind()
            difference = first_difference(one, list(player.steps(STEPS)))
        assert difference is None, f"after set_state, counted from 0: {difference}."

    def test_curricula_can_be_set(self) -> None:
        """After set_curricula(get_curricula()) curricula continue, from the first reset on."""
        with self.player() as player:
            self.offered(player.env, "set_curricula")
            player.play(STEPS, seed=0)
            given = self.offered(player.env, "get_curricula")()
            pack_object(given)
        with self.player() as other:  # Afterwards: some simulators have one scene in a process.
            other.env.unwrapped.set_curricula(given)
            other.reset(seed=1)
            found = other.env.unwrapped.get_curricula()
        for name in given:
            equal = np.array_equal(np.asarray(given[name]), np.asarray(found.get(name)))
            assert equal, f"{name} is {found.get(name)}; it was {given[name]}."

    def _check_final(self, info: Mapping[str, Any], observations: Any, ended: list[bool]) -> None:
        finals = groups(info["final_obs"], "info['final_obs']")
        wanted = groups(observations, "info['final_obs']")
        assert finals.keys() == wanted.keys(), f"it has {list(finals)}; must have {list(wanted)}."
        for name, part in finals.items():
            like = kit_arrays.to_numpy(wanted[name])
            self.check_array(part, like.shape, (str(like.dtype),), name)
        mask = info.get("_final_obs")
        self.check_array(mask, (len(ended),), ("bool",), "info['_final_obs']")
        found = kit_arrays.to_numpy(mask).tolist()
        assert found == ended, f"info['_final_obs'] is {found}; the ended episodes are {ended}."

    def _check_truncation(self, player: Player) -> None:
        """Compare truncated environments with the same ones without truncation."""
        most = int(self.offered(player.env, "max_episode_length"))
        plain, late, cut = (self._fourth_step(player, n) for n in (None, most - 2, most - 1))
        if first_difference([plain], [late]):
            return  # The observations depend on the elapsed time.
        rows = cut.ended & ~plain.ended
        last, given = plain.observations[rows], cut.observations[rows]
        assert not rows.any() or (given != last).any(), (
            f"truncated environments continue as if they had not been: {given.tolist()}."
        )
        if cut.final_obs is not None:
            final = cut.final_obs[rows]
            assert (final == last).all(), (
                f"info['final_obs'] is {final.tolist()}; without truncation, the observations "
                f"would have been {last.tolist()}."
            )

    def _fourth_step(self, player: Player, length: int | None) -> Step:
        player.play(3, seed=0)
        if length is not None:
            self.set_lengths(player.env, length)
        return player.step()
