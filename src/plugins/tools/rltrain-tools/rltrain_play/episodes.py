"""Whole episodes of a policy, which depend on nothing but their seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.errors import UsageError
from rltrain.policies import PolicySession
from rltrain.policy import Policy
from rltrain.seeding import SeedPlan

LONGEST = 100_000
"""Steps after which an episode of a task without a time limit counts as endless."""


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
    """None if the task does not say."""


def make_blocks(seeds: Sequence[int], episodes: int, num_envs: int) -> list[Block]:
    """Return the blocks that have at least so many episodes of each seed."""
    count = -(-episodes // num_envs)
    return [Block(seed, number) for seed in seeds for number in range(count)]


def play_block(
    session: PolicySession,
    policy: Policy,
    block: Block,
    success_key: str | None = None,
    told: Callable[[int, int], None] = lambda ended, steps: None,
) -> list[Episode]:
    """Play one episode in each environment.

    An environment whose episode has ended goes on, uncounted, until all have ended: the first
    episodes to end, of any environment, would be the short ones.

    Args:
        session: has the environments.
        policy: acts deterministically.
        block: the episodes.
        success_key: where the task's infos say whether an episode was a success; None for the key
            "success", if there is one.
        told: called after each step with how many episodes have ended, and how many steps there
            were.
    """
    import numpy as np

    num_envs = session.env.num_envs
    observations = session.reset(block.environment_seed)
    policy.reset()
    finished = Finished(session, success_key)
    episodes: dict[int, Episode] = {}
    for steps in range(1, LONGEST + 1):
        observations, *outcome = session.step(policy.act(observations))
        done, returns, lengths, success = finished.step(*outcome)
        for i in np.flatnonzero(done):
            episodes.setdefault(
                int(i),
                Episode(
                    block.seed,
                    block.number * num_envs + int(i),
                    float(returns[i]),
                    int(lengths[i]),
                    None if success is None else bool(success[i]),
                ),
            )
        if len(episodes) == num_envs:
            return [episodes[i] for i in range(num_envs)]
        told(len(episodes), steps)
        policy.reset(outcome[1] | outcome[2])
    raise UsageError(
        f"{num_envs - len(episodes)} episodes have not ended after {LONGEST:,} steps. Give the "
        "task a time limit (an env. option), or choose another checkpoint."
    )


class Finished:
    """Follows running episodes, on the host.

    Attributes:
        returns: of the running episodes so far, shape (num_envs,).
        lengths: of the same, in steps.
    """

    def __init__(self, session: PolicySession, success_key: str | None = None) -> None:
        """Begin an episode in each environment.

        Args:
            session: has the environments.
            success_key: see `play_block`.
        """
        import numpy as np

        self._session, self._key = session, success_key
        self.returns = np.zeros(session.env.num_envs)
        self.lengths = np.zeros(session.env.num_envs, dtype=np.int64)

    def step(
        self, rewards: Any, terminations: Any, truncations: Any, info: Mapping[str, Any]
    ) -> tuple[Any, Any, Any, Any]:
        """Count one step of all environments.

        Returns:
            Which episodes ended, and for these the return, the length, and whether each was a
            success; each a numpy array of shape (num_envs,). None for success if the task does not
            say.
        """
        self.returns += self._session.to_host(rewards)
        self.lengths += 1
        done = self._session.to_host(terminations | truncations).astype(bool)
        returns, lengths = self.returns.copy(), self.lengths.copy()
        self.returns[done] = self.lengths[done] = 0
        return done, returns, lengths, self._success(info, done)

    def _success(self, info: Mapping[str, Any], done: Any) -> Any:
        found = _find(info, self._key or "success", len(done))
        if found is None and self._key is not None and done.any():
            raise UsageError(
                f"--success-key {self._key}: the infos of {self._session.config.task} have no such "
                "key with a value for each environment. They have "
                f"{', '.join(_names(info, len(done))) or 'none'}."
            )
        return None if found is None else self._session.to_host(found).reshape(-1) > 0


def _find(info: Mapping[str, Any], key: str, num_envs: int) -> Any:
    """Return what a dotted key names, also of the infos of episodes that have ended."""
    for root in (info, info.get("final_info") or {}):
        found: Any = root
        for part in [key] if key in root else key.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        if _is_of_each(found, num_envs):
            return found
    return None


def _names(info: Mapping[str, Any], num_envs: int, prefix: str = "") -> list[str]:
    """Return the dotted keys with a value for each environment."""
    names = []
    for name, value in info.items():
        if isinstance(value, Mapping):
            names += _names(value, num_envs, f"{prefix}{name}.".removeprefix("final_info."))
        elif _is_of_each(value, num_envs) and not name.startswith("_"):
            names.append(f"{prefix}{name}")
    return names


def _is_of_each(value: Any, num_envs: int) -> bool:
    return tuple(getattr(value, "shape", ())) in ((num_envs,), (num_envs, 1))
