"""What acts as an agent of rl_games: its model, between the suite's observations and actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from rltrain_rl_games.conversion import Conversion

States = tuple[torch.Tensor, ...]
"""Recurrent states, shape (layers, B, units) each; () without."""


class Actor(torch.nn.Module):
    """From the suite's observations to its actions.

    Args:
        params: rl_games' options.
        conversion: between the suite and rl_games.

    Attributes:
        model: that of the agent, of rl_games.
        conversion: between the suite and rl_games.
        low, high: the bounds onto which continuous actions are mapped from [-1, 1], if they are.
        squashes: whether the most likely action is a hyperbolic tangent.
    """

    ACTIONS: ClassVar[tuple[type, ...]]
    """The action spaces that it can act in."""
    KEYS: ClassVar[frozenset[str]]
    """Keys of its algorithm's checkpoints."""

    low: torch.Tensor | None
    high: torch.Tensor | None
    squashes = False

    def __init__(self, params: Mapping[str, Any], conversion: Conversion) -> None:
        super().__init__()
        self.conversion = conversion
        self.model = self.build(params)
        self._set_bounds(self.is_scaled(params))

    def forward(
        self, observations: Any, states: States, deterministic: bool = True
    ) -> tuple[torch.Tensor, States]:
        """Choose the suite's actions.

        Args:
            observations: the suite's, a mapping if it has groups.
            states: the recurrent states.
            deterministic: whether to take the most likely action, or to draw as in training.

        Returns:
            Actions, shape (B, ...), and the new states.
        """
        observed = self.observed(self.conversion.observations(observations, "obs"))
        choose = self.most_likely if deterministic else self.drawn
        output, states = choose(observed, states)
        return self.conversion.actions(self.scaled(output)), states

    def initial_states(self, num_envs: int) -> States:
        """Return the recurrent states at the beginning of an episode, () without."""
        if not self.model.is_rnn():
            return ()
        device = next(self.model.parameters()).device
        return tuple(
            torch.zeros(state.shape[0], num_envs, state.shape[2], device=device)
            for state in self.model.get_default_rnn_state()
        )

    def build(self, params: Mapping[str, Any]) -> Any:
        """Return rl_games' model."""
        raise NotImplementedError

    def is_scaled(self, params: Mapping[str, Any]) -> bool:
        """Return whether actions are mapped from [-1, 1] onto the task's bounds."""
        return False

    def observed(self, observations: Any) -> Any:
        """Return what the model reads for converted observations."""
        raise NotImplementedError

    def most_likely(self, observed: Any, states: States) -> tuple[torch.Tensor, States]:
        """Return the most likely of the model's actions, and the new states."""
        raise NotImplementedError

    def drawn(self, observed: Any, states: States) -> tuple[torch.Tensor, States]:
        """Return actions of the model drawn as in training, and the new states."""
        raise NotImplementedError

    def scaled(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the agent's actions for those of the model."""
        return actions

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load a checkpoint of its algorithm."""
        # In old versions of rl_games it is beside the model; that of SAC still is.
        if self.model.normalize_input and "running_mean_std" in weights:
            self.model.running_mean_std.load_state_dict(weights["running_mean_std"])

    def _set_bounds(self, is_scaled: bool) -> None:
        space = self.conversion.action_space()
        for name in ("low", "high"):
            bound = torch.tensor(getattr(space, name), dtype=torch.float32) if is_scaled else None
            self.register_buffer(name, bound, persistent=False)
