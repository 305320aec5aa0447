"""skrl's PPO as an agent of the session: its figures, checkpoints and gradients go there."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from skrl.agents.torch.ppo import PPO

from rltrain.errors import StopTraining, UsageError
from rltrain.records import Scalars
from rltrain.session import Session
from rltrain_skrl.torch.env import FINAL
from rltrain_torch.gradients import synchronise

__all__ = ["Progress", "SessionPPO"]

_PROGRESS = "rltrain"
"""Name of `Progress` in a checkpoint. Stock skrl skips it, with a warning, as it does any name."""

_MISFITS = (LookupError, RuntimeError, TypeError, ValueError, EOFError, pickle.UnpicklingError)


class Progress:
    """What skrl's checkpoints do not hold: how far training has come."""

    def __init__(self) -> None:
        self.iteration = 0

    def state_dict(self) -> dict[str, int]:
        """Return what a checkpoint holds."""
        return {"iteration": self.iteration}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Take up where the checkpoint left off."""
        self.iteration = int(state["iteration"])


class SessionPPO(PPO):
    """PPO that records each iteration, and saves, through the session; it writes nothing itself."""

    def __init__(self, *, session: Session, **components: Any) -> None:
        """Build skrl's agent, and ask the session for its gradient sync.

        Args:
            session: this rank's side of the run.
            components: what skrl's own agent takes; the models are wrapped already.
        """
        super().__init__(**components)
        self._session = session
        self._progress = self.checkpoint_modules[_PROGRESS] = Progress()
        self._divert_reduction()
        session.watch("optimizer", lambda: {"learning rate": self._learning_rate})

    @property
    def _learning_rate(self) -> float:
        return float(self.optimizer.param_groups[0]["lr"])

    def _divert_reduction(self) -> None:
        """Average all gradients in one go.

        skrl reduces the policy's gradients and then, if it is another model, the value's: a
        collective each. The last of the two calls does the work of both.
        """
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        parameters = list(dict.fromkeys(parameters))
        sync = self._session.gradient_sync(parameters)
        self.policy.reduce_parameters = lambda: None
        self.value.reduce_parameters = lambda: synchronise(sync, parameters)

    def init(self, *, trainer_cfg: Any = None) -> None:
        """Prepare for training, as the trainer asks; skrl's own files stay off."""
        # With an interval of zero skrl makes neither a writer nor a folder, and tracks no episodes:
        # the session counts those for every library alike.
        self.write_interval = self.checkpoint_interval = 0
        super().init(trainer_cfg=trainer_cfg)
        every = self.cfg.experiment.checkpoint_interval
        self._save_every = trainer_cfg.timesteps // 10 if every == "auto" else int(every)

    def record_transition(self, **transition: Any) -> None:
        """Store one step of every environment; see skrl for the arguments.

        At a time limit skrl adds the value of the next observations, but with SAME_STEP autoreset
        those belong to the next episode. The final ones take their place; where the task does not
        give them, those of the step before, which are next to them.
        """
        # An episode that ends by itself at its time limit has no value after it.
        truncated = transition["truncated"] & ~transition["terminated"]
        transition["truncated"] = truncated
        known = transition["infos"].get(FINAL)
        for index, name in enumerate(("observations", "states")):
            if transition[name] is None:
                continue
            last = transition[name]
            if known is not None:
                last = torch.where(known[2], known[index], last)
            following = f"next_{name}"
            transition[following] = torch.where(truncated, last, transition[following])
        super().record_transition(**transition)

    def post_interaction(self, *, timestep: int, timesteps: int) -> None:
        """Update when the rollout is full, and end the iteration.

        Raises:
            StopTraining: the session says so, and all is saved.
        """
        super().post_interaction(timestep=timestep, timesteps=timesteps)
        rollouts = self.cfg.rollouts
        if (timestep + 1) % rollouts:
            return
        self._progress.iteration += 1
        iteration, remaining = self._progress.iteration, (timesteps - timestep - 1) // rollouts
        self._session.record(
            Scalars(iteration, values=self._take_figures(), iterations=iteration + remaining)
        )
        stop = self._session.should_stop
        if stop or not remaining or self._interval_passed(iteration * rollouts):
            self._save(iteration)
        if stop:
            raise StopTraining

    def _take_figures(self) -> dict[str, float]:
        """Return what skrl tracked in this iteration, and forget it on every rank.

        skrl forgets only when it writes, which ranks other than 0 never do.
        """
        merge = {"(min)": np.min, "(max)": np.max}
        figures = {
            name: float(merge.get(name[-5:], np.mean)(values))
            for name, values in self.tracking_data.items()
        }
        figures["Learning / Learning rate"] = self._learning_rate
        if not isinstance(self.action_space, spaces.Box):
            figures.pop("Policy / Standard deviation", None)  # NaN: choices have none.
        self.tracking_data.clear()
        return figures

    def _interval_passed(self, timestep: int) -> bool:
        every = self._save_every
        return every > 0 and timestep // every > (timestep - self.cfg.rollouts) // every

    def _save(self, iteration: int) -> None:
        name = f"agent_{iteration * self.cfg.rollouts}.pt"
        self._session.save_checkpoint(name, lambda path: self.save(str(path)), iteration)

    def resume(self, path: Path) -> None:
        """Load a checkpoint of skrl. Every rank does.

        Raises:
            UsageError: it does not fit these options and this task.
        """
        try:
            saved = set(torch.load(path, map_location="cpu", weights_only=False))
            odd = (saved ^ set(self.checkpoint_modules)) - {_PROGRESS}
            if odd:
                raise ValueError(f"only one of the two has {', '.join(sorted(odd))}")
            self.load(str(path))
        except (*_MISFITS, OSError) as error:
            raise UsageError(
                f"--checkpoint {path}: does not fit these options and this task: {error}. Give the "
                "task and the agent options that it was trained with."
            ) from error
