"""The options of rsl_rl, to be combined: of PPO, and of distillation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from claim import Claim
from claims_rsl_rl import NOT_NORMALIZED, RND, recurrent, symmetry
from pairs import ONCE_MADE, STEPS, Change, Clash, Table, change, choices, shown, taken
from shard_envs import BOTH


def algorithm(**options: Any) -> Change:
    return change({f"algorithm.{name}": value for name, value in options.items()})


def size(num_envs: int, mini_batches: int) -> Change:
    cut = algorithm(num_mini_batches=mini_batches)
    return change(cut.agent, num_envs=num_envs, mini_batches=mini_batches)


def memory(kind: str, *models: str) -> Change:
    """Return a change that makes models recurrent; mini-batches then consist of environments."""
    return change(recurrent(kind, *models), cut="environments")


def distribution(
    name: str, model: str = "actor", by_rounding: bool = False, **options: Any
) -> Change:
    given = {"class_name": f"{name}Distribution", **options}
    agent = {f"{model}.distribution_cfg.{key}": value for key, value in given.items()}
    return change(agent, by_rounding)


def boolean(key: str) -> dict[str, Change]:
    """Return the two values of an option; the first is off."""
    return {"no": change({key: False}), "yes": change({key: True})}


OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop")
IMAGES = ("images of floats", "images of bytes", "images with a vector", BOTH)

MODELS: dict[str, dict[str, Change]] = {
    **shown("vector", "policy and critic", *IMAGES),
    "recurrent": {
        "no": change(),
        "gru": memory("gru", "actor", "critic"),
        "lstm": memory("lstm", "actor", "critic"),
        "the actor alone": memory("lstm", "actor"),
        "the critic alone": memory("gru", "critic"),
    },
}

PPO: dict[str, dict[str, Change]] = {
    "environments and mini-batches": {
        f"{n}, {cut}": size(n, cut) for n, cut in ((8, 4), (8, 1), (2, 1), (1, 1), (1, 4))
    },
    **MODELS,
    "critic sees": {
        "policy": change(),
        "critic": change({"obs_groups.critic": ["critic"]}),
        "both": change({"obs_groups.critic": ["policy", "critic"]}),
    },
    **taken("continuous", "of other bounds", "without bounds"),
    "actor normalizes": boolean("actor.obs_normalization"),
    "critic normalizes": boolean("critic.obs_normalization"),
    "distribution": {
        "Gaussian": distribution("Gaussian"),
        "Gaussian, scalar": distribution("Gaussian", std_type="scalar"),
        "Gaussian, bounded": distribution("Gaussian", std_range=[0.2, 1.5]),
        "Gaussian, not learned": distribution("Gaussian", learn_std=False),
        # rsl_rl raises the learning rate only if the divergence is above 0. That of the first
        # mini-batch is 0 but for the rounding of the standard deviations.
        "Heteroscedastic": distribution("HeteroscedasticGaussian", by_rounding=True),
        "Beta": change(
            {"actor.distribution_cfg": {"class_name": "BetaDistribution", "action_range": [-1, 1]}},
            by_rounding=True,
        ),
    },
    "learning rate": {
        "adaptive": algorithm(schedule="adaptive", desired_kl=0.01),
        "fixed": algorithm(schedule="fixed"),
        "adaptive to nothing": algorithm(schedule="adaptive", desired_kl=None),
    },
    **choices("algorithm.", optimizer=OPTIMIZERS, entropy_coef=(0.0, 0.01)),
    "use_clipped_value_loss": boolean("algorithm.use_clipped_value_loss"),
    "per mini-batch": boolean("algorithm.normalize_advantage_per_mini_batch"),
    **choices("algorithm.", max_grad_norm=(1.0, 0.1)),
    "symmetry": {
        "none": change(),
        "augmented": change(symmetry(True, False)),
        "mirror loss": change(symmetry(False, True)),
        "both": change(symmetry(True, True)),
    },
    "rnd": {
        "none": change(),
        "normalized": change(RND),
        "plain": change({**RND, **NOT_NORMALIZED}),
    },
    "one encoder": boolean("algorithm.share_cnn_encoders"),
    "use_mixed_precision": {
        "no": change(),
        "yes": change({"algorithm.use_mixed_precision": True}, by_rounding=True),
    },
    "random lengths": boolean("init_at_random_ep_len"),
    "clip_actions": {"no": change(), "yes": change({"clip_actions": 0.5})},
}

BASE = Claim(
    library="rsl_rl",
    algorithm="ppo",
    features="",
    agent={
        "num_steps_per_env": STEPS,
        "algorithm.num_learning_epochs": 2,
        "algorithm.learning_rate": 3e-4,
        "actor.hidden_dims": [16],
        "critic.hidden_dims": [16],
    },
)

RECURRENT = ("gru", "lstm", "the actor alone", "the critic alone")
VECTORS = ("vector", "policy and critic")
ONLY_IMAGES = ("images of floats", "images of bytes", BOTH)
NO_CRITIC = ("vector", "images of floats", "images of bytes", "images with a vector")

CLASHES = (
    Clash({"observations": (BOTH,), "actions": ("of other bounds", "without bounds")}, ""),
    Clash(
        {"environments and mini-batches": ("1, 1",), "recurrent": RECURRENT},
        "a mini-batch of a recurrent policy would have one environment",
    ),
    Clash(
        {"environments and mini-batches": ("1, 4",), "recurrent": RECURRENT},
        "whose whole trajectories form the mini-batches",
    ),
    Clash(
        {"observations": NO_CRITIC, "critic sees": ("critic", "both")},
        "must name observation groups of the task",
        ONCE_MADE,
    ),
    Clash(
        {"observations": IMAGES[:3], "recurrent": RECURRENT}, "MLPModel and RNNModel read vectors"
    ),
    # There the critic sees the state, with an MLPModel.
    Clash(
        {"observations": (BOTH,), "recurrent": RECURRENT[:3]}, "MLPModel and RNNModel read vectors"
    ),
    Clash(
        {"observations": (BOTH,), "recurrent": RECURRENT[3:]},
        "mini-batches consist of trajectories, which a CNNModel cannot read",
    ),
    Clash(
        {"observations": (BOTH,), "critic sees": ("both",)}, "MLPModel and RNNModel read vectors"
    ),
    Clash(
        {"observations": ONLY_IMAGES, "rnd": ("normalized", "plain")}, "its networks read vectors"
    ),
    Clash(
        {"observations": (*VECTORS, BOTH), "one encoder": ("yes",)},
        "actor and critic must both be a CNNModel",
    ),
    # Whatever is observed, one of those above.
    Clash({"recurrent": RECURRENT, "one encoder": ("yes",)}, ""),
    Clash({"critic sees": ("critic", "both"), "one encoder": ("yes",)}, ""),
    Clash(
        {"distribution": ("Beta",), "use_mixed_precision": ("yes",)},
        "torch cannot sample from a beta distribution in bfloat16",
        ONCE_MADE,
    ),
    Clash(
        {"symmetry": ("augmented", "mirror loss", "both"), "recurrent": RECURRENT},
        "rsl_rl mirrors single steps",
    ),
    Clash(
        {"observations": ONLY_IMAGES, "actor normalizes": ("yes",)}, "reads images only", ONCE_MADE
    ),
    Clash(
        {"observations": ONLY_IMAGES[:2], "critic normalizes": ("yes",)},
        "reads images only",
        ONCE_MADE,
    ),
)

TEACHER = dataclasses.replace(
    BASE,
    features="the teacher",
    agent={**BASE.agent, "algorithm.num_mini_batches": 1},
    max_iterations=1,
)
STUDENT = dataclasses.replace(
    BASE,
    algorithm="distillation",
    agent={"num_steps_per_env": STEPS, "student.hidden_dims": [16], "teacher.hidden_dims": [16]},
    teacher=TEACHER,
)


def taught(options: Mapping[str, Any]) -> Change:
    """Return a change of the teacher's model, and of the actor that it was."""

    def of(model: str) -> dict[str, Any]:
        return {key.replace("MODEL", model): value for key, value in options.items()}

    teacher = dataclasses.replace(TEACHER, agent={**TEACHER.agent, **of("actor")})
    return change(of("teacher"), teacher=teacher)


