"""Connects an agent of skrl for jax to the session: optimizers, keys, checkpoints of flax."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
from skrl import config
from skrl.models.jax import Model
from skrl.resources.noises.jax import Noise

from rltrain.session import Session
from rltrain_jax.trees import watch_tree
from rltrain_skrl.run.checkpoints import read_pickled
from rltrain_skrl.run.jax.env import with_final_observations
from rltrain_skrl.run.jax.keys import get_keys, load_keys, set_keys
from rltrain_skrl.run.jax.memory import PooledMemory
from rltrain_skrl.run.jax.normalizers import PooledScaler
from rltrain_skrl.run.jax.workarounds import EnvironmentInfo

_RATE = "learning_rate"

_OPTIMIZERS = {"q_network": "optimizer", "log_entropy_coefficient": "entropy_optimizer"}
"""Attributes of an agent, by model, that are not called as the model is."""


class JaxAgent(EnvironmentInfo):
    """Mixin for an agent of skrl for jax."""

    memory_class: type[PooledMemory]
    scaler_class = PooledScaler
    suffix = "pickle"
    with_final_observations = staticmethod(with_final_observations)

    # skrl's, read by this class.
    models: dict[str, Model]
    device: jax.Device

    def average_together(self, *roles: str) -> None:
        """Average the gradients of the optimizers of these models in one collective.

        skrl steps them in this order, and may not use a model of an earlier one in between: it is
        stepped only with the last one.
        """
        optimizers = {}
        for role in roles:
            name = _OPTIMIZERS.get(role, f"{role}_optimizer")
            own = optimizers[name] = AveragedOptimizer(getattr(self, name), getattr(self, role))
            setattr(self, name, own)
            self.checkpoint_modules[name] = own
        step_together(self._session, optimizers)

    def watch_optimizers(self) -> None:
        """Register learning rates and moments with the divergence check."""
        for name, part in self.checkpoint_modules.items():
            if isinstance(part, AveragedOptimizer):
                watch_tree(self._session, name, part.moments)
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
        return [part for _, part in sorted(self.keyed_parts().items())]

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
        return [x for x in vars(self) if x.endswith(_RATE) or x == "_update_counter"]

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


class AveragedOptimizer:
    """An optimizer of skrl that stays one object, and that checkpoints save and load.

    skrl's `step` returns a new optimizer, but its checkpoints keep the first one, from before any
    step, and loading skips it (a bug of skrl 2.1.0 to 2.1.1). This one saves its current state in
    skrl's format.
    """

    def __init__(self, optimizer: Any, model: Any) -> None:
        """Take an optimizer of skrl and the model that it steps."""
        self.optimizer = optimizer
        self.model = model
        self.step_with_others: Callable[[AveragedOptimizer, Any, float | None], None] | None = None

    @property
    def state_dict(self) -> Any:
        """The optimizer under the names with which skrl's checkpoints read and set parameters."""
        return SimpleNamespace(params=self.optimizer, replace=lambda params: params)

    @state_dict.setter
    def state_dict(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def step(self, *, grad: Any, model: Any, lr: float | None = None) -> AveragedOptimizer:
        """Step by the mean gradients over ranks, once all have theirs; see skrl."""
        assert self.step_with_others is not None, "A step before `step_together`."
        self.step_with_others(self, grad, lr)
        return self

    def moments(self) -> Any:
        """Return the current state."""
        return self.optimizer.state

    def apply(self, grad: Any, lr: float | None) -> None:
        """Step by averaged gradients, which skrl clips first."""
        self.optimizer = self.optimizer.step(grad=grad, model=self.model, lr=lr)


def step_together(session: Session, optimizers: Mapping[str, AveragedOptimizer]) -> None:
    """Average the gradients of optimizers in one collective, when the last one steps."""
    sync = session.gradient_sync(
        {name: x.model.state_dict.params for name, x in optimizers.items()}
    )
    waiting: dict[int, tuple[Any, float | None]] = {}

    def step(optimizer: AveragedOptimizer, grad: Any, lr: float | None) -> None:
        waiting[id(optimizer)] = grad, lr
        if len(waiting) < len(optimizers):
            return
        given = {name: waiting.pop(id(x)) for name, x in optimizers.items()}
        means = sync({name: grad for name, (grad, _) in given.items()})
        for name, own in optimizers.items() if means is not None else ():
            own.apply(means[name], given[name][1])

    for optimizer in optimizers.values():
        optimizer.step_with_others = step


class Progress:
    """What skrl's checkpoints leave out: the iteration, and numbers of the agent by name."""

    def __init__(self, agent: Any, names: Callable[[], list[str]]) -> None:
        self.iteration = 0
        self._agent = agent
        self._names = names

    @property
    def state_dict(self) -> Any:
        """The numbers under the names with which skrl's checkpoints read and set parameters."""
        numbers = {name: getattr(self._agent, name) for name in self._names()}
        own = {name: x if isinstance(x, int) else float(x) for name, x in numbers.items()}
        params = {"iteration": self.iteration, "agent": own}
        return SimpleNamespace(params=params, replace=lambda params: params)

    @state_dict.setter
    def state_dict(self, state: Any) -> None:
        self.iteration = int(state["iteration"])
        for name, value in state["agent"].items():
            setattr(self._agent, name, value)
