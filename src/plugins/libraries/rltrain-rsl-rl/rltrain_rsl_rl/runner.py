"""rsl_rl's runner, which leaves ranks, logging and checkpoints to the session.

rsl_rl itself reads WORLD_SIZE, creates an NCCL group and averages gradients. This package
subclasses its runner, algorithms, storage and normalizers, so that the session does this instead.
`tests/test_rsl_rl_contract.py` checks the overridden methods against the installed version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.runners import OnPolicyRunner

from rltrain.errors import StopTraining, UsageError, fitting
from rltrain_adapters import as_given
from rltrain_rsl_rl.distillation import SessionDistillation
from rltrain_rsl_rl.env import RslRlEnv
from rltrain_rsl_rl.images import use_byte_models
from rltrain_rsl_rl.keys import RESTORED
from rltrain_rsl_rl.logger import SessionLogger
from rltrain_rsl_rl.older import ordered, upgrade_checkpoint
from rltrain_rsl_rl.options import DISTILLATION_NAMES, class_of, set_observation_groups
from rltrain_rsl_rl.ppo import SessionPPO
from rltrain_rsl_rl.upstream import keep_dtypes, set_symmetry_defaults
from rltrain_torch.checkpoints import as_file
from rltrain_torch.policy import read_checkpoint

if TYPE_CHECKING:
    from rltrain.session import Session


_STEPS = "common_step_counter"
"""What curricula of Isaac Lab and mjlab go by. mjlab's runner keeps it in checkpoints, in
`infos["env_state"]`, and so does this one."""


class SessionRunner(OnPolicyRunner):
    """Trains with PPO or distillation on one rank of a session."""

    alg: SessionPPO | SessionDistillation

    def __init__(self, env: RslRlEnv, options: dict[str, Any], session: Session) -> None:
        """Create models, algorithm and logger.

        Args:
            env: the environment.
            options: options in rsl_rl's format; rsl_rl changes them.
            session: this rank's session.
        """
        self.session = session
        distils = options["algorithm"]["class_name"] in DISTILLATION_NAMES
        options["algorithm"]["class_name"] = SessionDistillation if distils else SessionPPO
        use_byte_models(options)
        set_symmetry_defaults(options)
        models = ("student", "teacher") if distils else ("actor", "critic")
        set_observation_groups(options, models, env.get_observations().keys())
        _check_time_step(options, env)
        _check_precision(options, session.world.device)
        log_dir, device = str(session.run_folder.checkpoints), session.world.device
        super().__init__(env, options, log_dir=log_dir, device=device)
        keep_dtypes(self.alg.storage, env.get_observations())
        for model in models:
            _check_normalization(model, getattr(self.alg, model))
        self.logger = SessionLogger(
            session,
            self.alg.extra_metrics,
            self.save,
            log_dir=log_dir,
            cfg=self.cfg,
            env_cfg=env.cfg,
            num_envs=env.num_envs,
            is_distributed=self.is_distributed,
            gpu_world_size=self.gpu_world_size,
            gpu_global_rank=self.gpu_global_rank,
            device=device,
        )
        self._last_saved = ""

    def connect(self) -> None:
        """Load the session's checkpoint, if there is one, and connect the algorithm. Collective."""
        if self.session.checkpoint is not None:
            self._load(self.session.checkpoint)
        self.alg.connect(self.session, self.cfg.get("torch_compile_mode"))
        if self.session.resuming_exactly:
            with fitting(self.session.checkpoint):
                state = self.session.rank_state
                self.alg.set_state(state["algorithm"])
                self.env.set_state(state["env"])

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train until the iterations are done or the session stops the run; save at the end."""
        try:
            super().learn(num_learning_iterations, init_at_random_ep_len)
        except StopTraining:
            self.save(f"model_{self.current_learning_iteration}.pt")

    def save(self, path: str, infos: dict[str, Any] | None = None) -> None:
        """Save a checkpoint, in rsl_rl's format, in the run folder. Collective.

        Args:
            path: its file name is used; its folder is not.
            infos: stored in the checkpoint.
        """
        name, save = Path(path).name, super().save
        if name == self._last_saved:
            return  # rsl_rl saves the last iteration twice if `save_interval` divides its number.
        self._last_saved = name
        counters = self.alg.counters()
        if counters:
            infos = {**(infos or {}), "rltrain": counters}
        env = self.env.unwrapped
        steps = env.get_curricula().get(_STEPS) if hasattr(env, "get_curricula") else None
        if steps is not None:
            infos = {**(infos or {}), "env_state": {_STEPS: steps}}

        def write(partial: Path) -> None:
            # torch would write the name of a path into the file, and equal states would differ.
            with partial.open("wb") as file:
                save(file, infos)

        state = {"algorithm": self.alg.get_state(), "env": self.env.get_state()}
        done = self.current_learning_iteration + 1
        self.session.save_checkpoint(name, write, done, rank_state=state)

    def _load(self, checkpoint: Path) -> None:
        # rsl_rl saves the index of the last finished iteration, and would repeat that iteration. A
        # checkpoint that contains only the teacher leaves the index unchanged.
        self.current_learning_iteration = -1
        trusted, device = self.session.config.trust, self.session.world.device
        saved = upgrade_checkpoint(read_checkpoint(checkpoint, device, trusted))
        with fitting(checkpoint):
            # rsl_rl's own loader runs whatever code a file names.
            file = as_file(ordered(saved, self._parameter_names()))
            with as_given(self.session, self.alg, RESTORED):
                infos = self.load(file, map_location=device)
            self.current_learning_iteration += 1
            self.alg.set_counters((infos or {}).get("rltrain", {}))
            self._set_steps((infos or {}).get("env_state") or {})

    def _parameter_names(self) -> list[str]:
        """Return the names of the optimizer's parameters, in its order, after their models'."""
        models = ("student",) if hasattr(self.alg, "student") else ("actor", "critic")
        parameters = {
            parameter: f"{model}.{name}"
            for model in models
            for name, parameter in getattr(self.alg, model).named_parameters()
        }
        return [parameters[x] for x in self.alg.optimizer.param_groups[0]["params"]]

    def _set_steps(self, state: Mapping[str, Any]) -> None:
        env = self.env.unwrapped
        # The state that rltrain writes beside a checkpoint has more. A student begins anew.
        goes_on = self.current_learning_iteration > 0 and not self.session.iteration
        if goes_on and _STEPS in state and hasattr(env, "set_curricula"):
            env.set_curricula({_STEPS: state[_STEPS]})

    def _configure_multi_gpu(self) -> None:
        """Set the ranks from the session; the backend has already created the process group."""
        world = self.session.world
        self.gpu_world_size = world.world_size
        self.gpu_global_rank = world.rank
        self.gpu_local_rank = world.local_rank
        # If true, the runner would broadcast in learn() and log on rank 0 only, which the session
        # does. The algorithm averages over ranks if there is a `multi_gpu`.
        self.is_distributed = False
        self.cfg["multi_gpu"] = None
        if world.world_size > 1 or self.session.config.distributed:
            self.cfg["multi_gpu"] = {
                "global_rank": world.rank,
                "local_rank": world.local_rank,
                "world_size": world.world_size,
            }


def _check_time_step(options: dict[str, Any], env: RslRlEnv) -> None:
    if options["algorithm"].get("rnd_cfg") and not hasattr(env.unwrapped, "step_dt"):
        raise UsageError(
            "agent.algorithm.rnd_cfg: rsl_rl scales the weight of intrinsic rewards by the time "
            "between two steps, step_dt, which the task's environment does not offer. Set it to "
            "null, or choose a task that offers it, such as the embedded ones (rltrain/...)."
        )


def _check_normalization(name: str, model: Any) -> None:
    # A CNNModel's `obs_groups` are its vectors. Only they are normalized.
    if model.obs_normalization and not model.obs_groups:
        raise UsageError(
            f"agent.{name}.obs_normalization=true: the {name} reads images only, which rsl_rl does "
            f"not normalize. Give agent.{name}.obs_normalization=false."
        )


def _check_precision(options: dict[str, Any], device: str) -> None:
    if device != "cpu" or not options["algorithm"].get("use_mixed_precision"):
        return
    models = {name: options.get(name) or {} for name in ("actor", "critic")}
    if class_of(models["actor"].get("distribution_cfg") or {}) == "BetaDistribution":
        raise UsageError(
            "agent.algorithm.use_mixed_precision: on a CPU, torch cannot sample from a beta "
            "distribution in bfloat16. Leave it out, or choose another "
            "agent.actor.distribution_cfg.class_name."
        )
    for name, model in models.items():
        # To rsl_rl, whatever is not a GRU is an LSTM.
        lstm = class_of(model) == "RNNModel" and str(model.get("rnn_type")).lower() != "gru"
        if lstm and not half_lstm_runs():
            raise UsageError(
                "agent.algorithm.use_mixed_precision: on this CPU, torch has no LSTM in bfloat16. "
                f"Leave it out, or give agent.{name}.rnn_type=gru."
            )


def half_lstm_runs() -> bool:
    """Return whether torch has an LSTM in bfloat16 on this CPU. Without AVX-512, it has none."""
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        try:
            torch.nn.LSTM(1, 1)(torch.zeros(1, 1, 1))
        except RuntimeError:
            return False
    return True
