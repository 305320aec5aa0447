"""The seams of the installed rl_games that the adapter stands on."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import rl_games
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
from rl_games.common import a2c_common, schedulers
from rl_games.torch_runner import Runner

from rltrain_rl_games.options import OPTION_KEYS

SOURCE = "\n".join(path.read_text() for path in Path(rl_games.__path__[0]).rglob("*.py"))


@pytest.mark.parametrize("key", sorted(OPTION_KEYS))
def test_every_option_that_may_be_overridden_is_one_of_rl_games(key):
    name = key.rsplit(".", 1)[-1]
    assert f"'{name}'" in SOURCE or f'"{name}"' in SOURCE


@pytest.mark.parametrize("agent", [A2CAgent, DiscreteA2CAgent])
def test_agents_have_the_methods_that_are_overridden(agent):
    for name, parameters in {
        "trancate_gradients_and_step": ["self"],
        "train_epoch": ["self"],
        "update_epoch": ["self"],
        "train": ["self"],
        "save": ["self", "fn"],
        "restore": ["self", "fn", "set_epoch"],
        "get_full_state_weights": ["self"],
        "set_full_state_weights": ["self", "weights", "set_epoch"],
    }.items():
        assert list(inspect.signature(getattr(agent, name)).parameters) == parameters


def test_gradients_are_synchronised_between_backward_and_clipping():
    source = inspect.getsource(A2CAgent.calc_gradients)
    assert source.index("backward()") < source.index("trancate_gradients_and_step()")
    step = inspect.getsource(a2c_common.A2CBase.trancate_gradients_and_step)
    assert step.index("if self.multi_gpu:") < step.index("clip_grad_norm_")


@pytest.mark.parametrize("base", [a2c_common.ContinuousA2CBase, a2c_common.DiscreteA2CBase])
def test_training_counts_frames_and_ends_as_the_adapter_expects(base):
    source = inspect.getsource(base.train)
    assert "self.curr_frames * self.world_size if self.multi_gpu else self.curr_frames" in source
    assert "epoch_num >= self.max_epochs" in source
    assert source.index("self.update_epoch()") < source.index("self.train_epoch()")


def test_schedulers_take_the_kl_last():
    for name in ("AdaptiveScheduler", "LinearScheduler", "IdentityScheduler"):
        parameters = list(inspect.signature(getattr(schedulers, name).update).parameters)
        assert parameters[1:6] == ["current_lr", "entropy_coef", "epoch", "frames", "kl_dist"]


def test_runner_takes_an_environment_in_its_options():
    assert "load_config" in dir(Runner)
    source = inspect.getsource(a2c_common.A2CBase.__init__)
    assert "config.get('env_info')" in source
    assert "config.get('vec_env', None)" in source
