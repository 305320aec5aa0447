"""A rank's environment as the adapters see it. Imported only when an environment is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper  # noqa: TID253

from rltrain.errors import PluginError, UsageError
from rltrain.metrics.episodes import EpisodeCounter
from rltrain.metrics.numbers import EnvNumbers
from rltrain.types import Arrays, ProcessGroup

if TYPE_CHECKING:
    _Wrapper = VectorWrapper[Any, Any, Any, Any, Any]
else:  # Generic only since Gymnasium 1.4.
    _Wrapper = VectorWrapper

_KINDS = ("rewards", "float"), ("terminations", "bool"), ("truncations", "bool")


class CountedEnv(_Wrapper):
    """Counts frames, returns and lengths, so that every library reports the same metrics.

    Attributes of the suite's environment can be read through it. Set them on `unwrapped`.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        seed: int,
        random_lengths: bool = False,
        arrays: Arrays | None = None,
        during: Callable[
            [Literal["stepping the environment"]], AbstractContextManager[None]
        ] = lambda phase: nullcontext(),
        numbers: EnvNumbers | None = None,
    ) -> None:
        """Wrap the environments that the suite made; `seed` is for the first reset.

        With `random_lengths` the first episodes are as if they had begun earlier, so that they do
        not all end in one step. `during` makes a step's context.
        """
        super().__init__(env)
        self.numbers = numbers or EnvNumbers(arrays)
        self.episodes = EpisodeCounter(arrays)
        self._seed: int | None = seed
        self._lengths_seed = seed if random_lengths else None
        self._observations: Any = None
        self._resuming = self._checked = False
        self._during = during

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all environments; the first time with this rank's seed.

        In a run that resumes exactly, the first call returns the checkpoint's observations.
        """
        if self._resuming:
            self._resuming = False
            return self._observations, {}
        if seed is None:
            seed, self._seed = self._seed, None
        self.episodes.restart()
        with self._during("stepping the environment"):
            observations, info = self.env.reset(seed=seed, options=options)
        self._observations = self.numbers.reset(observations)
        if self._lengths_seed is not None:
            self._sample_lengths(self._lengths_seed)
            self._lengths_seed = None
        return self._observations, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments and count."""
        with self._during("stepping the environment"):
            returned = self.env.step(actions)
        if not self._checked:
            check_step(returned, self.num_envs)
            self._checked = True
        observations, rewards, terminations, truncations, info = returned
        observations, rewards, info = self.numbers.step(observations, rewards, info)
        self.episodes.step(rewards, terminations, truncations, info.get("success"))
        self._observations = observations
        return observations, rewards, terminations, truncations, info

    def _sample_lengths(self, seed: int) -> None:
        import numpy as np

        env: Any = self.env.unwrapped
        most = getattr(env, "max_episode_length", None)
        if not most or not hasattr(env, "episode_length_buf"):
            raise UsageError(
                "--random-lengths: the task's environments do not support setting the lengths of "
                "running episodes (max_episode_length, episode_length_buf). Omit the option."
            )
        # Not the plain seed: the environments' own generators may use it.
        lengths = np.random.default_rng((seed, 1)).integers(0, int(most), self.num_envs)
        env.episode_length_buf = lengths.tolist()

    def save_state(self) -> dict[str, Any] | None:
        """Return all that the next steps depend on, or None if the task cannot save its state."""
        if not hasattr(self.env.unwrapped, "get_state") or self._observations is None:
            return None
        return {
            "env": self.env.unwrapped.get_state(),
            "observations": self._observations,
            "episodes": self.episodes.get_state(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue, bit for bit, from where `save_state` was called."""
        self.env.reset(seed=self._seed)  # Some attributes exist only after the first reset.
        self.env.unwrapped.set_state(state["env"])  # type: ignore[attr-defined]
        self.episodes.set_state(state["episodes"])
        self._observations, self._resuming = state["observations"], True
        self._seed = self._lengths_seed = None

    def save_curricula(self) -> dict[str, Any]:
        """Return the state of the task's curricula, as data; empty if it does not say."""
        env: Any = self.env.unwrapped
        return dict(env.get_curricula()) if hasattr(env, "get_curricula") else {}

    def load_curricula(self, state: Mapping[str, Any]) -> None:
        """Restore the curricula from what `save_curricula` returned, on any rank."""
        env: Any = self.env.unwrapped
        if state and hasattr(env, "set_curricula"):
            env.set_curricula(state)


def check_alike(group: ProcessGroup, env: VectorEnv[Any, Any, Any]) -> None:
    """Check that the environments of all ranks are of one task. Collective."""
    facts = {
        "observation space": str(env.single_observation_space),
        "action space": str(env.single_action_space),
        "longest episode": str(getattr(env, "max_episode_length", None)),
    }
    first, *others = group.gather_objects(facts)
    for rank, other in enumerate(others, start=1):
        for name, value in other.items():
            if value != first[name]:
                raise UsageError(
                    f"The environments of ranks differ: the {name} of rank 0 is {first[name]}, of "
                    f"rank {rank} {value}. Ranks learn one policy: make the same task on each."
                )


def check_env(env: VectorEnv[Any, Any, Any], num_envs: int, suite: str) -> None:
    """Check the environments that the suite passes to the library."""
    if env.num_envs != num_envs:
        raise PluginError(
            f"The suite {suite!r} made {env.num_envs} environments; {num_envs} were requested."
        )
    mode = env.metadata.get("autoreset_mode")
    if mode != AutoresetMode.SAME_STEP:
        raise PluginError(
            f"The suite {suite!r} made an environment with autoreset mode {mode}; it must be "
            "SAME_STEP (metadata['autoreset_mode'])."
        )


def check_step(returned: Any, num_envs: int) -> None:
    """Check what the first step returned: episodes would be counted wrongly, or not at all."""
    must = "step() of the task's environments must return"
    if not isinstance(returned, tuple) or len(returned) != 5:
        raise PluginError(
            f"{must} (observations, rewards, terminations, truncations, info), not "
            f"{_described(returned)}."
        )
    for (name, kind), value in zip(_KINDS, returned[1:4], strict=True):
        if kind not in str(getattr(value, "dtype", "")) or tuple(value.shape) != (num_envs,):
            raise PluginError(
                f"{must} {name} of type {kind} and shape ({num_envs},), not {_described(value)}."
            )


def _described(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"{len(value)} values" if isinstance(value, tuple) else type(value).__name__
