"""What the adapter relies on in the installed rsl_rl, beyond what its documentation promises."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest
from packaging.version import Version
from rsl_rl import extensions
from rsl_rl.algorithms import PPO, Distillation, distillation, ppo
from rsl_rl.env import VecEnv
from rsl_rl.extensions import RandomNetworkDistillation
from rsl_rl.models import MLPModel
from rsl_rl.modules import normalization
from rsl_rl.runners import DistillationRunner, OnPolicyRunner
from rsl_rl.storage import RolloutStorage
from rsl_rl.utils.logger import Logger
from rsl_rl_stubs import POOLS, VERSION, PointEnv, pools, small_agent

from rltrain_rsl_rl.declare import iteration, older, options
from rltrain_rsl_rl.declare.keys import keys
from rltrain_rsl_rl.run.env import RslRlEnv


def parameters(*classes: type) -> set[str]:
    return {name for cls in classes for name in inspect.signature(cls.__init__).parameters}


def calls(function) -> list[str]:
    """Return the dotted names that a function calls, in source order."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return [ast.unparse(node.func) for node in found]


def known(names) -> set[str]:
    """Return the names that exist in the installed version, according to the adapter."""
    return {name for name in names if Version(older.ADDED_IN.get(name, "5.0")) <= VERSION}


# Options


def test_keys_of_extensions_are_those_of_the_installed_version():
    found = keys({"algorithm": {"class_name": "PPO"}})
    schedules = {
        name
        for mode in ("_constant", "_step", "_linear")
        for name in inspect.signature(
            getattr(RandomNetworkDistillation, f"{mode}_weight_schedule")
        ).parameters
    }
    assert set(found["algorithm.rnd_cfg.weight_schedule"].known) - {"mode"} <= schedules
    assert "weight_schedule['mode']" in inspect.getsource(RandomNetworkDistillation)
    mirrors = set(found["algorithm.symmetry_cfg"].known)
    if Version("5.1") <= VERSION:
        assert mirrors == parameters(extensions.Symmetry) - {"self", "env"}
    else:
        assert all(f'["{key}"]' in inspect.getsource(PPO) for key in mirrors)


def test_runner_keys_are_read():
    read = inspect.getsource(OnPolicyRunner) + inspect.getsource(PPO.construct_algorithm)
    own = ["num_steps_per_env", "save_interval", "check_for_nan", "obs_groups"]
    own += ["share_cnn_encoders"]
    assert all(f'"{key}"' in read for key in (*own, *known(["torch_compile_mode"])))
    assert "init_at_random_ep_len" in inspect.signature(OnPolicyRunner.learn).parameters


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        *((name, PPO) for name in options.PPO_NAMES),
        *((name, Distillation) for name in options.DISTILLATION_NAMES),
    ],
)
def test_algorithm_names_match_rsl_rl(name, algorithm):
    from rsl_rl.utils import resolve_callable

    assert resolve_callable(name) is algorithm


def test_mini_batches_are_counted_as_the_plan_does():
    assert inspect.signature(PPO).parameters["num_mini_batches"].default == iteration.MINI_BATCHES


# The runner


def test_only_one_method_makes_the_process_group():
    assert calls(OnPolicyRunner.__init__)[0] == "self._configure_multi_gpu"
    makers = [
        name
        for name, member in inspect.getmembers(OnPolicyRunner, inspect.isfunction)
        if "torch.distributed.init_process_group" in calls(member)
    ]
    assert makers == ["_configure_multi_gpu"]
    assert "init_process_group" not in inspect.getsource(ppo) + inspect.getsource(distillation)


def test_the_runner_of_distillation_only_asks_for_a_teacher():
    assert DistillationRunner.__base__ is OnPolicyRunner
    assert {name for name in vars(DistillationRunner) if not name.startswith("__")} == {"learn"}


def test_the_runner_has_what_the_adapter_sets():
    runner = OnPolicyRunner(RslRlEnv(PointEnv(), "cpu"), small_agent())
    for name in ("gpu_world_size", "gpu_global_rank", "gpu_local_rank", "is_distributed", "logger"):
        assert hasattr(runner, name)
    assert runner.cfg["multi_gpu"] is None
    if Version("5.1") <= VERSION:
        assert runner.alg.get_policy() is runner.alg._raw_actor
        assert runner.alg._raw_critic is runner.alg.critic
    assert set(runner.alg.save()) == {
        "actor_state_dict",
        "critic_state_dict",
        "optimizer_state_dict",
    }


def test_the_loop_logs_by_name_and_then_saves():
    order = calls(OnPolicyRunner.learn)
    assert order.index("self.logger.init_logging_writer") < order.index("self.logger.log")
    assert order.index("self.logger.log") < order.index("self.save")
    assert {"it", "total_it"} <= set(inspect.signature(Logger.log).parameters)


