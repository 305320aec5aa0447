"""Connects an agent of skrl for jax to the session: optimizers, keys, checkpoints of flax."""

from __future__ import annotations

import functools
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from skrl import config
from skrl.models.jax import Model
from skrl.resources.noises.jax import Noise

from rltrain_jax.trees import watch_tree
from rltrain_skrl.checkpoints import read_pickled
from rltrain_skrl.jax.divergence import PooledDivergence
from rltrain_skrl.jax.env import with_final_observations
from rltrain_skrl.jax.keys import get_keys, load_keys, set_keys
from rltrain_skrl.jax.memory import PooledMemory
from rltrain_skrl.jax.optimizers import AveragedOptimizer, step_together
from rltrain_skrl.jax.progress import Progress
from rltrain_skrl.jax.scaler import PooledScaler
from rltrain_skrl.jax.workarounds import EnvironmentInfo

_RATE = "learning_rate"


class JaxAgent(EnvironmentInfo):
    """Mixin for an agent of skrl for jax."""

    memory_class: type[PooledMemory]
    scaler_class = PooledScaler
    suffix = "pickle"
    with_final_observations = staticmethod(with_final_observations)

    # skrl's, read by this class.
    models: dict[str, Model]
    device: jax.Device

    def average_together(self, divergence: PooledDivergence | None = None, **models: Any) -> None:
        """Average the gradients of several optimizers in one collective.

        Args:
            divergence: what decides on their learning rates, averaged in the same collective.
            models: by the attributes of their optimizers, in the order in which skrl steps them.
                skrl may not use a model of an earlier one in between.
        """
        optimizers = {}
        for name, model in models.items():
            own = optimizers[name] = AveragedOptimizer(getattr(self, name), model)
            setattr(self, name, own)
            self.checkpoint_modules[name] = own
        step_together(self._session, optimizers, divergence)

    def watch_optimizers(self) -> None:
        """Register learning rates and moments with the divergence check."""
        for name, part in self.checkpoint_modules.items():
            if isinstance(part, AveragedOptimizer):
                watch_tree(self._session, name, functools.partial(_moments, part))
        self._session.watch("learning rates", self.learning_rates)

    def learning_rates(self) -> Mapping[str, float]:
        """Return the learning rates by purpose."""
        return {
            name.removesuffix(_RATE).replace("_", " ").strip(): float(value)
            for name, value in vars(self).items()
            if name.endswith(_RATE)
        }

    def numbers(self, values: Mapping[str, list[Any]]) -> Any:
        """Return tracked metrics as numbers on the host, fetched all at once."""
        return {
            name: [np.asarray(x).reshape(()) for x in fetched]
            for name, fetched in jax.device_get(dict(values)).items()
        }

    # Keys

    def keyed_parts(self) -> dict[str, Any]:
        """Return what samples with a key, by name: models and noises."""
        return {**self.models, **{n: x for n, x in vars(self).items() if isinstance(x, Noise)}}

    def _sorted_parts(self) -> list[Any]:
        parts = self.keyed_parts()
        return [parts[name] for name in sorted(parts)]

    def begin_learning(self) -> None:
        """Sample with this rank's key from now on, or restore the keys of the checkpoint."""
        set_keys(self._sorted_parts(), config.jax.key)
        state = self._session.rank_state
        if self._session.resuming_exactly and state is not None:
            load_keys(self._sorted_parts(), state["keys"], self.device)

    def rank_state(self) -> Any:
        """Return the keys, on the host."""
        return {"keys": get_keys(self._sorted_parts())}

    # Checkpoints

    def make_progress(self) -> Progress:
        """Return what skrl leaves out of its checkpoints."""
        return Progress(self, self.unsaved)

    def unsaved(self) -> list[str]:
        """Return the names of numbers that skrl leaves out of its checkpoints."""
        return [name for name in vars(self) if name.endswith(_RATE)]

    def read(self, path: Path, trusted: bool) -> Mapping[str, Any]:
        """Return a checkpoint's parts by name; only if it is trusted may it run code."""
        return read_pickled(path, trusted)

    def load_parts(self, parts: Mapping[str, Any]) -> None:
        """Load parts as skrl loads a checkpoint: it unpickles a file, of whatever origin."""
        with tempfile.NamedTemporaryFile() as file:
            pickle.dump(dict(parts), file)
            file.flush()
            self.load(file.name)

    def write(self, path: Path) -> None:
        """Save as skrl does."""
        self.save(str(path))  # type: ignore[attr-defined]

    def load(self, path: str) -> None:
        """Load as skrl does, and move the parts to this rank's device."""
        super().load(path)  # type: ignore[misc]
        for part in self.checkpoint_modules.values():
            if isinstance(part, Model):
                params = jax.device_put(part.state_dict.params, self.device)
                part.state_dict = part.state_dict.replace(params=params)
            elif isinstance(part, AveragedOptimizer):
                part.optimizer = jax.device_put(part.optimizer, self.device)


def _moments(optimizer: AveragedOptimizer) -> Any:
    return optimizer.optimizer.state
