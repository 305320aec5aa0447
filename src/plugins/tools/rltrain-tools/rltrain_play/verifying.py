"""Whether an exported file acts as the policy does: both play, on the same observations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltrain.errors import UsageError
from rltrain.policies import PolicySession
from rltrain.policy import Policy, PolicyModule
from rltrain_play.episodes import Progress

TOLERANCE = 1e-5
"""The greatest difference between continuous actions, in parts of their scale, that is rounding."""

Run = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass
class Comparison:
    """How far a file's actions are from those of the policy."""

    observations: int = 0
    """How many were compared."""
    difference: float = 0.0
    """The greatest absolute difference of an action."""
    relative: float = 0.0
    """For continuous actions, the same in parts of the action's scale: half its range if it is
    bounded, else the greater of its absolute value and 1."""
    choices: int | None = None
    """For discrete actions, how many choices differ."""

    @property
    def passed(self) -> bool:
        """Whether the file acts as the policy does."""
        return self.relative <= TOLERANCE and not self.choices

    def __str__(self) -> str:
        text = f"greatest difference {self.difference:.2g} on {self.observations:,} observations"
        if self.choices is not None:
            return f"{text}: {self.choices:,} choices differ"
        return f"{text}, {self.relative:.2g} of the actions' scale (at most {TOLERANCE:.0e})"


def verify(
    session: PolicySession,
    policy: Policy,
    module: PolicyModule,
    files: Mapping[str, Run],
    observations: int,
    say: Callable[[str], None],
) -> dict[str, Comparison]:
    """Play the policy, and compare what each file does with the same observations, by format.

    Each has recurrent states of its own, which are fed back. Half-way, all episodes start over. The
    first environment is played a second time by itself, as a batch of one.
    """
    num_envs = session.env.num_envs
    players = {
        format: [_Player(run, module, size) for size in (num_envs, 1)]
        for format, run in files.items()
    }
    results = {format: Comparison() for format in files}
    scale = half_range(session.env.single_action_space)
    steps = max(2, -(-observations // num_envs))
    progress = Progress(steps * num_envs, say, "observations")
    for step in range(steps):
        if step in (0, steps // 2):
            observed = session.reset(session.seeds.environment + step)
            policy.reset()
            done = None
        actions = policy.act(observed)
        arrays, wanted = _groups(session, module, observed), session.to_host(actions)
        for format, of_format in players.items():
            for player in of_format:
                found = player.act(arrays, done)
                compare(results[format], found, wanted[: len(found)], scale)
            results[format].observations += num_envs
        observed, _, terminated, truncated, _ = session.step(actions)
        policy.reset(terminated | truncated)
        done = session.to_host(terminated | truncated)
        progress.update((step + 1) * num_envs)
    return results


def try_out(run: Run, module: PolicyModule) -> None:
    """Run a file on batches of one and three."""
    for size in (1, 3):
        observed = {name: _zeros(info, size) for name, info in module.inputs.items()}
        shape = _Player(run, module, size).act(observed, None).shape
        if shape != (size, *module.output.shape):
            raise UsageError(f"actions for a batch of {size} have the shape {shape}")


class _Player:
    """A file that acts in the first environments, and keeps its recurrent states."""

    def __init__(self, run: Run, module: PolicyModule, size: int) -> None:
        self._run, self._module, self._size = run, module, size
        self._states: list[Any] = []

    def act(self, observations: Mapping[str, Any], done: Any) -> Any:
        """Return the actions in its environments, for the observations of all, by group.

        `done` says in which of all an episode has begun; None for all.
        """
        if done is None:
            self._states = [_zeros(info, self._size) for info in self._module.states.values()]
        else:
            for state in self._states:
                state[done[: self._size]] = 0
        given = [group[: self._size] for group in observations.values()]
        actions, *states = self._run([*given, *self._states])
        self._states = [state.copy() for state in states]  # Some are views of read-only memory.
        return actions


def _groups(session: PolicySession, module: PolicyModule, observed: Any) -> dict[str, Any]:
    """Return the observation groups that the policy reads, as numpy arrays of its dtypes."""
    import numpy as np

    groups = observed if isinstance(observed, Mapping) else dict.fromkeys(module.inputs, observed)
    return {
        name: np.ascontiguousarray(session.to_host(groups[name]), dtype=info.dtype)
        for name, info in module.inputs.items()
    }


def compare(result: Comparison, found: Any, wanted: Any, scale: Any) -> None:
    """Add a batch of actions to a result."""
    import numpy as np

    found, wanted = found.astype(np.float64), wanted.reshape(found.shape).astype(np.float64)
    # The same infinity is no difference; NaN on one side is an infinite one.
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.nan_to_num(np.abs(found - wanted), nan=np.inf))
    result.difference = max(result.difference, float(difference.max()))
    if scale is None:
        result.choices = (result.choices or 0) + int(np.count_nonzero(difference))
        return
    has_range = np.isfinite(scale) & (scale > 0)
    scales = np.where(has_range, scale, np.maximum(np.abs(wanted), 1.0))
    result.relative = max(result.relative, float((difference / scales).max()))


def half_range(space: Any) -> Any:
    """Return half the range of each action, infinite if it has no bounds; None if discrete."""
    return (space.high.astype("float64") - space.low) / 2 if hasattr(space, "high") else None


def _zeros(info: Any, size: int) -> Any:
    import numpy as np

    return np.zeros((size, *info.shape), dtype=info.dtype)
