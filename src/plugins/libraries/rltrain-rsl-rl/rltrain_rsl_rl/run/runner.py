"""rsl_rl's runner, which leaves ranks, logging and checkpoints to the session.

rsl_rl itself reads WORLD_SIZE, creates an NCCL group and averages gradients. This package
subclasses its runner, algorithms, storage and normalizers, so that the session does this instead.
`tests/test_rsl_rl_contract.py` checks the overridden methods against the installed version.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsl_rl.runners import OnPolicyRunner

from rltrain.errors import StopTraining, UsageError, explain_mismatch
from rltrain_adapters import as_given
from rltrain_rsl_rl.declare.keys import RESTORED
from rltrain_rsl_rl.declare.options import DISTILLATION_NAMES, class_of, set_observation_groups
from rltrain_rsl_rl.run.agents import SessionDistillation, SessionPPO
from rltrain_rsl_rl.run.checkpoints import upgrade_checkpoint
from rltrain_rsl_rl.run.env import RslRlEnv
from rltrain_rsl_rl.run.metrics import SessionLogger
from rltrain_rsl_rl.run.spaces import use_byte_models
from rltrain_rsl_rl.run.upstream import keep_dtypes, set_symmetry_defaults
from rltrain_torch.checkpoints import as_file
from rltrain_torch.policy import read_checkpoint

if TYPE_CHECKING:
    from rltrain.session import Session


_STEPS = "common_step_counter"
"""The counter on which curricula of Isaac Lab and mjlab depend. mjlab's runner keeps it in
checkpoints, in `infos["env_state"]`, and so does this one."""


class SessionRunner(OnPolicyRunner):
    """Trains with PPO or distillation on one rank of a session."""

    alg: SessionPPO | SessionDistillation

    def __init__(self, env: RslRlEnv, options: dict[str, Any], session: Session) -> None:
        """Create models, algorithm and logger; rsl_rl changes the options."""
        self.session = session
        distils = options["algorithm"]["class_name"] in DISTILLATION_NAMES
        algorithm = SessionDistillation if distils else SessionPPO
        options["algorithm"]["class_name"] = algorithm
        use_byte_models(options)
        set_symmetry_defaults(options)
        set_observation_groups(options, algorithm.MODELS, env.get_observations().keys())
        _check_time_step(options, env)
        _check_precision(options, session.world.device)
        log_dir, device = str(session.run_folder.checkpoints), session.world.device
        super().__init__(env, options, log_dir=log_dir, device=device)
        keep_dtypes(self.alg.storage, env.get_observations())
        for model in algorithm.MODELS:
            _check_normalization(model, getattr(self.alg, model))
        self.logger = SessionLogger(
            self,
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
            with explain_mismatch(self.session.checkpoint):
                self.alg.set_state(self.session.rank_state["algorithm"])

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train until the iterations are done or the session stops the run; save at the end."""
        try:
            super().learn(num_learning_iterations, init_at_random_ep_len)
        except StopTraining:
            self.save(f"model_{self.current_learning_iteration}.pt")

    def save(self, path: str, infos: dict[str, Any] | None = None) -> None:
        """Save a checkpoint in the run folder, in rsl_rl's format. Collective.

        Of the path, the file name is used; its folder is not.
        """
        name, save = Path(path).name, super().save
        if name == self._last_saved:
            return  # rsl_rl saves the last iteration twice if `save_interval` divides its number.
        self._last_saved = name
        if rnd := getattr(self.alg, "rnd", None):
            counters = {"rnd_update_counter": rnd.update_counter}  # rsl_rl does not save it.
            infos = {**(infos or {}), "rltrain": counters}
        env = self.env.unwrapped
        steps = env.get_curricula().get(_STEPS) if hasattr(env, "get_curricula") else None
        if steps is not None:
            infos = {**(infos or {}), "env_state": {_STEPS: steps}}

        def write(partial: Path) -> None:
            # torch would write the name of a path into the file, and equal states would differ.
            with partial.open("wb") as file:
                save(file, infos)

        state, done = {"algorithm": self.alg.get_state()}, self.current_learning_iteration + 1
        self.session.save_checkpoint(name, write, done, rank_state=state)

    def _load(self, checkpoint: Path) -> None:
        # rsl_rl saves the index of the last finished iteration, and would repeat that iteration. A
        # checkpoint that contains only the teacher leaves the index unchanged.
        self.current_learning_iteration = -1
        trusted, device = self.session.config.trust, self.session.world.device
        saved = upgrade_checkpoint(read_checkpoint(checkpoint, device, trusted))
        with explain_mismatch(checkpoint):
            saved.setdefault("optimizer_state_dict", self.alg.optimizer.state_dict())
            # rsl_rl's own loader runs any code that a file names.
            file = as_file(saved)
            with as_given(self.session, self.alg, RESTORED):
                infos = self.load(file, map_location=device)
            self.current_learning_iteration += 1
            infos = infos or {}
            if rnd := getattr(self.alg, "rnd", None):
                rnd.update_counter = infos.get("rltrain", {}).get("rnd_update_counter", 0)
            env, state = self.env.unwrapped, infos.get("env_state") or {}
            # The state that rltrain writes next to a checkpoint has more. A student starts at zero.
            resumes = self.current_learning_iteration > 0 and not self.session.iteration
            if resumes and _STEPS in state and hasattr(env, "set_curricula"):
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
    half = device == "cpu" and options["algorithm"].get("use_mixed_precision")
    noise = (options.get("actor") or {}).get("distribution_cfg") or {}
    if half and class_of(noise) == "BetaDistribution":
        raise UsageError(
            "agent.algorithm.use_mixed_precision: on a CPU, torch cannot sample from a beta "
            "distribution in bfloat16. Leave it out, or choose another "
            "agent.actor.distribution_cfg.class_name."
        )
