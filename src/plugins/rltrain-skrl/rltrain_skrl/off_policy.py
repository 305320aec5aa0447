"""What the agents with a replay buffer have in common, for every framework."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

from rltrain.errors import UsageError
from rltrain_skrl.agent import SessionAgent

__all__ = ["OffPolicy", "check_bounds"]


class OffPolicy(SessionAgent):
    """Goes before an agent of skrl that has a replay buffer.

    Each rank has a buffer of its own, with what its environments went through, and draws a batch of
    `batch_size` from it: a gradient is the mean over the batches of all ranks. `random_timesteps`
    and `learning_starts` are steps of every environment, the same on all ranks.
    """

    _learns_from = 0

    @abstractmethod
    def get_noise(self) -> dict[str, Any]:
        """Return what the noises remember, on the host."""

    @abstractmethod
    def set_noise(self, states: dict[str, Any]) -> None:
        """Let the noises go on from what `get_noise` returned."""

    def update(self, *, timestep: int, timesteps: int) -> None:
        """Learn, if the buffer holds enough for it; see skrl."""
        if timestep >= self._learns_from:
            super().update(timestep=timestep, timesteps=timesteps)

    def rank_state(self) -> dict[str, Any]:
        """Return the noises' states, and the replay buffer's if that is asked for."""
        memory = self.memory.get_state() if self.memory.save_replay_buffer else None
        return {**(super().rank_state() or {}), "noise": self.get_noise(), "memory": memory}

    def load_rank_state(self, state: dict[str, Any]) -> None:
        """Go on from what `rank_state` returned on this rank.

        Raises:
            UsageError: the replay buffer is of another size now.
        """
        super().load_rank_state(state)
        self.set_noise(state["noise"])
        if state["memory"] is None:
            return
        try:
            self.memory.set_state(state["memory"])
        except ValueError as error:
            raise UsageError(
                f"--checkpoint: its replay buffer does not fit: {error}. Give agent.memory.memory_"
                "size as it was."
            ) from error

    def resume(self, path: Path) -> None:
        """Load a checkpoint of skrl. Every rank does.

        A replay buffer that was not saved begins empty: it is filled for `learning_starts` steps
        again, with the policy's actions, before learning goes on.

        Raises:
            UsageError: it does not fit these options and this task.
        """
        super().resume(path)
        if len(self.memory):
            return
        self._learns_from = self.timesteps_done + self.cfg.learning_starts
        if self._session.world.is_root:
            print(
                f"The replay buffer begins empty: learning goes on after {self.cfg.learning_starts}"
                " steps (agent.memory.save_replay_buffer=true saves the buffer in checkpoints).",
                flush=True,
            )


def check_bounds(agent: Any, noises: Any) -> None:
    """Refuse noise on actions without bounds, which skrl keeps it within.

    Raises:
        UsageError: there is noise, and the task's actions have no bounds.
    """
    if noises and not agent.action_space.is_bounded():
        name = type(agent).__name__.removeprefix("Session")
        raise UsageError(
            f"agent.agent.class={name}: it keeps actions with noise within the bounds of the "
            "action space, but the task's has none. Use --algorithm sac or ppo."
        )
