"""An agent of skrl that only acts, for every framework: its options, and how it is built."""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

from gymnasium import spaces

from rltrain.errors import UsageError
from rltrain.types import World
from rltrain_skrl.declare.options import ACTING_MODEL, ALGORITHMS, RPO_OUTPUTS, rename_states
from rltrain_skrl.run import bootstrap
from rltrain_skrl.run.runner import CheckedRunner
from rltrain_skrl.run.spaces import Conversion, Space

Spaces = tuple[Space, Space]
"""Of one environment's observations and actions, as the suite gives them."""

_SCALERS = {"observation_preprocessor": "observations", "state_preprocessor": "states"}


def algorithm(options: Mapping[str, Any]) -> str:
    """Return the agent of the Runner's options, in lower case."""
    return str(options["agent"]["class"]).lower()


def acting_model(options: Mapping[str, Any]) -> str:
    """Return the name of the model that acts."""
    return ACTING_MODEL.get(algorithm(options), "policy")


def acting_options(agent: Mapping[str, Any], has_states: bool) -> dict[str, Any]:
    """Return the Runner's options without what only training needs."""
    options: dict[str, Any] = copy.deepcopy(dict(agent))
    if algorithm(options) not in ALGORITHMS:
        raise UsageError(
            f"agent.agent.class={options['agent']['class']}: of skrl's agents this plugin adapts "
            f"{', '.join(ALGORITHMS).upper()}."
        )
    rename_states(options, has_states)
    models, role = options["models"], acting_model(options)
    if role not in models:
        raise UsageError(
            f"agent.models: has no {role}, with which {options['agent']['class']} acts. Give the "
            "agent options that the checkpoint was trained with."
        )
    if models.get("separate", True):
        options["models"] = {"separate": True, role: models[role]}
    options["agent"].pop("random_timesteps", None)
    options["agent"]["experiment"] = {"write_interval": 0, "checkpoint_interval": 0}
    return options


def without_noise(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in which RPO's policy samples nothing, where its `alpha` is zero anyway."""
    quiet: dict[str, Any] = copy.deepcopy(dict(options))
    model = quiet["models"][acting_model(options)]
    if model.get("output") in RPO_OUTPUTS:
        model["output"] = "ACTIONS"
    return quiet


class PolicyRunner(CheckedRunner):
    """Mixin for skrl's Runner of a framework: builds an agent, and nothing to train it.

    The agent has the models and preprocessors of the options. Its memory has one row.
    """

    def __init__(self, options: Mapping[str, Any], conversion: Conversion) -> None:
        """Build the agent of the Runner's options."""
        # Not skrl's own constructor, which seeds every generator of the process.
        self._verbose = False
        self._env = SimpleNamespace(
            device=conversion.device,
            num_envs=1,
            observation_space=conversion.observation_space,
            state_space=conversion.state_space,
            action_space=conversion.action_space,
        )
        self._cfg: dict[str, Any] = self._check_cfg_compatibility(  # type: ignore[attr-defined]
            {**copy.deepcopy(dict(options)), "memory": {"memory_size": 1}}
        )
        models = self._generate_models(self._env, copy.deepcopy(self._cfg))
        self._agent = self._generate_agent(self._env, copy.deepcopy(self._cfg), models)

    @property
    def agent(self) -> Any:
        """The agent, an instance of skrl's own class."""
        return self._agent


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
    concatenate: ClassVar[Any]
    """The framework's."""
    compiled: ClassVar[Any] = staticmethod(lambda function: function)
    """Returns a function of arrays, compiled if the framework does so."""

    def __init__(self, space: Spaces, options: Mapping[str, Any], device: str) -> None:
        """Build the agent of `acting_options`; its parameters are random."""
        self._configuration = bootstrap.configuration(World(device=device), self.framework)
        self.conversion = self.conversion_class(*space, self.device_of(device))
        self.conversion.bytes.clear()  # Only a memory holds bytes.
        with self.configured(), bootstrap.silence():
            self.agent = self.runner_class(options, self.conversion).agent
            self.agent.init()
        self.role = acting_model(options)
        self.model = self.agent.models[self.role]
        self.reads_states = "STATES" in str(options["models"])
        self.groups = self.conversion.seen + (("critic",) if self.reads_states else ())
        self._flat = self.compiled(self._as_flat)
        self._native = self.compiled(self.conversion.native)

    @property
    def parts(self) -> dict[str, Any]:
        """The model and the preprocessors of what it reads, by their names in a checkpoint."""
        unread = set() if self.reads_states else {"state_preprocessor"}
        names = {self.role, *_SCALERS} - unread
        return {name: x for name, x in self.agent.checkpoint_modules.items() if name in names}

    def configured(self) -> contextlib.AbstractContextManager[ModuleType]:
        """Return the context in which skrl, which it yields, is used."""
        return bootstrap.using(self._configuration, self.framework)

    @abstractmethod
    def device_of(self, name: str) -> Any:
        """Return a device, such as "cpu", as the framework knows it."""

    @abstractmethod
    def load(self, saved: Mapping[str, Any]) -> None:
        """Load the parts of a checkpoint, by name."""

    @abstractmethod
    def output(self, observations: Any, states: Any) -> Any:
        """Return the model's output: the means of continuous actions, or numbers of each choice."""

    def _as_flat(self, observations: Any) -> tuple[Any, Any]:
        states = self.conversion.flat_states(observations) if self.reads_states else None
        return self.conversion.flat_observations(observations), states

    def act(self, observations: Any, sampled: bool = False) -> Any:
        """Return actions as in a rollout if `sampled`, or the most likely ones."""
        flat = self._flat(observations)
        if not sampled:
            return self._native(self._mode(self.output(*flat)))
        actions, _ = self.agent.act(*flat, timestep=0, timesteps=1)
        return self._native(actions)

    def act_on(self, groups: Sequence[Any]) -> Any:
        """Return the most likely actions by the arrays of `groups`."""
        named = dict(zip(self.groups, groups, strict=True))
        return self.act(named if self.conversion.grouped else named["policy"])

    def _mode(self, output: Any) -> Any:
        """Return the most likely actions, shape (N, A); of continuous ones, the mean."""
        space = self.conversion.action_space
        if isinstance(space, spaces.Discrete):
            return output.argmax(axis=1, keepdims=True)
        if isinstance(space, spaces.MultiDiscrete):
            ends = space.nvec.cumsum().tolist()
            choices = [
                output[:, end - n : end] for n, end in zip(space.nvec.tolist(), ends, strict=True)
            ]
            return self.concatenate([x.argmax(axis=1, keepdims=True) for x in choices], 1)
        return output

    def inputs(self, observations: Any, states: Any) -> dict[str, Any]:
        """Return the model's inputs; RPO's `alpha`, the size of its noise on the mean, is zero."""
        alpha = {"alpha": 0.0} if hasattr(self.agent.cfg, "alpha") else {}
        inputs = {"observations": observations, "states": states, **alpha}
        for part, name in _SCALERS.items():
            if part in self.parts:
                inputs[name] = self.parts[part](inputs[name])
        return inputs
