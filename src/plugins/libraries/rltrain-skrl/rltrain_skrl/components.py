"""skrl's Runner, which builds what the options name: checked, and for acting alone.

Only this file and `runner.py` use the private methods of the Runner; the contract tests hold them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from gymnasium import spaces

from rltrain.errors import UsageError
from rltrain_skrl.conversion import Conversion


class CheckedRunner:
    """Mixin for skrl's Runner of a framework: wrong options are a `UsageError`."""

    def _component(self, name: str) -> Any:
        try:
            return super()._component(name)  # type: ignore[misc]
        except ValueError as error:
            raise UsageError(f"skrl: {error}.") from error

    def _generate_models(self, env: Any, cfg: dict[str, Any]) -> dict[str, dict[str, Any]]:
        if env.state_space is None:
            _check_no_states(cfg.get("models") or {})
        _check_clipped(cfg.get("models") or {}, env.action_space)
        _check_inputs(cfg.get("models") or {}, env.observation_space)
        models: dict[str, dict[str, Any]] = super()._generate_models(env, cfg)  # type: ignore[misc]
        return models

    def _generate_agent(
        self, env: Any, cfg: dict[str, Any], models: dict[str, dict[str, Any]]
    ) -> Any:
        cfg["memory"] = {"class": "RandomMemory", "memory_size": -1, **(cfg.get("memory") or {})}
        return super()._generate_agent(env, cfg, models)  # type: ignore[misc]


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


def _check_clipped(models: Mapping[str, Any], space: spaces.Space[Any]) -> None:
    if not isinstance(space, spaces.Box) or space.is_bounded():
        return
    for role, model in models.items():
        for key in ("clip_actions", "clip_mean_actions"):
            if isinstance(model, Mapping) and model.get(key):
                raise UsageError(
                    f"agent.models.{role}.{key}={model[key]}: this task's actions have no bounds to"
                    f" clip to, and skrl fails. Set agent.models.{role}.{key}=false."
                )


def _inputs(models: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the role of each model with the input of each of its networks."""
    for role, model in models.items():
        networks = model.get("network") or [] if isinstance(model, Mapping) else []
        yield from ((role, str(network.get("input")).strip()) for network in networks)


def _check_inputs(models: Mapping[str, Any], space: spaces.Space[Any]) -> None:
    """Check that no layer takes observations as one array if they are not."""
    if isinstance(space, spaces.Box):
        return
    for role, taken in _inputs(models):
        if taken != "OBSERVATIONS":
            continue
        instead = "one_hot_encoding(OBSERVATION_SPACE, OBSERVATIONS)"
        if isinstance(space, spaces.Dict):
            instead = " and ".join(f'OBSERVATIONS["{name}"]' for name in space.spaces)
        elif isinstance(space, spaces.Tuple):
            instead = " and ".join(f"OBSERVATIONS[{index}]" for index in range(len(space.spaces)))
        raise UsageError(
            f"agent.models.{role}: its network takes OBSERVATIONS as one array, but this task has "
            f"{space}. Give an --agent-config whose networks take {instead}."
        )


def _check_no_states(models: Mapping[str, Any]) -> None:
    for role, taken in _inputs(models):
        if "STATES" in taken:
            raise UsageError(
                f"agent.models.{role}: its network takes STATES, but this task has no observation "
                "group `critic`. Write OBSERVATIONS, which is what skrl 1 called STATES."
            )
