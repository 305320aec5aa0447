"""An agent of skrl that acts, for every framework."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from gymnasium import spaces

from rltrain.types import World
from rltrain_skrl import bootstrap
from rltrain_skrl.acting import acting_model
from rltrain_skrl.components import PolicyRunner
from rltrain_skrl.conversion import Conversion

Spaces = tuple[spaces.Space[Any], spaces.Space[Any]]
"""Of one environment's observations and actions, as the suite gives them."""

_SCALERS = {"observation_preprocessor": "observations", "state_preprocessor": "states"}


class Actor(ABC):
    """An agent of skrl between a task's observations and actions.

    It keeps skrl's configuration of its device: skrl's models for jax read a key from it whenever
    they are compiled. Calls of its methods go inside of `configured()`.

    Attributes:
        agent: skrl's own, with the one model that acts, and with the preprocessors.
        role: the name of that model.
        model: that model.
        conversion: between the task's arrays and skrl's.
        groups: the task's observation groups that the model reads.
    """

    framework: ClassVar[str]
    conversion_class: ClassVar[type[Conversion]]
    runner_class: ClassVar[type[PolicyRunner]]

    def __init__(self, space: Spaces, options: Mapping[str, Any], device: str) -> None:
        """Build the agent; its parameters are random.

        Args:
            space: of observations and actions.
            options: see `rltrain_skrl.acting.acting_options`.
            device: its name, such as "cpu".
        """
        self._configuration = bootstrap.configuration(World(device=device), self.framework)
        self.conversion = self.conversion_class(*space, self.device_of(device))
        with self.configured(), bootstrap.silence():
            self.agent = self.runner_class(options, self.conversion).agent
            self.agent.init()
        self.role = acting_model(options)
        self.model = self.agent.models[self.role]
        self.reads_states = "STATES" in str(options["models"])
        self.groups = self.conversion.seen + (("critic",) if self.reads_states else ())

    @property
    def parts(self) -> dict[str, Any]:
        """The model and the preprocessors of what it reads, by their names in a checkpoint."""
        unread = set() if self.reads_states else {"state_preprocessor"}
        names = {self.role, *_SCALERS} - unread
        return {name: x for name, x in self.agent.checkpoint_modules.items() if name in names}

    def configured(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which skrl is used."""
        return bootstrap.using(self._configuration, self.framework)

    @abstractmethod
    def device_of(self, name: str) -> Any:
        """Return a device, such as "cpu", as the framework knows it."""

    @abstractmethod
    def load(self, saved: Mapping[str, Any]) -> None:
        """Load the parts of a checkpoint, by name."""

    @abstractmethod
    def flat(self, observations: Any) -> tuple[Any, Any]:
        """Return skrl's observations, shape (N, D) of float32, and its states or None."""

    @abstractmethod
    def likeliest(self, observations: Any, states: Any) -> Any:
        """Return the most likely actions, shape (N, A); of continuous ones, the mean."""

    @abstractmethod
    def native(self, actions: Any) -> Any:
        """Return actions as the task's environments take them."""

    def draw(self, observations: Any, states: Any) -> Any:
        """Return actions as in a rollout, shape (N, A)."""
        actions, _ = self.agent.act(observations, states, timestep=0, timesteps=1)
        return actions

    def inputs(self, observations: Any, states: Any) -> dict[str, Any]:
        """Return the model's inputs; RPO's `alpha`, the size of its noise on the mean, is zero."""
        alpha = {"alpha": 0.0} if hasattr(self.agent.cfg, "alpha") else {}
        inputs = {"observations": observations, "states": states, **alpha}
        for part, name in _SCALERS.items():
            if part in self.parts:
                inputs[name] = self.parts[part](inputs[name])
        return inputs
