"""Workarounds for bugs of rsl_rl and for differences between its versions, 5.0.1 to 5.5.

Isaac Lab 3 pins 5.0.1, later 5.4.1; mjlab pins 5.4.2. Each workaround names the versions that need
it. Remove it when the oldest supported version does not. Options are handled in `declare/older.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from rsl_rl.extensions import RandomNetworkDistillation
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from rltrain_rsl_rl.declare.options import MODELS

RAW = "_raw_"


class CompileFallback:
    """What algorithms have from 5.1 on; put it after rsl_rl's class in the bases.

    From 5.1 on, models can be compiled, and `_raw_actor` and so on are the uncompiled models.
    """

    def __getattr__(self, name: str) -> Any:
        """Return the model for its uncompiled version, before 5.1."""
        if name.startswith(RAW) and name.removeprefix(RAW) in MODELS:
            return getattr(self, name.removeprefix(RAW))
        raise AttributeError(name)

    def compile(self, mode: str | None) -> None:
        """Use the models that were set as `_raw_actor` and so on; `mode` is None before 5.1."""
        for name in (name for name in MODELS if RAW + name in vars(self)):
            setattr(self, name, getattr(self, RAW + name))


def rnd_optimizer(algorithm: Any) -> Any:
    """Return the optimizer of random network distillation; before 5.1, the algorithm has it."""
    return getattr(algorithm, "rnd_optimizer", None) or algorithm.rnd.optimizer


@torch.no_grad()
def predictor_loss(rnd: RandomNetworkDistillation, observations: TensorDict) -> torch.Tensor:
    """Return the predictor's loss, for which rsl_rl has no method before 5.1."""
    state = rnd.state_normalizer(rnd.get_rnd_state(observations))
    return torch.nn.functional.mse_loss(rnd.predictor(state), rnd.target(state))


def restore_learning_rate(algorithm: Any) -> None:
    """Set the algorithm's learning rate to that of its optimizer, after a checkpoint was loaded.

    Before 5.4.2, rsl_rl restores only the optimizer's, and continues to adapt the initial one
    (rsl_rl issue 221).
    """
    algorithm.learning_rate = algorithm.optimizer.param_groups[0]["lr"]


def set_symmetry_defaults(options: dict[str, Any]) -> None:
    """Set the defaults that the options of symmetry have from 5.1 on, in place."""
    symmetry = options["algorithm"].get("symmetry_cfg")
    if symmetry:
        symmetry.setdefault("use_data_augmentation", False)
        symmetry.setdefault("use_mirror_loss", False)
        symmetry.setdefault("mirror_loss_coeff", 0.0)


def keep_dtypes(storage: RolloutStorage, observations: TensorDict) -> None:
    """Make a storage keep the dtypes of observations, as it does from 5.4 on.

    Before, uint8 images come back as floats, and a model would not divide them by 255.
    """
    for name, group in observations.items():
        stored = storage.observations[name]
        if stored.dtype != group.dtype:
            storage.observations[name] = stored.to(group.dtype)
