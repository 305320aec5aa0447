"""What may act in place of a trained policy: nothing, or chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rltrain.policies import PolicySession

AGENTS = ("trained", "zero", "random")


class Agent(Protocol):
    """Chooses actions; a `rltrain.policy.Policy` is one."""

    def act(self, observations: Any) -> Any:
        """Return actions for the session's environments."""
        ...

    def reset(self, done: Any = None) -> None:
        """Forget what belongs to episodes that have ended; None for all."""
        ...


class ZeroAgent:
    """Gives zeros, or the closest actions that are allowed: what happens without a policy."""

    def __init__(self, session: PolicySession) -> None:
        """Prepare the actions."""
        import numpy as np

        space = _space(session)
        zeros = np.zeros(space.shape, space.dtype)
        if hasattr(space, "low"):
            zeros = zeros.clip(space.low, space.high)
        self._actions = _of_session(session, zeros)

    def act(self, observations: Any) -> Any:
        """Return the same actions, whatever is observed."""
        return self._actions

    def reset(self, done: Any = None) -> None:
        """Forget nothing."""


class RandomAgent:
    """Draws actions from the whole space; where it has no bounds, from a normal distribution."""

    def __init__(self, session: PolicySession, seed: int) -> None:
        """Seed the actions."""
        self._session = session
        self._space = _space(session)
        self._space.seed(seed)

    def act(self, observations: Any) -> Any:
        """Return actions, whatever is observed."""
        return _of_session(self._session, self._space.sample())

    def reset(self, done: Any = None) -> None:
        """Forget nothing."""


def _space(session: PolicySession) -> Any:
    """Return the space of the actions of all environments."""
    from gymnasium.vector.utils import batch_space

    return batch_space(session.env.single_action_space, session.env.num_envs)


def _of_session(session: PolicySession, actions: Any) -> Any:
    """Return actions of numpy as arrays of the session."""
    if session.arrays is None:
        return actions
    return session.arrays.from_host(actions, session.world.device)
