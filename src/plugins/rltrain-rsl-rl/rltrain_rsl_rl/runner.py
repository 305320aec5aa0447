"""rsl_rl's runner, with its place, its log and its checkpoints from the session.

rsl_rl reads WORLD_SIZE, makes an NCCL group and averages gradients by itself. Its runner, its
algorithms, its storage and its normalisers are subclassed in this package so that the session does
these things; `tests/test_rsl_rl_contract.py` checks the seams against the installed version.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsl_rl.runners import OnPolicyRunner

from rltrain.errors import StopTraining, UsageError
from rltrain_rsl_rl.compat import fill_symmetry, keep_types
from rltrain_rsl_rl.distillation import SessionDistillation
from rltrain_rsl_rl.env import RslRlEnv
from rltrain_rsl_rl.images import use_byte_models
from rltrain_rsl_rl.logger import SessionLogger
from rltrain_rsl_rl.options import DISTILLATION_NAMES, class_of
from rltrain_rsl_rl.ppo import SessionPPO
from rltrain_rsl_rl.state import on_device, on_host

if TYPE_CHECKING:
    from rltrain.session import Session

__all__ = ["SessionRunner"]


class SessionRunner(OnPolicyRunner):
    """Runs PPO or distillation on one rank of a session."""

    alg: SessionPPO | SessionDistillation

    def __init__(self, env: RslRlEnv, options: dict[str, Any], session: Session) -> None:
        """Make models, algorithm and logger.

        Args:
            env: the environment.
            options: in rsl_rl's format; changed by rsl_rl.
            session: this rank's side of the run.

        Raises:
            UsageError: the options do not fit the task's environment.
        """
        self.session = session
        distils = options["algorithm"]["class_name"] in DISTILLATION_NAMES
        options["algorithm"]["class_name"] = SessionDistillation if distils else SessionPPO
        use_byte_models(options)
        fill_symmetry(options)
        models = ("student", "teacher") if distils else ("actor", "critic")
        _fill_observation_groups(options, models, env.get_observations().keys())
        _check_time_step(options, env)
        _check_precision(options, session.world.device)
        log_dir, device = str(session.run_folder.checkpoints), session.world.device
        super().__init__(env, options, log_dir=log_dir, device=device)
        keep_types(self.alg.storage, env.get_observations())
        for model in models:
            _check_normalisation(model, getattr(self.alg, model))
        self.logger = SessionLogger(
            session,
            self.alg.figures,
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
        """Make models and optimisers the run's, from the session's checkpoint if there is one.

        Raises:
            UsageError: the checkpoint does not fit.
        """
        if self.session.checkpoint is not None:
            self._load(self.session.checkpoint)
        self.alg.connect(self.session, self.cfg.get("torch_compile_mode"))
        if self.session.resuming_exactly:
            state = on_device(self.session.rank_state, self.session.world.device)
            self.alg.set_state(state["algorithm"])
            self.env.set_state(state["env"])

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train, until the iterations are done or the session wants to stop; save at the end."""
        try:
            super().learn(num_learning_iterations, init_at_random_ep_len)
        except StopTraining:
            self.save(f"model_{self.current_learning_iteration}.pt")

    def save(self, path: str, infos: dict[str, Any] | None = None) -> None:
        """Save a checkpoint that rsl_rl's own runner loads, in the run folder. Collective.

        Args:
            path: only its last part, the file's name, counts.
            infos: stored with it, as rsl_rl does.
        """
        name, save = Path(path).name, super().save
        if name == self._saved:
            return  # rsl_rl saves the last iteration twice if `save_interval` divides its number.
        self._saved = name
        counters = self.alg.counters()
        if counters:
            infos = {**(infos or {}), "rltrain": counters}

        def write(partial: Path) -> None:
            # Given a path, torch writes its name into the file: the same state, other bytes.
            with partial.open("wb") as file:
                save(file, infos)

        state = {"algorithm": self.alg.get_state(), "env": self.env.get_state()}
        done = self.current_learning_iteration + 1
        self.session.save_checkpoint(name, write, done, rank_state=on_host(state))

    def _load(self, checkpoint: Path) -> None:
        # rsl_rl saves the index of the last finished iteration, and would do that one again. A
        # checkpoint that only gives the teacher leaves the index as it is.
        self.current_learning_iteration = -1
        try:
            infos = self.load(str(checkpoint), map_location=self.session.world.device)
        except UsageError as error:
            raise UsageError(f"--checkpoint {checkpoint}: {error}") from error
        except Exception as error:
            reason = " ".join(str(error).split())
            raise UsageError(
                f"--checkpoint {checkpoint}: does not fit this run ({type(error).__name__}: "
                f"{reason}). Give the task and the agent options that it was trained with."
            ) from error
        self.current_learning_iteration += 1
        self.alg.set_counters((infos or {}).get("rltrain", {}))

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


def _fill_observation_groups(
    options: dict[str, Any], models: tuple[str, str], offered: Iterable[str]
) -> None:
    """Choose groups for the sets that have none, as rsl_rl would with a warning."""
    names = set(offered)
    sets = options.setdefault("obs_groups", {})
    for needed in (*models, *(["rnd_state"] if options["algorithm"].get("rnd_cfg") else [])):
        sets.setdefault(needed, [needed if needed in names else "policy"])
    for name, groups in sets.items():
        absent = [group for group in groups if group not in names]
        if absent or not groups:
            raise UsageError(
                f"agent.obs_groups.{name}={groups}: must name observation groups of the task, "
                f"which are {', '.join(sorted(names))}."
            )


def _check_time_step(options: dict[str, Any], env: RslRlEnv) -> None:
    if options["algorithm"].get("rnd_cfg") and not hasattr(env.unwrapped, "step_dt"):
        raise UsageError(
            "agent.algorithm.rnd_cfg: rsl_rl scales the weight of intrinsic rewards by the time "
            "between two steps, step_dt, which the task's environment does not offer. Set it to "
            "null, or take a task that offers it, such as the embedded ones (rltrain/...)."
        )


def _check_normalisation(name: str, model: Any) -> None:
    # Of a CNNModel, `obs_groups` are those that are no images: only they are normalised.
    if model.obs_normalization and not model.obs_groups:
        raise UsageError(
            f"agent.{name}.obs_normalization=true: the {name} reads images only, which rsl_rl does "
            f"not normalise. Give agent.{name}.obs_normalization=false."
        )


def _check_precision(options: dict[str, Any], device: str) -> None:
    actor = (options.get("actor") or {}).get("distribution_cfg") or {}
    half = options["algorithm"].get("use_mixed_precision")
    if half and device == "cpu" and class_of(actor) == "BetaDistribution":
        raise UsageError(
            "agent.algorithm.use_mixed_precision: on a CPU, torch draws nothing from a beta "
            "distribution in bfloat16. Leave it out, or take another "
            "agent.actor.distribution_cfg.class_name."
        )