def test_the_logger_has_what_the_adapter_overrides():
    assert {"log_dir", "cfg", "env_cfg", "num_envs", "is_distributed"} <= parameters(Logger)
    for name in ("init_logging_writer", "process_env_step", "log"):
        assert callable(getattr(Logger, name))
    assert "self._store_code_state" in calls(Logger.init_logging_writer)
    logger = Logger(None, small_agent(), {}, 1, False, 1, 0, "cpu")
    logger.writer, logger.logger_type = object(), None
    # rsl_rl calls no method of a writer that is not its own.
    logger.save_model("model_0.pt", 0)
    logger.stop_logging_writer()
    assert VecEnv.__abstractmethods__ == {"get_observations", "step"}


# The algorithm, normalizers and extensions

WHOSE = "compute_loss" if Version("5.1") <= VERSION else "get_rnd_state"
RECURRENT = RolloutStorage.recurrent_mini_batch_generator
PARTS = [
    (RolloutStorage.mini_batch_generator, "batch_size = self.num_envs * self.num_transitions_per"),
    (RolloutStorage.mini_batch_generator, "mini_batch_size = batch_size // num_mini_batches"),
    (RECURRENT, "mini_batch_size = self.num_envs // num_mini_batches"),
    (OnPolicyRunner.learn, "self.current_learning_iteration = it\n"),
    (OnPolicyRunner.learn, "self.logger.log(\n                it=it,"),
    (DistillationRunner.learn, "self.alg.teacher_loaded"),
    # A checkpoint is saved to a file as well as a path, with the keys that identify it.
    (OnPolicyRunner.save, "torch.save(saved_dict, path)"),
    *((OnPolicyRunner.save, f'saved_dict["{key}"]') for key in ("iter", "infos")),
    *((Distillation.save, f'"{key}_state_dict"') for key in ("student", "teacher", "optimizer")),
    (Distillation.load, '"actor_state_dict"'),
    # Whether to average, PPO asks multi_gpu; advantages are normalized where the adapter does.
    *((PPO.__init__, name) for name in ("multi_gpu_cfg", "global_rank", "world_size")),
    # Recurrent mini-batches pad what the predictor is trained on.
    (RECURRENT, "observations=padded_obs_trajectories[:, first_traj:last_traj]"),
    (RECURRENT, "masks=trajectory_masks[:, first_traj:last_traj]"),
    (PPO.update, f"self.rnd.{WHOSE}(batch.observations[:original_batch_size])"),
]


@pytest.mark.parametrize(("owner", "part"), PARTS)
def test_what_the_adapter_comes_between_is_in_the_source(owner, part):
    assert part in inspect.getsource(owner)


@pytest.mark.parametrize("update", [PPO.update, Distillation.update])
def test_gradients_are_averaged_between_backward_and_clipping(update):
    order = calls(update)
    names = ("loss.backward", "self.reduce_parameters", "nn.utils.clip_grad_norm_")
    places = [order.index(name) for name in (*names, "self.optimizer.step")]
    assert places == sorted(places)


@pools
@pytest.mark.parametrize("update", [PPO.update, Distillation.update])
def test_normalizers_are_updated_last(update):
    order = calls(update)
    first = min(index for index, name in enumerate(order) if name.endswith("update_normalization"))
    assert order.index("self.optimizer.step") < first
    assert not [name for name in order[first:] if name in ("self.actor", "self.critic")]


@pytest.mark.skipif(POOLS, reason="rsl_rl updates its normalizers after learning since 5.5")
@pytest.mark.parametrize("algorithm", [PPO, Distillation])
def test_normalizers_are_updated_in_every_step(algorithm):
    """There the adapter only collects the data, and updates the normalizers when 5.5 does."""
    updates = [name for name in calls(algorithm.process_env_step) if "update_normalization" in name]
    assert updates
    assert "update_normalization" not in inspect.getsource(algorithm.update)


def test_mini_batches_come_from_the_storage():
    order = calls(PPO.update)
    assert "self.storage.mini_batch_generator" in order
    assert "self.storage.recurrent_mini_batch_generator" in order
    assert not hasattr(RolloutStorage, "__slots__")


def test_normalizers_have_the_state_that_the_adapter_merges():
    normalizer = normalization.EmpiricalNormalization([3])
    assert list(normalizer.state_dict()) == ["_mean", "_var", "_std", "count"]
    assert normalizer._mean.shape == (1, 3)
    assert normalizer.until is None
    rewards = normalization.EmpiricalDiscountedVariationNormalization([])
    assert rewards.disc_avg.avg is None
    assert [name for name, _ in rewards.named_children()] == ["emp_norm"]
    model = MLPModel.update_normalization
    assert calls(model)[-1] == "self.obs_normalizer.update"
