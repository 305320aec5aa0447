"""What rsl_rl before 5.5 has otherwise: everything that depends on its version, but the options.

Isaac Lab 3 pins 5.0.1, later 5.4.1; mjlab 5.4.2. Options of rsl_rl 3 and 4 are the matter of
`older`, those that came after 5.0 of `newer`.
"""

from __future__ import annotations

from typing import Any

from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from rltrain_rsl_rl.options import MODELS

__all__ = ["Compilable", "fill_symmetry", "keep_types", "rnd_optimizer"]

RAW = "_raw_"


class Compilable:
    """What algorithms have from 5.1 on; a base that comes after rsl_rl's own class.

    Their models are compiled, and the models as they were made are `_raw_actor` and so on.
    """

    def __getattr__(self, name: str) -> Any:
        """Return the model itself for the one before compilation, before 5.1."""
        if name.startswith(RAW) and name.removeprefix(RAW) in MODELS:
            return getattr(self, name.removeprefix(RAW))
        raise AttributeError(name)

    def compile(self, mode: str | None) -> None:
        """Take models that were put in place of `_raw_actor` and so on; `mode` is None."""
        for name in (name for name in MODELS if RAW + name in vars(self)):
            setattr(self, name, getattr(self, RAW + name))


def rnd_optimizer(algorithm: Any) -> Any:
    """Return the optimizer of random network distillation, which before 5.1 is the algorithm's."""
    return getattr(algorithm, "rnd_optimizer", None) or algorithm.rnd.optimizer


def fill_symmetry(options: dict[str, Any]) -> None:
    """Give symmetry's options the defaults that they have from 5.1 on, in place."""
    symmetry = options["algorithm"].get("symmetry_cfg")
    if symmetry:
        symmetry.setdefault("use_data_augmentation", False)
        symmetry.setdefault("use_mirror_loss", False)
        symmetry.setdefault("mirror_loss_coeff", 0.0)


def keep_types(storage: RolloutStorage, observations: TensorDict) -> None:
    """Make a storage keep observations in their own types, as it does from 5.4 on.

    Before, images of bytes come back as floats, which a model cannot tell from those of floats.
    """
    for name, group in observations.items():
        kept = storage.observations[name]
        if kept.dtype != group.dtype:
            storage.observations[name] = kept.to(group.dtype)
