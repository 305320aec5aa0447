"""Episodes: played and counted as they end, or whole blocks that follow from their seed alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rltrain.errors import UsageError
from rltrain.policies import PolicySession
from rltrain.policy import Policy
from rltrain.seeding import SeedPlan

LONGEST = 100_000
"""Steps after which an episode of a task without a time limit counts as endless."""

INTERVAL = 10.0
"""Seconds between two lines of `Progress`."""


@dataclass(frozen=True)
class Block:
    """Some of a seed's episodes: one of each environment.

    Which process plays a block, and after which others, makes no difference to its episodes.
    """

    seed: int
    """The user's."""
    number: int
    """Among the seed's blocks, from 0."""

    @property
    def environment_seed(self) -> int:
        """The seed of its environments."""
        return SeedPlan(self.seed, self.number).environment


@dataclass(frozen=True)
class Episode:
    """The outcome of one episode."""

    seed: int
    environment: int
    """Its number among the seed's episodes, from 0."""
    episode_return: float
    length: int
    """In steps."""
    success: bool | None
    """None if the task does not report it."""


Ended = tuple[int, float, int, bool | None]
"""An episode that has just ended: environment, return, length and success."""


class Rollout:
    """Steps environments with an agent, and counts their running episodes on the host."""

    def __init__(self, session: PolicySession, agent: Any, key: str | None = None) -> None:
        """Prepare for an agent: a policy, or what has the same `act` and `reset`."""
        self.agent = agent
        self._session, self._key = session, key

    def begin(self, observations: Any) -> None:
        """Begin an episode in each environment, with the observations of a reset."""
        import numpy as np

        self._observations = observations
        self.returns = np.zeros(self._session.env.num_envs)
        self.lengths = np.zeros(self._session.env.num_envs, dtype=np.int64)
        self.agent.reset()

    def step(self) -> list[Ended]:
        """Step all environments once, and return the episodes that ended."""
        import numpy as np

        outcome = self._session.step(self.agent.act(self._observations))
        self._observations, rewards, terminations, truncations, info = outcome
        self.agent.reset(terminations | truncations)
        self.returns += self._session.to_host(rewards)
        self.lengths += 1
        done = self._session.to_host(terminations | truncations).astype(bool)
        success = self._success(info, done)
        ended = [
            (int(i), float(self.returns[i]), int(self.lengths[i]), success[i])
            for i in np.flatnonzero(done)
        ]
        self.returns[done] = self.lengths[done] = 0
        return ended

    def _success(self, info: Mapping[str, Any], done: Any) -> Any:
        found = _find(info, self._key or "success", len(done))
        if found is None and self._key is not None and done.any():
            raise UsageError(
                f"--success-key {self._key}: the infos of {self._session.config.task} have no such "
                "key with a value for each environment."
            )
        if found is None:
            return [None] * len(done)
        return (self._session.to_host(found).reshape(-1) > 0).tolist()


def make_blocks(seeds: Sequence[int], episodes: int, num_envs: int) -> list[Block]:
    """Return the blocks that have at least so many episodes of each seed."""
    count = -(-episodes // num_envs)
    return [Block(seed, number) for seed in seeds for number in range(count)]


def play_block(
    session: PolicySession,
    policy: Policy,
    block: Block,
    success_key: str | None = None,
    report: Callable[[int], None] = lambda ended: None,
) -> list[Episode]:
    """Play one episode in each environment, with a policy that acts deterministically.

    An environment whose episode has ended continues, uncounted, until all have ended: the first
    episodes to end, of any environment, would be the short ones. `success_key` names where the
    task's infos say whether an episode was a success; None for "success", if there is one. After
    each step, `report` is called with how many episodes have ended.
    """
    num_envs = session.env.num_envs
    rollout = Rollout(session, policy, success_key)
    rollout.begin(session.reset(block.environment_seed))
    episodes: dict[int, Episode] = {}
    for _ in range(LONGEST):
        for i, total, length, success in rollout.step():
            number = block.number * num_envs + i
            episodes.setdefault(i, Episode(block.seed, number, total, length, success))
        if len(episodes) == num_envs:
            return [episodes[i] for i in range(num_envs)]
        report(len(episodes))
    raise UsageError(
        f"{num_envs - len(episodes)} episode(s) have not ended after {LONGEST:,} steps. Give the "
        "task a time limit (an env. option), or choose another checkpoint."
    )


class Progress:
    """Prints how far a process is, one line in ten seconds; `update` counts from `before`."""

    def __init__(self, total: int, say: Callable[[str], None], what: str = "episodes") -> None:
        self.before = 0
        self._total, self._say, self._what = total, say, what
        self._began = self._said = time.monotonic()

    def update(self, done: int) -> None:
        """Print how much is done, if it is time for a line."""
        now = time.monotonic()
        if now - self._said < INTERVAL:
            return
        self._said, left = now, ""
        done += self.before
        if done:
            seconds = round((now - self._began) / done * (self._total - done))
            left = f", about {timedelta(seconds=seconds)} left"
        self._say(f"{done:,} of {self._total:,} {self._what}{left}")


def _find(info: Mapping[str, Any], key: str, num_envs: int) -> Any:
    """Return what a dotted key names, also of the infos of episodes that have ended."""
    for root in (info, info.get("final_info") or {}):
        found: Any = root
        for part in [key] if key in root else key.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if tuple(getattr(found, "shape", ())) in ((num_envs,), (num_envs, 1)):
            return found
    return None
