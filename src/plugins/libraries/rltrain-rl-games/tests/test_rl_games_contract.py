"""What the adapter relies on in the installed rl_games."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import rl_games
import torch
from rl_games.algos_torch import (
    central_value,
    models,
    network_builder,
    running_mean_std,
    sac_agent,
    torch_ext,
)
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
from rl_games.common import a2c_common, datasets, experience, schedulers
from rl_games.torch_runner import Runner

SOURCE = "\n".join(path.read_text() for path in Path(rl_games.__path__[0]).rglob("*.py"))
BASES = [a2c_common.ContinuousA2CBase, a2c_common.DiscreteA2CBase]
AGENTS = [A2CAgent, DiscreteA2CAgent]
SAC, CENTRAL = sac_agent.SACAgent, central_value.CentralValueTrain
SCHEDULERS = ("AdaptiveScheduler", "LinearScheduler", "IdentityScheduler")
NETWORK = network_builder.A2CBuilder.Network

IN_ORDER = [
    # Gradients are synchronized between backward and clipping.
    *((agent.calc_gradients, "backward()", "trancate_gradients_and_step()") for agent in AGENTS),
    (
        a2c_common.A2CBase.trancate_gradients_and_step,
        *("if self.multi_gpu:", "clip_grad_norm_", "self.scaler.step"),
    ),
    # What training clears, it clears before the first epoch; and it ends as the adapter expects.
    *(
        (
            base.train,
            *("self.init_tensors()", "self.last_mean_rewards = -1000000000", "self.env_reset()"),
            *("while True:", "self.update_epoch()", "self.train_epoch()"),
            "self.curr_frames * self.world_size if self.multi_gpu else self.curr_frames",
            "epoch_num >= self.max_epochs",
        )
        for base in BASES
    ),
    # SAC counts an epoch before it begins, and normalizes observations and then next ones.
    (
        SAC.train,
        *("self.env_reset()", "while True:", "self.epoch_num += 1", "self.train_epoch()"),
        *("curr_frames = self.num_frames_per_epoch", "self.frame += curr_frames"),
    ),
    (SAC.play_steps, "return step_time, play_time, total_update_time, total_time"),
    (
        SAC.update,
        *("self.replay_buffer.sample(self.batch_size)", "obs = self.preproc_obs(obs)"),
        *("next_obs = self.preproc_obs(next_obs)", "self.update_counter += 1"),
        "self.update_counter % self.policy_frequency",
    ),
    (
        experience.VectorizedReplayBuffer.sample,
        "return obses, actions, rewards, next_obses, dones",
    ),
    # The network of groups overrides what rl_games builds its layers by.
    (
        NETWORK.__init__,
        *("self.load(params)", "if self.permute_input:", "'input_shape': input_shape"),
        *("self.actor_cnn = self._build_conv(**cnn_args)", "if self.separate:"),
        *("self.critic_cnn = self._build_conv(", "self._calc_input_size(input_shape, self.actor"),
    ),
    (NETWORK.forward, "if self.permute_input and", "self.actor_cnn(a_out)"),
    # The runner takes an environment in its options, and restores before it compiles and trains.
    (a2c_common.A2CBase.__init__, "config.get('env_info')", "config.get('vec_env', None)"),
    (Runner.run_train, "_restore(agent, args)", "torch.compile(", "agent.train()"),
    # A loaded policy multiplies matrices as precisely.
    (Runner.__init__, "torch.set_float32_matmul_precision('high')"),
]


@pytest.mark.parametrize("function", IN_ORDER, ids=lambda row: row[0].__qualname__)
def test_what_the_adapter_comes_between_is_in_this_order(function):
    function, *parts = function
    source, place = inspect.getsource(function), 0
    for part in parts:
        assert part in source[place:], f"{part!r} is not in {function.__qualname__} where it was."
        place += source[place:].index(part) + len(part)


def test_options_that_are_read_in_another_way_are_read():
    assert all(f"'{key}'" in SOURCE for key in ("seed", "torch_threads", "torch_compile", "convs"))
    assert "save_replay_buffer" not in SOURCE, "a plugin's option"


PARAMETERS = {
    "train_epoch": ["self"],
    "train": ["self"],
    "save": ["self", "fn"],
    "get_full_state_weights": ["self"],
    "set_full_state_weights": ["self", "weights", "set_epoch"],
}
OF_PPO = {
    "trancate_gradients_and_step": ["self"],
    "prepare_dataset": ["self", "batch_dict"],
    "update_epoch": ["self"],
    "restore": ["self", "fn", "set_epoch"],
}
STATISTICS = ["actor_losses", "entropies", "alphas", "alpha_losses", "actor_loss_info"]
OF_SAC = {"extract_actor_stats": ["self", *STATISTICS]}


@pytest.mark.parametrize(
    ("owner", "methods"),
    [
        *((agent, PARAMETERS | OF_PPO) for agent in AGENTS),
        (SAC, PARAMETERS | OF_SAC),
        (NETWORK, {"_build_conv": ["self", "ctype", "kwargs"]}),
    ],
)
def test_overridden_methods_have_these_parameters(owner, methods):
    for name, parameters in methods.items():
        assert list(inspect.signature(getattr(owner, name)).parameters) == parameters


def test_mini_batches_are_not_shuffled():
    dataset = datasets.PPODataset(8, 4, False, False, "cpu", 4)
    assert dataset.permute is False
    # Groups of observations pass through them.
    dataset.update_values_dict({"x": torch.arange(8), "obs": {"eye": torch.arange(8)}})
    dataset.apply_permutation()
    assert [batch["x"].tolist() for batch in dataset] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [batch["obs"]["eye"].tolist() for batch in dataset] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    for source in (*map(inspect.getsource, AGENTS), inspect.getsource(central_value)):
        calls = re.findall(r"PPODataset\(.*", source)
        assert calls
        assert not any("permute" in call for call in calls)


def test_no_rows_are_masked():
    # Means over rows are then means over equal numbers of rows on every rank.
    assert not re.search(r"^\s*(batch_dict\['rnn_masks'\] =|rnn_masks = torch)", SOURCE, re.M)
    assert "rnn_masks" not in inspect.getsource(a2c_common.A2CBase.play_steps_rnn)


def test_moments_are_of_rows_and_updated_once():
    # Per channel, they would not be; no model uses that.
    calls = re.findall(r"RunningMeanStd(?:Obs)?\((.*?)\)\)", inspect.getsource(models))
    assert len(calls) == 3
    assert not any("per_channel" in call for call in calls)
    model = inspect.getsource(models.ModelA2CContinuousLogStd.Network.forward)
    assert model.count("norm_obs(") == 1


def test_the_buffer_keeps_groups_that_no_normalizer_takes():
    assert inspect.getsource(experience.ExperienceBuffer).count("isinstance(v, dict)") >= 2
    # This is why the normalizer of groups is needed.
    with pytest.raises(RuntimeError, match="items"):
        torch.jit.script(running_mean_std.RunningMeanStdObs({"policy": (2,)}))


@pytest.mark.parametrize("owner", [a2c_common.A2CBase, CENTRAL])
def test_byte_images_are_divided_by_255(owner):
    images = torch.tensor([0, 51, 255], dtype=torch.uint8)
    assert torch.equal(owner._preproc_obs(None, images), images.float() / 255.0)
    groups = owner._preproc_obs(None, {"eye": images, "policy": images.float()})
    assert [groups[name].max() for name in ("eye", "policy")] == [1, 255]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_take_the_kl_last_and_only_the_adaptive_one_uses_it(name):
    update = getattr(schedulers, name).update
    parameters = list(inspect.signature(update).parameters)
    assert parameters[1:6] == ["current_lr", "entropy_coef", "epoch", "frames", "kl_dist"]
    uses = inspect.getsource(update).count("kl_dist") > 1
    assert uses == (name == "AdaptiveScheduler")


def test_the_continuous_agent_knows_two_types_of_schedule():
    source = inspect.getsource(a2c_common.ContinuousA2CBase.train_epoch)
    assert re.findall(r"schedule_type == '(\w+)'", source) == ["legacy", "standard"]
    assert source.count("self.scheduler.update(") == 2


def test_a_meter_is_updated_with_the_mean_and_number_of_episodes():
    meter = torch_ext.AverageMeter(1, 10)
    meter.update(torch.tensor([[1.0], [3.0]]))
    meter.update(torch.tensor([[8.0]]))
    assert (meter.mean.tolist(), meter.current_size) == ([4.0], 3)


def test_the_central_value_has_what_the_adapter_reads():
    source = inspect.getsource(CENTRAL)
    for name in ("writter", "mini_epoch", "lr", "epoch_num", "frame", "grad_norm", "rnn_states"):
        assert f"self.{name} = " in source


def test_what_sac_lacks():
    """It clips the critic only, forgets its temperature, and takes no environment."""
    assert "clip_grad" not in inspect.getsource(SAC.update_actor_and_alpha)
    assert "log_alpha'" not in inspect.getsource(SAC.get_weights)
    state = inspect.getsource(SAC.get_full_state_weights)
    assert "'log_alpha_optimizer'" in state
    assert "'log_alpha'" not in state
    assert "'vec_env'" not in inspect.getsource(SAC)
