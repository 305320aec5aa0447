"""The rules of episodes: how they end, follow each other, vary, and repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltrain.options import RunOptions
from rltrain.seeding import SeedPlan
from rltrain_devkit.kits import arrays as kit_arrays
from rltrain_devkit.kits.rules import may, must, skip
from rltrain_devkit.kits.suite_rollout import (
    STEPS,
    Player,
    Step,
    episodes,
    first_difference,
    groups,
    table,
)
from rltrain_devkit.kits.suite_settings import SuiteSettings


class EpisodeRules(SuiteSettings):
    """The part of `SuiteConformance` that checks several steps."""

    # How episodes end

    @may("Episodes that end by themselves are terminated (flag `ends`).")
    def test_episodes_terminate(self) -> None:
        """After a termination, libraries do not bootstrap the value."""
        self.skip_unless("ends")
        with self.player() as player:
            player.reset(seed=0)
            found = any(step.terminations.any() for step in player.steps(self.max_steps))
        assert found, f"no episode was terminated within {self.bound('ends')}"

    @may("Episodes that a time limit cuts off are truncated, not terminated (flag `truncates`).")
    def test_episodes_are_truncated(self) -> None:
        """After a truncation, libraries bootstrap the value."""
        self.skip_unless("truncates")
        with self.player() as player:
            player.reset(seed=0)
            found = any(
                (step.truncations & ~step.terminations).any()
                for step in player.steps(self.max_steps)
            )
        assert found, (
            "no episode was truncated without also being terminated, within "
            f"{self.bound('truncates')}"
        )

    @may("Every episode, not only the first, is truncated max_episode_length steps after it began.")
    def test_lengths_restart(self) -> None:
        """After an end, and after a reset in the middle of an episode."""
        with self.player() as player:
            most = int(self.offered(player.env, "max_episode_length"))
            player.play(2, seed=0)
            found = list(episodes(player.play(min(3 * most, self.max_steps))[1:]))
        late = [e for e in found if e.length > most or (e.length == most and not e.ended)]
        assert not late, (
            f"environment {late[0].env}: the episode that began after step {late[0].start} was not "
            f"truncated in its step {most} (max_episode_length)."
        )
        later = [episode.length for episode in found if episode.start and episode.ended]
        assert most in later or not self.truncates, (
            f"after the first end no episode lasted {most} steps (max_episode_length); lengths "
            f"were {later[:20]}. A reset must restart the count. Searched within "
            f"{self.bound('truncates')}"
        )

    @may(
        "info['final_obs'] is one dense batch like the observations; info['_final_obs'] is the "
        "mask of the environments whose episode ended in this step."
    )
    def test_final_observations_are_dense(self) -> None:
        """Skipped if there is no `final_obs` when the first episode ends."""
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

    @must(
        "In the step in which an episode ends, the observation is the first of the next episode; "
        "info['final_obs'], if present, is the last of the old one."
    )
    def test_observations_when_an_episode_ends(self) -> None:
        """Rows of `final_obs` whose episode has not ended may hold anything."""
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
            equal = [pair for pair in pairs if (pair[0] == pair[1]).all()]
            assert not pairs or len(equal) < len(pairs), (
                f"at all of {len(pairs)} ends the two are equal, such as {pairs[0][0].tolist()}."
            )
            offers = ("episode_length_buf", "max_episode_length")
            if self.reproducible and all(hasattr(player.env.unwrapped, name) for name in offers):
                self._check_truncation(player)
            elif not pairs:
                skip("neither info['final_obs'] nor episode_length_buf shows where episodes end")

    # How episodes vary and repeat

    @may("The same seed and actions give the same episodes (flag `reproducible`).")
    def test_a_seed_repeats_episodes(self) -> None:
        """In another environment, which has already been used."""
        self.skip_unless("reproducible")
        with self.player() as player:
            one = table(player.play(STEPS, seed=1))
        with self.player() as player:
            player.play(3, seed=2)
            other = table(player.play(STEPS, seed=1))
        difference = first_difference(one, other)
        assert difference is None, f"after reset(seed=1), a second time: {difference}."

    @may("The seeds of two ranks give different episodes (flag `varies`).")
    def test_ranks_differ(self) -> None:
        """Ranks with the same data learn no more than one rank."""
        self.skip_unless("varies")
        with self.player(alike=True) as player:
            one, other = (
                table(player.play(STEPS, SeedPlan(RunOptions.seed, rank).environment))
                for rank in range(2)
            )
        envs = range(one.shape[1])
        same = [(i, j) for i in envs for j in envs if _same(one[:, i], other[:, j])]
        assert not same, (
            f"with the same actions, environment {same[0][0]} of rank 0 and environment "
            f"{same[0][1]} of rank 1 are the same for {STEPS} steps."
        )

    @may("The environments of a batch are not copies of one another (flag `varies`).")
    def test_environments_differ(self) -> None:
        """With the same actions, they must differ."""
        self.skip_unless("varies")
        with self.player(alike=True) as player:
            seen = table(player.play(STEPS, seed=1))
        envs = range(seen.shape[1])
        same = [(i, j) for j in envs for i in range(j) if _same(seen[:, i], seen[:, j])]
        assert not same, (
            f"with the same actions, environments {same[0][0]} and {same[0][1]} are the same for "
            f"{STEPS} steps."
        )

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
        if first_difference(table([plain]), table([late])):
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


def _same(one: Any, other: Any) -> bool:
    return bool((one == other).all())
