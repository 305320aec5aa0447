"""Inference with rsl_rl's trained models: the actor of PPO, or the student of distillation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.utils import resolve_callable

from rltrain.errors import UsageError, explain_mismatch
from rltrain.options import get_dotted
from rltrain.policy import PolicyModule
from rltrain_rsl_rl.declare.older import check_supported, upgrade_options
from rltrain_rsl_rl.declare.options import (
    DISTILLATION_NAMES,
    set_observation_groups,
    without_options_of_other_classes,
)
from rltrain_rsl_rl.policy.export import export
from rltrain_rsl_rl.run.checkpoints import upgrade_checkpoint
from rltrain_rsl_rl.run.spaces import Actions, Observations, use_byte_models
from rltrain_torch.policy import array_info, read_checkpoint

if TYPE_CHECKING:
    from rltrain.session import Session


class RslRlPolicy:
    """One of rsl_rl's models between a suite's observations and actions.

    It acts as in a rollout, but in evaluation mode, as rsl_rl's own `get_inference_policy` does:
    batch normalization uses its running statistics, and a compiled model is not compiled. The model
    holds the recurrent state. `groups` are the suite's names of the groups that it reads.
    """

    def __init__(
        self, model: Any, groups: tuple[str, ...], observations: Observations, actions: Actions
    ) -> None:
        self.model = model
        self.groups = tuple(map(observations.of_suite, groups))
        self._read, self._observations = groups, observations
        self._actions, self._device = actions, str(actions.low.device)

    @torch.no_grad()
    def act(self, observations: Any, deterministic: bool = True) -> torch.Tensor:
        """Choose actions; see `rltrain.policy.Policy`."""
        given = self._observations.groups(observations)
        read = self._observations.convert({name: given[name] for name in self._read}, self._device)
        output = self.model(read, stochastic_output=not deterministic)
        actions: torch.Tensor = self._actions(output)
        return actions

    @torch.no_grad()
    def reset(self, done: Any = None) -> None:
        """Forget the recurrent state; see `rltrain.policy.Policy`."""
        self.model.reset(None if done is None else torch.as_tensor(done, device=self._device))

    def module(self) -> PolicyModule:
        """Return the model as one function; see `rltrain.policy.Policy`."""
        return export(self.model, self._read, self._observations, self._actions)


def load_policy(session: Session) -> RslRlPolicy:
    """Load the policy of a session's checkpoint, by this adapter or rsl_rl 1 or later."""
    config, device = session.config, session.world.device
    assert session.checkpoint is not None, "the caller names a checkpoint"
    sets = config.agent.get("obs_groups")
    observations = Observations(session.env.single_observation_space, sets)
    actions = Actions(session.env.single_action_space, config.agent.get("clip_actions"))
    role, options = _policy_options(config.agent, observations)
    groups = tuple(dict.fromkeys(options["obs_groups"][role]))
    weights = _weights(session.checkpoint, role, device, config.trust)
    infos = map(array_info, observations.spaces.values())
    with explain_mismatch(session.checkpoint):
        model_class = resolve_callable(options[role].pop("class_name"))
        blank = {
            name: torch.zeros(1, *group.shape, dtype=getattr(torch, group.dtype))
            for name, group in zip(observations.spaces, infos, strict=True)
        }
        example = observations.convert(blank, "cpu")
        model = model_class(example, options["obs_groups"], role, actions.size, **options[role])
    with explain_mismatch(session.checkpoint):
        model.load_state_dict(weights)
    return RslRlPolicy(model.to(device).eval(), groups, observations, actions.to(device))


def _policy_options(
    agent: Mapping[str, Any], observations: Observations
) -> tuple[str, dict[str, Any]]:
    """Return the name of the model that acts, and those of rsl_rl's options that it depends on."""
    upgraded = without_options_of_other_classes(upgrade_options(agent))
    distils = get_dotted(upgraded, "algorithm.class_name", None) in DISTILLATION_NAMES
    role = "student" if distils else "actor"
    if not isinstance(upgraded.get(role), Mapping):
        raise UsageError(
            f"agent.{role}: the agent options do not have the model that acts. Give those of the "
            "run that wrote the checkpoint, in the format of rsl_rl 5."
        )
    sets = upgraded.get("obs_groups") or {}
    options: dict[str, Any] = {
        role: dict(upgraded[role]),
        "obs_groups": {role: list(sets[role])} if role in sets else {},
        "algorithm": {},
    }
    check_supported(options)
    use_byte_models(options)
    set_observation_groups(options, (role,), observations.spaces)
    return role, options


def _weights(path: Path, role: str, device: str, trusted: bool) -> Mapping[str, torch.Tensor]:
    """Return the acting model's part of a checkpoint."""
    state, key = upgrade_checkpoint(read_checkpoint(path, device, trusted)), f"{role}_state_dict"
    if key not in state:
        raise UsageError(
            f"--checkpoint {path}: holds {', '.join(map(str, state)) or 'nothing'}, but no {key}, "
            "which these agent options need. Give a checkpoint of rsl_rl, and the agent options of "
            "the run that wrote it."
        )
    weights: Mapping[str, torch.Tensor] = state[key]
    return weights
