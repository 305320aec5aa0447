"""Every private seam of rsl_rl that this adapter uses.

rsl_rl reads WORLD_SIZE, makes an NCCL group and averages gradients by itself. Its runner and its
algorithm are subclassed here so that the session does these things;
`tests/test_rsl_rl_contract.py` checks the seams against the installed version.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from rltrain.errors import StopTraining, UsageError
from rltrain.types import GradientSync, ProcessGroup
from rltrain_rsl_rl.logger import SessionLogger
from rltrain_torch.gradients import synchronise

if TYPE_CHECKING:
    from rltrain.session import Session

__all__ = ["SessionPPO", "SessionRunner"]


class SessionPPO(PPO):
    """rsl_rl's PPO with the session's gradient sync.

    The collectives that PPO calls by itself, for the KL divergence and the learning rate, go over
    the default group, which the backend has made; so do those of its observation normalisers.
    """

    _raw_actor: torch.nn.Module
    _raw_critic: torch.nn.Module
    group: ProcessGroup
    gradient_sync: GradientSync
    parameters: list[torch.nn.Parameter]

    def connect(self, session: Session, compile_mode: str | None) -> None:
        """Give the models rank 0's state and make the gradient sync. Collective.

        Args:
            session: this rank's side of the run.
            compile_mode: rsl_rl's `torch_compile_mode`.
        """
        self.group = session.group
        self._raw_actor = session.wrap_model(self._raw_actor, "actor")
        self._raw_critic = session.wrap_model(self._raw_critic, "critic")
        self.compile(compile_mode)
        models = chain(self._raw_actor.parameters(), self._raw_critic.parameters())
        # Actor and critic may share encoders: each parameter once.
        self.parameters = [item for item in dict.fromkeys(models) if item.requires_grad]
        self.gradient_sync = session.gradient_sync(self.parameters)
        session.watch("optimiser", lambda: {"learning_rate": self.learning_rate})

    def reduce_parameters(self) -> None:
        """Average the gradients over ranks; called after each backward pass on several ranks."""
        synchronise(self.gradient_sync, self.parameters)

    def broadcast_parameters(self) -> None:
        """Do nothing: `session.wrap_model` has given every rank rank 0's state."""

    def compute_returns(self, obs: TensorDict) -> None:
        """Compute returns, and advantages that are normalised over all ranks.

        rsl_rl normalises over one rank's environments, which is not what one rank with the
        environments of all would do.
        """
        super().compute_returns(obs)
        if self.group.world_size > 1 and not self.normalize_advantage_per_mini_batch:
            advantages = self.storage.returns - self.storage.values
            self.storage.advantages = _standardised(self.group, advantages)


class SessionRunner(OnPolicyRunner):
    """rsl_rl's runner, with its place, its log and its checkpoints from the session."""

    def __init__(self, env: VecEnv, options: dict[str, Any], session: Session) -> None:
        """Make models, algorithm and logger.

        Args:
            env: the environment.
            options: in rsl_rl's format; changed by rsl_rl.
            session: this rank's side of the run.

        Raises:
            UsageError: the options name observation groups that the task does not have.
        """
        self.session = session
        options["algorithm"]["class_name"] = SessionPPO
        _fill_observation_groups(options, env.get_observations().keys())
        log_dir, device = str(session.run_folder.checkpoints), session.world.device
        super().__init__(env, options, log_dir=log_dir, device=device)
        self.logger = SessionLogger(
            session,
            log_dir=log_dir,
            cfg=self.cfg,
            env_cfg=env.cfg,
            num_envs=env.num_envs,
            is_distributed=self.is_distributed,
            gpu_world_size=self.gpu_world_size,
            gpu_global_rank=self.gpu_global_rank,
            device=device,
        )
        self._saved = ""

    def connect(self) -> None:
        """Make models and optimiser the run's, from the session's checkpoint if there is one.

        Raises:
            UsageError: the checkpoint does not fit.
        """
        if self.session.checkpoint is not None:
            self._resume(self.session.checkpoint)
        self.alg.connect(self.session, self.cfg.get("torch_compile_mode"))

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train, until the iterations are done or the session wants to stop; save at the end."""
        try:
            super().learn(num_learning_iterations, init_at_random_ep_len)
        except StopTraining:
            self.save(f"model_{self.current_learning_iteration}.pt")

    def save(self, path: str, infos: dict[str, Any] | None = None) -> None:
        """Save a checkpoint that rsl_rl's own runner loads, on rank 0, in the run folder.

        Args:
            path: only its last part, the file's name, counts.
            infos: stored with it, as rsl_rl does.
        """
        name, save = Path(path).name, super().save
        if name == self._saved:
            return  # rsl_rl saves the last iteration twice if `save_interval` divides its number.
        self._saved = name
        self.session.save_checkpoint(
            name,
            lambda partial: save(str(partial), infos),
            self.current_learning_iteration + 1,
        )

    def _resume(self, checkpoint: Path) -> None:
        try:
            self.load(str(checkpoint), map_location=self.session.world.device)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise UsageError(
                f"--checkpoint {checkpoint}: does not fit this run ({type(error).__name__}: "
                f"{reason}). Give the task and the agent options that it was trained with."
            ) from error
        # rsl_rl saves the index of the last finished iteration, and would do that one again.
        self.current_learning_iteration += 1

    def _configure_multi_gpu(self) -> None:
        """Take the place in the world from the session; the backend has made the process group."""
        world = self.session.world
        self.gpu_world_size = world.world_size
        self.gpu_global_rank = world.rank
        self.gpu_local_rank = world.local_rank
        # To the runner, this means "broadcast in learn() and log on rank 0 only": both are the
        # session's. To the algorithm, `multi_gpu` says whether to average over ranks.
        self.is_distributed = False
        self.cfg["multi_gpu"] = None
        if world.world_size > 1 or self.session.config.distributed:
            self.cfg["multi_gpu"] = {
                "global_rank": world.rank,
                "local_rank": world.local_rank,
                "world_size": world.world_size,
            }


def _fill_observation_groups(options: dict[str, Any], offered: Iterable[str]) -> None:
    """Choose groups for the sets that have none, as rsl_rl would with a warning."""
    names = set(offered)
    sets = options.setdefault("obs_groups", {})
    for model in ("actor", "critic"):
        sets.setdefault(model, [model if model in names else "policy"])
    for name, groups in sets.items():
        absent = [group for group in groups if group not in names]
        if absent or not groups:
            raise UsageError(
                f"agent.obs_groups.{name}={groups}: must name observation groups of the task, "
                f"which are {', '.join(sorted(names))}."
            )


def _standardised(group: ProcessGroup, x: torch.Tensor) -> torch.Tensor:
    """Return x minus its mean over all ranks, divided by its standard deviation over all ranks."""
    local = torch.stack([x.new_tensor(float(x.numel())), x.sum()]).double()
    count, total = group.all_reduce(local)
    mean = total / count
    squares = group.all_reduce((x - mean).square().sum().double())
    std = (squares / (count - 1)).sqrt()
    standardised: torch.Tensor = (x - mean) / (std + 1e-8)
    return standardised.to(x.dtype)
