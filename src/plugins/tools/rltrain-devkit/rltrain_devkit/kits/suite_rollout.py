"""Steps environments with random actions, and keeps numpy copies of what they return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rltrain_devkit.kits import arrays as kit_arrays

STEPS = 32
"""Steps over which two trajectories are compared."""

UNREPEATED = "the same seed and actions do not give the same numbers again"
"""Why a rule that compares two runs cannot be checked."""


@dataclass(frozen=True)
class Step:
    """The results of a step, as numpy copies, because simulators reuse their buffers."""

    observations: Any
    """Shape (num_envs, components): all groups side by side."""
    rewards: Any
    """Shape (num_envs, 1); zeros after a reset."""
    terminations: Any
    """Shape (num_envs,)."""
    truncations: Any
    """Shape (num_envs,)."""
    info: Mapping[str, Any]
    final_obs: Any = None
    """`info["final_obs"]`, shaped like `observations`; None if there is none."""

    @property
    def ended(self) -> Any:
        """Whether each environment's episode ended, shape (num_envs,)."""
        return self.terminations | self.truncations


class Player:
    """Steps environments with random actions, the same ones after every reset."""

    def __init__(self, env: Any, framework: str, device: str, alike: bool = False) -> None:
        """Create a player.

        Args:
            env: a `gymnasium.vector.VectorEnv`.
            framework: framework of the actions.
            device: device of the actions.
            alike: whether all environments get the same actions.
        """
        self.env = env
        self._framework, self._device, self._alike = framework, device, alike
        self.rewind()

    def rewind(self) -> None:
        """Restart the sequence of actions."""
        from gymnasium.vector.utils import batch_space

        one = self.env.single_action_space
        self._space = batch_space(one, 1 if self._alike else self.env.num_envs)
        self._space.seed(0)

    def actions(self) -> Any:
        """Draw one action for each environment, in the form that libraries use.

        Returns:
            float32 of shape (num_envs, components) for a Box; int64 of shape (num_envs,) for
            Discrete, (num_envs, components) for MultiDiscrete.
        """
        drawn = self._space.sample()
        values = drawn.repeat(self.env.num_envs // len(drawn), axis=0)
        dtype = "float32" if values.dtype.kind == "f" else "int64"
        return kit_arrays.array(self._framework, values, dtype, self._device)

    def reset(self, seed: int | None = None) -> Step:
        """Start an episode in every environment, and restart the sequence of actions."""
        import numpy as np

        self.rewind()
        observations, info = self.env.reset(seed=seed)
        n = self.env.num_envs
        never = np.zeros(n, dtype=bool)
        return Step(self._joined(observations), np.zeros((n, 1)), never, never, info)

    def step(self, actions: Any = None) -> Step:
        """Step every environment once, with the next random actions if none are given."""
        actions = self.actions() if actions is None else actions
        observations, rewards, terminations, truncations, info = self.env.step(actions)
        final_obs = info.get("final_obs")
        return Step(
            self._joined(observations),
            self._joined(rewards),
            self._joined(terminations)[:, 0].astype(bool),
            self._joined(truncations)[:, 0].astype(bool),
            info,
            None if final_obs is None else self._joined(final_obs),
        )

    def steps(self, count: int) -> Iterator[Step]:
        """Return an iterator that steps up to `count` times, once for each item."""
        return (self.step() for _ in range(count))

    def play(self, count: int, seed: int | None = None) -> list[Step]:
        """Reset, then step `count` times; the reset is the first item."""
        return [self.reset(seed), *self.steps(count)]

    def _joined(self, arrays: Any) -> Any:
        import numpy as np

        parts = [kit_arrays.to_numpy(part) for part in groups(arrays, "").values()]
        return np.concatenate([part.reshape(self.env.num_envs, -1) for part in parts], axis=1)


class Episode(NamedTuple):
    """One environment's episode, perhaps unfinished."""

    env: int
    start: int
    """After how many steps it began."""
    length: int
    ended: bool


def episodes(steps: Sequence[Step]) -> Iterator[Episode]:
    """Yield the episodes in a sequence of steps that follow a reset."""
    for env in range(len(steps[0].ended)):
        start = 0
        for index, step in enumerate(steps, 1):
            if step.ended[env]:
                yield Episode(env, start, index - start, True)
                start = index
        yield Episode(env, start, len(steps) - start, False)


def groups(value: Any, label: str) -> dict[str, Any]:
    """Return observations, or a space, as groups by the names that messages use."""
    spaces = getattr(value, "spaces", value)
    if isinstance(spaces, Mapping):
        return {f"{label}[{name!r}]": spaces[name] for name in sorted(spaces)}
    return {label: value}


def table(steps: Sequence[Step]) -> Any:
    """Return all numbers of some steps in one array: shape (len(steps), num_envs, numbers)."""
    import numpy as np

    return np.stack(
        [
            np.column_stack((step.observations, step.rewards, step.terminations, step.truncations))
            for step in steps
        ]
    )


def first_difference(one: Any, other: Any) -> str | None:
    """Describe the first difference between two tables; None if there is none."""
    import numpy as np

    differing = np.argwhere((one != other) & ~(np.isnan(one) & np.isnan(other)))
    if not len(differing):
        return None
    step, index, _ = differing[0]
    return (
        f"step {step}, environment {index}: observations, reward, terminated, truncated "
        f"{one[step, index].tolist()} and {other[step, index].tolist()}"
    )
