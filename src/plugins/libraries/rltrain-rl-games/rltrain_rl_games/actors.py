"""rl_games' models as its agents act with them: without agents, optimizers and buffers.

Agents of rl_games build a model, convert observations for it, and convert its actions for the
environment. So does each class here, by the same calls; tests compare them bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from gymnasium import spaces
from rl_games.algos_torch.model_builder import ModelBuilder
from rl_games.common.a2c_common import rescale_actions

from rltrain.errors import UsageError
from rltrain_rl_games.actor import Actor, States
from rltrain_rl_games.conversion import Conversion
from rltrain_rl_games.network import add_groups_normalizer, normalizes_groups
from rltrain_rl_games.upstream import TANH_MODEL


class _PpoActor(Actor):
    KEYS = frozenset({"model"})

    def build(self, params: Mapping[str, Any]) -> Any:
        """Return rl_games' model."""
        config, space = params["config"], self.conversion.space("obs")
        shapes: Any = space.shape
        if isinstance(space, spaces.Dict):
            shapes = {name: part.shape for name, part in space.items()}
        groups = normalizes_groups(params)
        model = ModelBuilder().load(params)
        built = model.build(
            {
                "actions_num": _actions_num(self.conversion.action_space()),
                "input_shape": shapes,
                "value_size": 1,
                "normalize_value": config.get("normalize_value", False),
                "normalize_input": config["normalize_input"] and not groups,
            }
        )
        if groups:
            add_groups_normalizer(built, shapes)
        return built

    def observed(self, observations: Any) -> Any:
        """Return the observations, with bytes divided by 255."""
        if isinstance(observations, dict):
            return {name: _as_floats(part) for name, part in observations.items()}
        return _as_floats(observations)

    def most_likely(self, observed: Any, states: States) -> tuple[torch.Tensor, States]:
        """Return the most likely of the model's actions, and the new states."""
        # Called as a whole, the model draws: it would move the generator, and cannot be exported.
        inputs = {"obs": self.model.norm_obs(observed), "rnn_states": states or None}
        output, *_, new_states = self.model.a2c_network(inputs)
        return self.mode(output), new_states or ()

    def drawn(self, observed: Any, states: States) -> tuple[torch.Tensor, States]:
        """Return actions of the model drawn as in training, and the new states."""
        inputs = {"is_train": False, "obs": observed, "rnn_states": states or None}
        result = self.model(inputs)
        return result["actions"], result["rnn_states"] or ()

    def mode(self, output: Any) -> torch.Tensor:
        """Return the most likely actions for the network's output."""
        raise NotImplementedError

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load a checkpoint of its algorithm."""
        self.model.load_state_dict(weights["model"])
        super().load_weights(weights)


class ContinuousActor(_PpoActor):
    """Acts as `A2CAgent`."""

    ACTIONS = (spaces.Box,)

    def __init__(self, params: Mapping[str, Any], conversion: Conversion) -> None:
        super().__init__(params, conversion)
        self.squashes = params["model"]["name"] == TANH_MODEL

    def is_scaled(self, params: Mapping[str, Any]) -> bool:
        """Return whether actions are mapped from [-1, 1] onto the task's bounds."""
        return bool(params["config"].get("clip_actions", True))

    def mode(self, output: torch.Tensor) -> torch.Tensor:
        """Return the mean."""
        return torch.tanh(output) if self.squashes else output

    def scaled(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the agent's actions for those of the model."""
        if self.low is None:
            return actions
        clamped = torch.clamp(actions, -1.0, 1.0)
        return rescale_actions(self.low, self.high, clamped)  # type: ignore[no-any-return]


class DiscreteActor(_PpoActor):
    """Acts as `DiscreteA2CAgent`, with one choice or several."""

    ACTIONS = (spaces.Discrete, spaces.Tuple)

    def mode(self, output: Any) -> torch.Tensor:
        """Return the choices with the greatest logits."""
        if isinstance(output, list):
            return torch.stack([_choice(logits) for logits in output], -1)
        return _choice(output)


class SacActor(Actor):
    """Acts as `SACAgent` after its warm-up, in which the agent does not ask its model.

    `SACPlayer` of `algos_torch/players.py` does not map actions onto the task's bounds; this does.
    """

    ACTIONS = (spaces.Box,)
    KEYS = frozenset({"actor", "critic", "critic_target"})

    squashes = True

    def is_scaled(self, params: Mapping[str, Any]) -> bool:
        """Return whether actions are mapped from [-1, 1] onto the task's bounds."""
        return True

    def build(self, params: Mapping[str, Any]) -> Any:
        """Return rl_games' model."""
        shape = self.conversion.space("obs").shape or ()
        actions_num = _actions_num(self.conversion.action_space())
        arguments = {
            "obs_dim": shape[0],
            "action_dim": actions_num,
            "actions_num": actions_num,
            "input_shape": shape,
            "normalize_input": params["config"].get("normalize_input", False),
        }
        return ModelBuilder().load(params).build(arguments)

    def observed(self, observations: torch.Tensor) -> torch.Tensor:
        """Return the observations as floats."""
        return observations.float()

    def most_likely(self, observed: torch.Tensor, states: States) -> tuple[torch.Tensor, States]:
        """Return the mean, squashed, and no states."""
        # The distribution that the actor returns checks its arguments, which cannot be exported.
        output = self.model.sac_network.actor.trunk(self.model.norm_obs(observed))
        mean, _ = output.chunk(2, dim=-1)
        return torch.tanh(mean), ()

    def drawn(self, observed: torch.Tensor, states: States) -> tuple[torch.Tensor, States]:
        """Return actions drawn as in training, and no states."""
        return self.model.actor(self.model.norm_obs(observed)).sample(), ()

    def scaled(self, actions: torch.Tensor) -> torch.Tensor:
        """Return the agent's actions for those of the model."""
        rescaled: torch.Tensor = rescale_actions(self.low, self.high, actions)
        return rescaled.clamp(self.low, self.high)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load a checkpoint of its algorithm; the critics do not act."""
        self.model.sac_network.actor.load_state_dict(weights["actor"])
        super().load_weights(weights)


_ACTORS: Mapping[str, type[Actor]] = {
    "a2c_continuous": ContinuousActor,
    "a2c_discrete": DiscreteActor,
    "sac": SacActor,
}


def build_actor(params: Mapping[str, Any], conversion: Conversion) -> Actor:
    """Build the model that the agent of these options has in training."""
    name, space = params["algo"]["name"], conversion.action_space()
    actor = _ACTORS.get(name)
    if actor is None or not isinstance(space, actor.ACTIONS):
        raise UsageError(
            f"params.algo.name={name}, in the agent options, cannot choose the task's actions, "
            f"{space}. Give the task and the agent options that it was trained with."
        )
    return actor(params, conversion)


def _actions_num(space: Any) -> Any:
    """Return what rl_games' networks take as the number of actions."""
    if isinstance(space, spaces.Tuple):
        return [choice.n for choice in space]
    return space.n if isinstance(space, spaces.Discrete) else space.shape[0]


def _as_floats(observations: torch.Tensor) -> torch.Tensor:
    return observations.float() / 255.0 if observations.dtype == torch.uint8 else observations


def _choice(logits: torch.Tensor) -> torch.Tensor:
    """Return the most likely choice, by the logits as `torch.distributions` normalizes them."""
    return (logits - logits.logsumexp(-1, keepdim=True)).argmax(-1)
