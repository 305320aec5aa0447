"""Inference with skrl's trained agents, for every framework; see `rltrain.policy`."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from gymnasium import spaces

from rltrain.errors import UsageError, explain_mismatch
from rltrain.policy import PolicyModule
from rltrain.session import Session
from rltrain.types import ArrayInfo
from rltrain_skrl.declare.options import DETERMINISTIC
from rltrain_skrl.policy.actor import Actor, Spaces, acting_options, algorithm, without_noise
from rltrain_skrl.policy.export import bounds, normalization
from rltrain_skrl.run.checkpoints import check_framework, check_parts, rename_parts
from rltrain_skrl.run.spaces import Space, observation_groups
from rltrain_torch.policy import array_info


class SkrlPolicy(ABC):
    """A trained agent of skrl; see `rltrain.policy.Policy`.

    With `deterministic` it takes the mean or the most likely action, as skrl's own evaluation does
    for continuous actions; for discrete ones skrl samples, and for RPO it moves the mean by chance.
    Without it, PPO, A2C, RPO and SAC sample as in a rollout. TD3, DDPG, DQN and DDQN act the same
    way then: their exploration is noise and chance around the policy. Nor has SAC its random first
    steps.
    """

    actor_class: ClassVar[type[Actor]]

    def __init__(self, session: Session) -> None:
        """Build the agent of a session's options, and load the session's checkpoint."""
        env, path = session.env, session.checkpoint
        assert path is not None, "the caller names a checkpoint"
        # Copies: skrl samples from spaces, and an exported policy holds their bounds.
        self._spaces: Spaces = copy.deepcopy(
            (env.single_observation_space, env.single_action_space)
        )
        groups = observation_groups(self._spaces[0]).spaces
        self._options = acting_options(session.config.agent, "critic" in groups)
        self._actor = self.actor_class(self._spaces, self._options, session.world.device)
        self.groups = self._actor.groups
        check_framework(path, self._actor.framework)
        saved = self.read(path, session.config.trust)
        own = self._actor.agent.checkpoint_modules.keys()
        with explain_mismatch(path):
            saved, lacking = rename_parts(saved, own)
            name = self._options["agent"]["class"]
            check_parts(saved.keys(), own - lacking, name, only_acting=True)
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

    def input_info(self, space: Space) -> ArrayInfo:
        """Return the shape and the dtype of a group's arrays."""
        return array_info(space)

    # `rltrain.policy.Policy`

    def act(self, observations: Any, deterministic: bool = True) -> Any:
        """Choose actions; see the class."""
        sampled = not deterministic and algorithm(self._options) not in DETERMINISTIC
        with self._actor.configured():
            return self._actor.act(observations, sampled)

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
            normalization=normalization(actor),
            actions=bounds(self._spaces[1]),
        )
