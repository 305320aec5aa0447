"""The options of skrl, to be combined."""

from __future__ import annotations

import dataclasses
from typing import Any

from claim import Claim
from claims_skrl import with_replay
from pairs import ONCE_MADE, STEPS, Change, Clash, Table, change, choices, shown, taken
from shard_envs import BOTH

FREE = "without bounds"


def agent(**options: Any) -> Change:
    return change({f"agent.{name}": value for name, value in options.items()})


def size(num_envs: int, mini_batches: int) -> Change:
    cut = agent(mini_batches=mini_batches)
    return change(cut.agent, num_envs=num_envs, mini_batches=mini_batches)


def scalers(*of: str) -> dict[str, dict[str, Change]]:
    names = [f"{each}_preprocessor" for each in of]
    scaled = "RunningStandardScaler"
    return {n: {"yes": agent(**{n: scaled}), "no": agent(**{n: None})} for n in names}


def scheduler(name: str, **options: Any) -> Change:
    kwargs = {f"+agent.learning_rate_scheduler_kwargs.{key}": x for key, x in options.items()}
    return change({"agent.learning_rate_scheduler": name, **kwargs})


def of_states(*models: str, actions: bool = False) -> Change:
    """Return a change that gives models the group `critic`."""
    reads = "concatenate([STATES, ACTIONS])" if actions else "STATES"
    network = [{"name": "net", "input": reads, "layers": [16], "activations": "elu"}]
    return change({f"models.{model}.network": network for model in models})


REPLACED = change({"memory.replacement": True})
OTHERS = ("vector", "images of floats", "images of bytes", "images with a vector")

COMMON: dict[str, dict[str, Change]] = {
    "environments and mini-batches": {
        f"{n}, {cut}": size(n, cut) for n, cut in ((8, 4), (8, 1), (1, 1), (1, STEPS), (2, 3))
    },
    **shown("vector", "policy and critic", BOTH, *OTHERS[1:]),
    "critic sees": {"observations": change(), "states": of_states("value")},
    "models": {
        "separate": change({"models.separate": True}),
        "shared": change({"models.separate": False}),
    },
    **scalers("observation", "state", "value"),
    "learning rate": {
        "constant": agent(learning_rate_scheduler=None, learning_rate_scheduler_kwargs=None),
        "KLAdaptiveLR": scheduler("KLAdaptiveLR", kl_threshold=0.008),
        "StepLR": scheduler("torch.optim.lr_scheduler.StepLR", step_size=1, gamma=0.5),
    },
    **choices("agent.", grad_norm_clip=(1.0, 0), entropy_loss_scale=(0.0, 0.01)),
    "rewards_shaper_scale": {"1": change(), "0.1": agent(rewards_shaper_scale=0.1)},
    **choices("agent.", time_limit_bootstrap=(True, False)),
    "memory": {"of the rollout": change(), "with replacement": REPLACED},
}

CLIPPED: dict[str, dict[str, Change]] = {
    "ratio_clip": {"0.2": change(), "0.02": agent(ratio_clip=0.02)},
    **choices(
        "agent.", value_clip=(0.0, 0.2), value_loss_scale=(1.0, 2.5), kl_threshold=(0.0, 0.01)
    ),
}

CONTINUOUS: dict[str, dict[str, Change]] = {
    **taken("continuous", "of other bounds", FREE),
    "policy": {
        **{
            name: change({"models.policy.class": name})
            for name in ("GaussianMixin", "MultivariateGaussianMixin")
        },
        "its actions clipped": change({"+models.policy.clip_actions": True}),
        "its means clipped": change({"+models.policy.clip_mean_actions": True}),
        "its deviation not clipped, fixed": change(
            {"+models.policy.clip_log_std": False, "+models.policy.fixed_log_std": True}
        ),
        "the mean of its log probabilities": change({"+models.policy.reduction": "mean"}),
    },
}

CHOICES = taken("discrete", "multi-discrete")

BASE = Claim(
    library="skrl",
    algorithm="ppo",
    features="",
    agent={"agent.rollouts": STEPS, "agent.learning_epochs": 2, "agent.learning_rate": 3e-4},
)
RPO = dataclasses.replace(BASE, algorithm="rpo")
WITH_NOISE = {
    **CONTINUOUS,
    "policy": {
        name: CONTINUOUS["policy"][name] for name in ("GaussianMixin", "its actions clipped")
    },
    **choices("agent.", alpha=(0.1, 0.0)),
}
A2C = dataclasses.replace(BASE, algorithm="a2c", agent={"agent.rollouts": STEPS})

CLASHES = (
    Clash({"observations": (BOTH,), "actions": ("of other bounds", FREE, "multi-discrete")}, ""),
    *(
        Clash(
            {"observations": OTHERS, sees: ("states",)},
            "this task has no observation group `critic`",
            ONCE_MADE,
        )
        for sees in ("critic sees", "critics see")
    ),
    Clash({"learning rate": ("StepLR",)}, "has no such scheduler. It has KLAdaptiveLR"),
    Clash(
        {"policy": ("its actions clipped", "its means clipped"), "actions": (FREE,)},
        "this task's actions have no bounds to clip to",
        ONCE_MADE,
    ),
)

