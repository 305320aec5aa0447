"""The options of rsl_rl's distillation, to be combined."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from claims_rsl_rl import recurrent
from pairs import STEPS, Change, Clash, Table, change
from pairs_rsl_rl import BASE, NO_CRITIC, RSL_RL, algorithm, boolean, distribution
from shard_envs import BOTH

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


PPO = RSL_RL[0].options
IMAGES = ("images of bytes", "images with a vector", BOTH)
ONLY_IMAGES = ("images of bytes", BOTH)

OPTIONS: dict[str, dict[str, Change]] = {
    "environments": {str(number): change(num_envs=number) for number in (8, 2, 1)},
    "observations": {
        name: change(observations=name) for name in ("vector", "policy and critic", *IMAGES)
    },
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
    "gradient_length": {str(n): algorithm(gradient_length=n) for n in (4, STEPS, 5)},
    "num_learning_epochs": {str(n): algorithm(num_learning_epochs=n) for n in (2, 1)},
    "loss_type": {name: algorithm(loss_type=name) for name in ("mse", "huber")},
    "max_grad_norm": {str(norm): algorithm(max_grad_norm=norm) for norm in (1.0, 0.1, None)},
    "optimizer": PPO["optimizer"],
    "use_mixed_precision": PPO["use_mixed_precision"],
    "random lengths": PPO["random lengths"],
    "clip_actions": PPO["clip_actions"],
}

CLASHES = (
    Clash({"observations": (BOTH,), "actions": ("of other bounds", "without bounds")}, ""),
    # Its teacher would need the encoders of that task's own PPO.
    Clash({"observations": (BOTH,), "teacher": ("as the student", "normalizes")}, ""),
    Clash(
        {"observations": NO_CRITIC, "teacher": ("sees critic",)},
        "must name observation groups of the task",
        once_made=True,
    ),
    Clash(
        {"observations": IMAGES, "student": ("gru", "lstm")}, "MLPModel and RNNModel read vectors"
    ),
    Clash(
        {"use_mixed_precision": ("yes",), "student": ("gru", "lstm")},
        "its hidden states are bfloat16 after an update",
    ),
    Clash(
        {"observations": IMAGES, "teacher": ("recurrent",)}, "MLPModel and RNNModel read vectors"
    ),
    Clash(
        {"observations": ONLY_IMAGES, "student normalizes": ("yes",)},
        "reads images only",
        once_made=True,
    ),
    Clash(
        {"observations": ("images of bytes",), "teacher": ("normalizes",)},
        "reads images only",
        once_made=True,
    ),
)

DISTILLATION = (Table(STUDENT, OPTIONS, CLASHES),)
