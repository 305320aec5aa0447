"""What the adapter relies on in the installed rsl_rl, beyond what its documentation promises."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest
from rsl_rl.algorithms import PPO, ppo
from rsl_rl.env import VecEnv
from rsl_rl.extensions import RandomNetworkDistillation, Symmetry
from rsl_rl.models import CNNModel, MLPModel, RNNModel
from rsl_rl.modules import distribution, normalization
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils import LogWriter
from rsl_rl.utils.logger import Logger
from rsl_rl_stubs import PointEnv, small_agent

from rltrain_rsl_rl import options
from rltrain_rsl_rl.env import RslRlEnv


def parameters(*classes: type) -> set[str]:
    return {name for cls in classes for name in inspect.signature(cls.__init__).parameters}


def calls(function) -> list[str]:
    """The dotted names that a function calls, in the order of the source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return [ast.unparse(node.func) for node in found]


# Options


def test_algorithm_keys_are_parameters_of_ppo():
    keys = set(options.ALGORITHM_KEYS) - {"class_name", "share_cnn_encoders"}
    assert keys <= parameters(PPO)
    assert '"share_cnn_encoders"' in inspect.getsource(PPO.construct_algorithm)


def test_extension_keys_are_parameters():
    assert set(options.RND_KEYS) <= parameters(RandomNetworkDistillation)
    assert set(options.SYMMETRY_KEYS) <= parameters(Symmetry)


def test_model_keys_are_parameters_of_models_and_distributions():
    models = parameters(MLPModel, RNNModel, CNNModel)
    assert set(options.MODEL_KEYS) - {"class_name"} <= models
    distributions = parameters(
        distribution.GaussianDistribution,
        distribution.HeteroscedasticGaussianDistribution,
        distribution.BetaDistribution,
    )
    assert set(options.DISTRIBUTION_KEYS) - {"class_name"} <= distributions


def test_runner_keys_are_read():
    read = inspect.getsource(OnPolicyRunner) + inspect.getsource(PPO.construct_algorithm)
    # The rest is read by the adapter and the core.
    ours = {"seed", "max_iterations", "clip_actions", "init_at_random_ep_len"}
    keys = {key for key in options.RUNNER_KEYS if "." not in key} - ours
    assert all(f'"{key}"' in read for key in keys)
    assert "init_at_random_ep_len" in inspect.signature(OnPolicyRunner.learn).parameters


@pytest.mark.parametrize("name", options.PPO_NAMES)
def test_names_of_ppo_are_ppo(name):
    from rsl_rl.utils import resolve_callable

    assert resolve_callable(name) is PPO


# The runner


def test_only_one_method_makes_the_process_group():
    assert calls(OnPolicyRunner.__init__)[0] == "self._configure_multi_gpu"
    makers = [
        name
        for name, member in inspect.getmembers(OnPolicyRunner, inspect.isfunction)
        if "torch.distributed.init_process_group" in calls(member)
    ]
    assert makers == ["_configure_multi_gpu"]
    assert "init_process_group" not in inspect.getsource(ppo)


def test_the_runner_has_what_the_adapter_sets():
    runner = OnPolicyRunner(RslRlEnv(PointEnv(), "cpu"), small_agent())
    for name in ("gpu_world_size", "gpu_global_rank", "gpu_local_rank", "is_distributed", "logger"):
        assert hasattr(runner, name)
    assert runner.cfg["multi_gpu"] is None
    assert runner.alg.get_policy() is runner.alg._raw_actor
    assert runner.alg._raw_critic is runner.alg.critic
    assert set(runner.alg.save()) == {
        "actor_state_dict",
        "critic_state_dict",
        "optimizer_state_dict",
    }


def test_the_loop_logs_by_name_and_then_saves():
    source = inspect.getsource(OnPolicyRunner.learn)
    assert "self.current_learning_iteration = it\n" in source
    order = calls(OnPolicyRunner.learn)
    assert order.index("self.logger.init_logging_writer") < order.index("self.logger.log")
    assert order.index("self.logger.log") < order.index("self.save")
    assert {"it", "total_it"} <= set(inspect.signature(Logger.log).parameters)
    assert "self.logger.log(\n                it=it," in source


def test_the_logger_has_what_the_adapter_overrides():
    assert {"log_dir", "cfg", "env_cfg", "num_envs", "is_distributed"} <= parameters(Logger)
    for name in ("init_logging_writer", "process_env_step", "log"):
        assert callable(getattr(Logger, name))
    assert "self._store_code_state" in calls(Logger.init_logging_writer)
    assert LogWriter.__abstractmethods__ == {"add_scalar"}
    assert VecEnv.__abstractmethods__ == {"get_observations", "step"}


# The algorithm


def test_gradients_are_averaged_between_backward_and_clipping():
    order = calls(PPO.update)
    backward, step = order.index("loss.backward"), order.index("self.optimizer.step")
    reduce, clip = order.index("self.reduce_parameters"), order.index("nn.utils.clip_grad_norm_")
    assert backward < reduce < clip < step


def test_ppo_asks_multi_gpu_whether_to_average():
    names = ("multi_gpu_cfg", "global_rank", "world_size")
    source = inspect.getsource(PPO.__init__)
    assert all(name in source for name in names)
    assert "local_rank" not in source


def test_advantages_are_normalised_where_the_adapter_does_it_again():
    source = inspect.getsource(PPO.compute_returns)
    assert "if not self.normalize_advantage_per_mini_batch:" in source
    assert "(st.advantages - st.advantages.mean()) / (st.advantages.std() + 1e-8)" in source


def test_normalisers_pool_their_moments_over_the_default_group():
    source = inspect.getsource(normalization.EmpiricalNormalization.update)
    assert "torch.distributed.is_initialized()" in source
    assert source.count("torch.distributed.all_reduce") == 3
