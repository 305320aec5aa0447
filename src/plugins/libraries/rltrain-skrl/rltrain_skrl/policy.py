"""skrl's trained agents as they act, for every framework; see `rltrain.policy`."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from rltrain.errors import UsageError, fitting
from rltrain.policy import PolicyModule
from rltrain.session import Session
from rltrain.types import ArrayInfo
from rltrain_skrl.acting import acting_options, check_parts, draws, without_noise
from rltrain_skrl.actor import Actor, Spaces
from rltrain_skrl.checkpoints import check_framework
from rltrain_skrl.conversion import Conversion
from rltrain_skrl.skrl1 import rename_parts
from rltrain_skrl.spaces import observation_groups
from rltrain_torch.policy import array_info


class SkrlPolicy(ABC):
    """A trained agent of skrl; see `rltrain.policy.Policy`.

    With `deterministic` it takes the mean or the most likely action, as skrl's own evaluation does
    for continuous actions; for discrete ones skrl draws, and for RPO it moves the mean by chance.
    Without it, PPO, A2C, RPO and SAC draw as in a rollout. TD3, DDPG, DQN and DDQN act the same way
    then: their exploration is noise and chance around the policy. Nor has SAC its random first
    steps.
    """

    actor_class: ClassVar[type[Actor]]

    def __init__(self, session: Session) -> None:
        """Build the agent of a session's options, and load the session's checkpoint."""
        env, path = session.env, session.checkpoint
        assert path is not None, "the caller names a checkpoint"
        # Copies: skrl draws from spaces, and an exported policy holds their bounds.
        self._spaces: Spaces = copy.deepcopy(
            (env.single_observation_space, env.single_action_space)
        )
        groups = observation_groups(self._spaces[0]).spaces
        self._options = acting_options(session.config.agent, "critic" in groups)
        self._actor = self.actor_class(self._spaces, self._options, session.world.device)
        self.groups = self._actor.groups
        check_framework(path, self._actor.framework)
        saved = self.read(path, session.config.trust)
        modules = set(self._actor.agent.checkpoint_modules)
        with fitting(path):
            saved, lacking = rename_parts(saved, modules)
            check_parts(set(saved), modules - lacking, self._options)
            self._actor.load(saved)

    # What depends on the framework

    @abstractmethod
    def read(self, path: Path, trusted: bool) -> Mapping[str, Any]:
        """Return the parts of a checkpoint by name; only if it is trusted may it run code."""

    @abstractmethod
    def copy_of(self, actor: Actor) -> Mapping[str, Any]:
        """Return what `Actor.load` takes, and copies, to make another one equal."""

    @abstractmethod
    def function_of(self, actor: Actor) -> Callable[..., Any]:
        """Return an actor as a function of its groups."""

    @abstractmethod
    def shape_of(self, function: Callable[..., Any], inputs: Mapping[str, ArrayInfo]) -> ArrayInfo:
        """Return what such a function returns for one environment."""

    def input_info(self, space: spaces.Space[Any]) -> ArrayInfo:
        """Return the shape and the dtype of a group's arrays."""
        return array_info(space)

    # `rltrain.policy.Policy`

    def act(self, observations: Any, deterministic: bool = True) -> Any:
        """Choose actions; see the class."""
        actor = self._actor
        with actor.configured():
            flat = actor.flat(observations)
            drawn = not deterministic and draws(self._options)
            return actor.native(actor.draw(*flat) if drawn else actor.likeliest(*flat))

    def reset(self, done: Any = None) -> None:  # noqa: B027 - there is nothing to do.
        """Do nothing: this plugin's agents have no recurrent state."""

    def module(self) -> PolicyModule:
        """Return the policy as one function of arrays, in float32 whatever `mixed_precision` is."""
        space = self._spaces[0]
        of_task = space.spaces if isinstance(space, spaces.Dict) else {"policy": space}
        for name in self.groups:
            if isinstance(of_task[name], (spaces.Dict, spaces.Tuple)):
                raise UsageError(
                    f"The policy cannot be exported: its observation group {name} is not an array, "
                    f"but {of_task[name]}. Give the task one group for each of its parts."
                )
        actor = self.actor_class(self._spaces, without_noise(self._options), "cpu")
        actor.load(self.copy_of(self._actor))
        function = self.function_of(actor)
        inputs = {name: self.input_info(of_task[name]) for name in self.groups}
        return PolicyModule(
            function=function,
            inputs=inputs,
            output=self.shape_of(function, inputs),
            normalization=_normalization(actor),
            actions=_bounds(self._spaces[1]),
        )


def _normalization(actor: Actor) -> dict[str, dict[str, Any]]:
    """Return what skrl's scalers do to each group: the mean, what they divide by, and the clip."""
    result = {}
    for part, groups in _scaled_groups(actor.conversion):
        scaler = actor.parts.get(part)
        if scaler is None:
            continue
        mean, variance = (
            np.asarray(x, np.float32) for x in (scaler.running_mean, scaler.running_variance)
        )
        arrays = {"mean": mean, "std": np.sqrt(variance) + np.float32(scaler.epsilon)}
        start = 0
        for name in sorted(groups):  # The order in which skrl flattens them.
            shape = groups[name].shape or (1,)
            end = start + math.prod(shape)
            told = {key: x[start:end].reshape(shape).tolist() for key, x in arrays.items()}
            result[name] = {**told, "clip": float(scaler.clip_threshold)}
            start = end
    return result


def _scaled_groups(conversion: Conversion) -> Iterator[tuple[str, Mapping[str, spaces.Space[Any]]]]:
    """Yield the scalers' names in a checkpoint, with the spaces of the groups that they scale."""
    seen = conversion.observation_space
    joined = seen.spaces if isinstance(seen, spaces.Dict) else {"policy": seen}
    yield "observation_preprocessor", joined
    if conversion.state_space is not None:
        yield "state_preprocessor", {"critic": conversion.state_space}


def _bounds(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return the bounds to which continuous actions are clipped, if there are any."""
    if not isinstance(space, spaces.Box):
        return {}
    limits = {"low": space.low, "high": space.high}
    return {name: limit.tolist() for name, limit in limits.items() if np.isfinite(limit).any()}