AS_PPO = ("optimizer", "use_mixed_precision", "random lengths", "clip_actions")
OF_BYTES = ("images of bytes", "images with a vector", BOTH)

OPTIONS: dict[str, dict[str, Change]] = {
    "environments": {str(number): change(num_envs=number) for number in (8, 2, 1)},
    **shown("vector", "policy and critic", *OF_BYTES),
    "actions": PPO["actions"],
    "teacher": {
        "as the student": taught({"MODEL.obs_normalization": False}),
        "normalizes": taught({"MODEL.obs_normalization": True}),
        "sees critic": taught(
            {
                "obs_groups.MODEL": ["critic"],
                "MODEL.class_name": "MLPModel",
                "MODEL.obs_normalization": True,
            }
        ),
        "recurrent": taught(recurrent("gru", "MODEL")),
    },
    "student": {
        "plain": change(),
        "gru": change(recurrent("gru", "student")),
        "lstm": change(recurrent("lstm", "student")),
    },
    "student normalizes": boolean("student.obs_normalization"),
    "distribution": {
        "Gaussian": distribution("Gaussian", "student"),
        "Gaussian, scalar": distribution("Gaussian", "student", std_type="scalar"),
        "Gaussian, bounded": distribution("Gaussian", "student", std_range=[0.2, 1.5]),
        "Heteroscedastic": distribution("HeteroscedasticGaussian", "student"),
    },
    **choices("algorithm.", gradient_length=(4, STEPS, 5), num_learning_epochs=(2, 1)),
    **choices("algorithm.", loss_type=("mse", "huber")),
    "max_grad_norm": {str(norm): algorithm(max_grad_norm=norm) for norm in (1.0, 0.1, None)},
    **{name: PPO[name] for name in AS_PPO},
}

STUDENTS_CLASHES = (
    CLASHES[0],
    # Its teacher would need the encoders of that task's own PPO.
    Clash({"observations": (BOTH,), "teacher": ("as the student", "normalizes")}, ""),
    Clash(
        {"observations": NO_CRITIC, "teacher": ("sees critic",)},
        "must name observation groups of the task",
        ONCE_MADE,
    ),
    Clash(
        {"observations": OF_BYTES, "student": ("gru", "lstm")}, "MLPModel and RNNModel read vectors"
    ),
    Clash(
        {"use_mixed_precision": ("yes",), "student": ("gru", "lstm")},
        "its hidden states are bfloat16 after an update",
    ),
    Clash(
        {"observations": OF_BYTES, "teacher": ("recurrent",)}, "MLPModel and RNNModel read vectors"
    ),
    Clash(
        {"observations": OF_BYTES[::2], "student normalizes": ("yes",)},
        "reads images only",
        ONCE_MADE,
    ),
    Clash(
        {"observations": ("images of bytes",), "teacher": ("normalizes",)},
        "reads images only",
        ONCE_MADE,
    ),
)

RSL_RL = (Table(BASE, PPO, CLASHES), Table(STUDENT, OPTIONS, STUDENTS_CLASHES))