CRITICS = ("critic_1", "critic_2", "target_critic_1", "target_critic_2")


def replayed(algorithm: str) -> Claim:
    return with_replay(algorithm, "")


REPLAYED: dict[str, dict[str, Change]] = {
    "environments": {"8": change(), "1": change(num_envs=1)},
    **shown("vector", "policy and critic"),
    "updates and rows of each": {
        "2, 16": change(),
        "1, 16": agent(gradient_steps=1),
        "3, 2": change({"agent.gradient_steps": 3, "agent.batch_size": 2}, batch_size=2),
    },
    "replay buffer": {
        "written over": change(),
        "not full": change({"memory.memory_size": 100}),
        "sampled without replacement": change({"memory.replacement": False}),
        "without a size": change({"memory.memory_size": -1}),
    },
    "first steps": {
        "by chance": change(),
        "by the policy": agent(random_timesteps=0),
        "learning at once": agent(random_timesteps=0, learning_starts=0),
    },
    **scalers("observation", "state"),
    "polyak": {"0.005": change(), "1": agent(polyak=1.0)},
    "rewards_shaper_scale": COMMON["rewards_shaper_scale"],
}


def acting(*critics: str) -> dict[str, dict[str, Change]]:
    return {
        "actions": CONTINUOUS["actions"],
        "critics see": {"observations": change(), "states": of_states(*critics, actions=True)},
        **choices("agent.", grad_norm_clip=(0, 0.1)),
    }


ENTROPY: dict[str, dict[str, Change]] = {
    **choices("agent.", learn_entropy=(True, False)),
    "target_entropy": {"of the actions": change(), "-0.5": agent(target_entropy=-0.5)},
    "policy": {
        "as it is": change(),
        "its actions clipped": change({"+models.policy.clip_actions": True}),
    },
}
ORNSTEIN_UHLENBECK = {
    f"+agent.exploration_noise_kwargs.{name}": value
    for name, value in {"theta": 0.1, "sigma": 0.2, "base_scale": 1.0}.items()
}
NOISES: dict[str, dict[str, Change]] = {
    "exploration_noise": {
        "GaussianNoise": change(),
        "OrnsteinUhlenbeckNoise": change(
            {"agent.exploration_noise": "OrnsteinUhlenbeckNoise", **ORNSTEIN_UHLENBECK}
        ),
        "none": agent(exploration_noise=None),
    }
}
SMOOTH: dict[str, dict[str, Change]] = {
    "smooth_regularization_noise": {
        "GaussianNoise": change(),
        "none": agent(smooth_regularization_noise=None),
    },
    **choices("agent.", policy_delay=(2, 1)),
}
DQN: dict[str, dict[str, Change]] = {
    **taken("discrete"),
    "update_interval": {"1": change(), "3": agent(update_interval=3)},
    "target_update_interval": {"1": change(), "5": agent(target_update_interval=5)},
    "exploration_scheduler": {"falling": change(), "none": agent(exploration_scheduler=None)},
}
CLASHES = (
    *CLASHES,
    Clash({"exploration_scheduler": ("none",)}, "skrl compares with what it gives in every step"),
    Clash({"replay buffer": ("without a size",)}, "memory_size=-1 stands for a rollout"),
    *(
        Clash(
            {noise: tuple(name for name in values if name != "none"), "actions": (FREE,)},
            "it keeps actions with noise within the bounds of the action space",
            ONCE_MADE,
        )
        for noise, values in {**NOISES, **SMOOTH}.items()
        if noise.endswith("noise")
    ),
)

SKRL = (
    Table(BASE, {**COMMON, **CLIPPED, **CONTINUOUS}, CLASHES, "(continuous)"),
    Table(BASE, {**COMMON, **CLIPPED, **CHOICES}, CLASHES, "(discrete)"),
    Table(RPO, {**COMMON, **CLIPPED, **WITH_NOISE}, CLASHES),
    Table(A2C, {**COMMON, **CONTINUOUS}, CLASHES, "(continuous)"),
    Table(A2C, {**COMMON, **CHOICES}, CLASHES, "(discrete)"),
    Table(replayed("sac"), {**REPLAYED, **acting(*CRITICS), **ENTROPY}, CLASHES),
    Table(replayed("td3"), {**REPLAYED, **acting(*CRITICS), **NOISES, **SMOOTH}, CLASHES),
    Table(replayed("ddpg"), {**REPLAYED, **acting("critic", "target_critic"), **NOISES}, CLASHES),
    Table(replayed("dqn"), {**REPLAYED, **DQN}, CLASHES),
    Table(replayed("ddqn"), {**REPLAYED, **DQN}, CLASHES),
)
