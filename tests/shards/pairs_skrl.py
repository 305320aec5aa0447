"""The options of skrl, to be combined."""

from __future__ import annotations

import dataclasses
from typing import Any

from claim import Claim
from pairs import STEPS, Change, Clash, Table, change

__all__ = ["SKRL"]


def agent(**options: Any) -> Change:
    """Return a change of options under `agent`."""
    return change({f"agent.{name}": value for name, value in options.items()})


def size(num_envs: int, mini_batches: int) -> Change:
    """Return a change of the number of environments and of mini-batches."""
    cut = agent(mini_batches=mini_batches)
    return change(cut.agent, num_envs=num_envs, mini_batches=mini_batches)


def scaler(name: str) -> dict[str, Change]:
    """Return the two values of a preprocessor."""
    return {
        "yes": agent(**{name: "RunningStandardScaler"}),
        "no": agent(**{name: None}),
    }


def scheduler(name: str, **options: Any) -> Change:
    """Return a change of the learning rate's schedule."""
    kwargs = {f"+agent.learning_rate_scheduler_kwargs.{key}": x for key, x in options.items()}
    return change({"agent.learning_rate_scheduler": name, **kwargs})


def of_states(*models: str, actions: bool = False) -> Change:
    """Return a change by which models see the group `critic`."""
    reads = "concatenate([STATES, ACTIONS])" if actions else "STATES"
    network = [{"name": "net", "input": reads, "layers": [16], "activations": "elu"}]
    return change({f"models.{model}.network": network for model in models})


GROUPS = ("policy and critic", "images of bytes and critic")
OTHERS = ("vector", "images of floats", "images of bytes", "images beside a vector")

COMMON: dict[str, dict[str, Change]] = {
    "environments and mini-batches": {
        "8, 4": size(8, 4),
        "8, 1": size(8, 1),
        "1, 1": size(1, 1),
        "1, 16": size(1, 16),
        "2, 3": size(2, 3),
    },
    "observations": {
        name: change(observations=name) for name in ("vector", "policy and critic", *OTHERS[1:])
    }
    | {GROUPS[1]: change(observations=GROUPS[1])},
    "critic sees": {"observations": change(), "states": of_states("value")},
    "models": {
        "separate": change({"models.separate": True}),
        "shared": change({"models.separate": False}),
    },
    "observation_preprocessor": scaler("observation_preprocessor"),
    "state_preprocessor": scaler("state_preprocessor"),
    "value_preprocessor": scaler("value_preprocessor"),
    "learning rate": {
        "constant": agent(learning_rate_scheduler=None, learning_rate_scheduler_kwargs=None),
        "KLAdaptiveLR": scheduler("KLAdaptiveLR", kl_threshold=0.008),
        "StepLR": scheduler("torch.optim.lr_scheduler.StepLR", step_size=1, gamma=0.5),
    },
    "grad_norm_clip": {"1": agent(grad_norm_clip=1.0), "0": agent(grad_norm_clip=0)},
    "entropy_loss_scale": {
        "0": agent(entropy_loss_scale=0.0),
        "0.01": agent(entropy_loss_scale=0.01),
    },
    "rewards_shaper_scale": {"1": change(), "0.1": agent(rewards_shaper_scale=0.1)},
    "time_limit_bootstrap": {
        "yes": agent(time_limit_bootstrap=True),
        "no": agent(time_limit_bootstrap=False),
    },
    "mixed_precision": {"no": change(), "yes": agent(mixed_precision=True)},
    "memory": {
        "of the rollout": change(),
        "with replacement": change({"memory.replacement": True}),
    },
}

CLIPPED: dict[str, dict[str, Change]] = {
    "ratio_clip": {"0.2": change(), "0.02": agent(ratio_clip=0.02)},
    "value_clip": {"0": agent(value_clip=0.0), "0.2": agent(value_clip=0.2)},
    "value_loss_scale": {"1": agent(value_loss_scale=1.0), "2.5": agent(value_loss_scale=2.5)},
    "kl_threshold": {"0": agent(kl_threshold=0.0), "0.01": agent(kl_threshold=0.01)},
}

CONTINUOUS: dict[str, dict[str, Change]] = {
    "actions": {
        name: change(actions=name) for name in ("continuous", "of other bounds", "without bounds")
    },
    "policy": {
        "GaussianMixin": change({"models.policy.class": "GaussianMixin"}),
        "MultivariateGaussianMixin": change({"models.policy.class": "MultivariateGaussianMixin"}),
        "its actions clipped": change({"+models.policy.clip_actions": True}),
        "its means clipped": change({"+models.policy.clip_mean_actions": True}),
        "its deviation not clipped, fixed": change(
            {"+models.policy.clip_log_std": False, "+models.policy.fixed_log_std": True}
        ),
        "the mean of its log probabilities": change({"+models.policy.reduction": "mean"}),
    },
}

CHOICES: dict[str, dict[str, Change]] = {
    "actions": {
        "discrete": change(actions="discrete"),
        "multi-discrete": change(actions="multi-discrete"),
    },
}

BASE = Claim(
    library="skrl",
    algorithm="ppo",
    features="",
    agent={"agent.rollouts": STEPS, "agent.learning_epochs": 2, "agent.learning_rate": 3e-4},
)
A2C = dataclasses.replace(BASE, algorithm="a2c", agent={"agent.rollouts": STEPS})

CLASHES: tuple[Clash, ...] = ()

SKRL = (
    Table(BASE, {**COMMON, **CLIPPED, **CONTINUOUS}, CLASHES, "of continuous actions"),
    Table(BASE, {**COMMON, **CLIPPED, **CHOICES}, CLASHES, "of choices"),
    Table(A2C, {**COMMON, **CONTINUOUS}, CLASHES, "of continuous actions"),
)
