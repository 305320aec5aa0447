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


def in_order(function, *parts):
    """Check that each part is in the function's source, in this order."""
    source, place = inspect.getsource(function), 0
    for part in parts:
        assert part in source[place:], f"{part!r} is not in {function.__qualname__} where it was."
        place += source[place:].index(part) + len(part)
    return True


def test_options_that_are_read_in_another_way_are_read():
    assert all(f"'{key}'" in SOURCE for key in ("seed", "torch_threads", "torch_compile", "convs"))
    assert "save_replay_buffer" not in SOURCE, "a plugin's option"


@pytest.mark.parametrize("agent", AGENTS)
def test_agents_have_the_methods_that_are_overridden(agent):
    for name, parameters in {
        "trancate_gradients_and_step": ["self"],
        "prepare_dataset": ["self", "batch_dict"],
        "train_epoch": ["self"],
        "update_epoch": ["self"],
        "train": ["self"],
        "save": ["self", "fn"],
        "restore": ["self", "fn", "set_epoch"],
        "get_full_state_weights": ["self"],
        "set_full_state_weights": ["self", "weights", "set_epoch"],
    }.items():
        assert list(inspect.signature(getattr(agent, name)).parameters) == parameters


def test_sac_has_the_methods_that_are_overridden():
    for name, parameters in {
        "train_epoch": ["self"],
        "train": ["self"],
        "save": ["self", "fn"],
        "get_full_state_weights": ["self"],
        "set_full_state_weights": ["self", "weights", "set_epoch"],
    }.items():
        method = getattr(sac_agent.SACAgent, name)
        assert list(inspect.signature(method).parameters) == parameters
    stats = inspect.signature(sac_agent.SACAgent.extract_actor_stats)
    assert list(stats.parameters)[1:] == [
        *("actor_losses", "entropies", "alphas", "alpha_losses", "actor_loss_info")
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_gradients_are_synchronized_between_backward_and_clipping(agent):
    assert in_order(agent.calc_gradients, "backward()", "trancate_gradients_and_step()")
    step = a2c_common.A2CBase.trancate_gradients_and_step
    assert in_order(step, "if self.multi_gpu:", "clip_grad_norm_", "self.scaler.step")


@pytest.mark.parametrize("agent", AGENTS)
def test_normalizers_are_updated_in_every_mini_batch(agent):
    # set_train reverts the effect of the end of a mini-epoch.
    assert in_order(agent.train_actor_critic, "self.set_train()", "self.calc_gradients(")
    assert "self.model.train()" in inspect.getsource(agent.set_train)
    model = inspect.getsource(models.ModelA2CContinuousLogStd.Network.forward)
    assert model.count("norm_obs(") == 1


@pytest.mark.parametrize("base", BASES)
def test_an_update_normalizes_values_then_returns_then_advantages_then_trains(base):
    prepare = base.prepare_dataset
    order = [
        *("advantages = returns - values", "values = self.value_mean_std(values)"),
        *("returns = self.value_mean_std(returns)", "self.value_mean_std.eval()"),
        *("torch.sum(advantages, axis=1)", "if self.normalize_advantage:"),
        *("advantages.mean()", "advantages.std() + 1e-8"),
        *("dataset_dict['advantages'] = advantages", "self.central_value_net.update_dataset("),
    ]
    assert in_order(prepare, *order)
    assert in_order(
        base.train_epoch,
        *("self.prepare_dataset(batch_dict)", "self.train_central_value()"),
        "self.train_actor_critic(self.dataset[i])",
    )


def test_mini_batches_are_not_shuffled():
    dataset = datasets.PPODataset(8, 4, False, False, "cpu", 4)
    assert dataset.permute is False
    dataset.update_values_dict({"x": torch.arange(8)})
    dataset.apply_permutation()
    assert [batch["x"].tolist() for batch in dataset] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    for source in (*map(inspect.getsource, AGENTS), inspect.getsource(central_value)):
        calls = re.findall(r"PPODataset\(.*", source)
        assert calls
        assert not any("permute" in call for call in calls)


def test_no_rows_are_masked():
    # Means over rows are then means over equal numbers of rows on every rank.
    assert not re.search(r"^\s*(batch_dict\['rnn_masks'\] =|rnn_masks = torch)", SOURCE, re.M)
    assert "rnn_masks" not in inspect.getsource(a2c_common.A2CBase.play_steps_rnn)


def test_moments_are_of_rows_and_count_rows():
    # Per channel, they would not be; no model uses that.
    calls = re.findall(r"RunningMeanStd(?:Obs)?\((.*?)\)\)", inspect.getsource(models))
    assert len(calls) == 3
    assert not any("per_channel" in call for call in calls)
    source = inspect.getsource(running_mean_std.RunningMeanStd.forward)
    assert "input.var(self.axis, unbiased=False)" in source
    assert "input.size(0)" in source


def test_the_network_of_groups_overrides_what_rl_games_builds_its_layers_by():
    network = network_builder.A2CBuilder.Network
    assert in_order(
        network.__init__,
        *("self.load(params)", "if self.permute_input:", "'input_shape': input_shape"),
        *("self.actor_cnn = self._build_conv(**cnn_args)", "if self.separate:"),
        *("self.critic_cnn = self._build_conv(", "self._calc_input_size(input_shape, self.actor"),
    )
    assert in_order(network.forward, "if self.permute_input and", "self.actor_cnn(a_out)")
    assert list(inspect.signature(network._build_conv).parameters) == ["self", "ctype", "kwargs"]


def test_groups_pass_through_buffer_and_mini_batches():
    assert inspect.getsource(experience.ExperienceBuffer).count("isinstance(v, dict)") >= 2
    dataset = datasets.PPODataset(8, 4, False, False, "cpu", 4)
    dataset.update_values_dict({"obs": {"eye": torch.arange(8), "policy": torch.zeros(8)}})
    assert [batch["obs"]["eye"].tolist() for batch in dataset] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    # This is why the normalizer of groups is needed.
    with pytest.raises(RuntimeError, match="items"):
        torch.jit.script(running_mean_std.RunningMeanStdObs({"policy": (2,)}))


def test_byte_images_are_divided_by_255():
    for owner in (a2c_common.A2CBase, central_value.CentralValueTrain):
        images = torch.tensor([0, 51, 255], dtype=torch.uint8)
        assert torch.equal(owner._preproc_obs(None, images), images.float() / 255.0)
        groups = owner._preproc_obs(None, {"eye": images, "policy": images.float()})
        assert [groups[name].max() for name in ("eye", "policy")] == [1, 255]


@pytest.mark.parametrize("base", BASES)
def test_training_counts_frames_and_ends_as_the_adapter_expects(base):
    source = inspect.getsource(base.train)
    assert "self.curr_frames * self.world_size if self.multi_gpu else self.curr_frames" in source
    assert "epoch_num >= self.max_epochs" in source
    assert source.index("self.update_epoch()") < source.index("self.train_epoch()")


@pytest.mark.parametrize("base", BASES)
def test_what_training_clears_is_cleared_before_the_first_epoch(base):
    clears = ("self.init_tensors()", "self.last_mean_rewards = -1000000000", "self.env_reset()")
    assert in_order(base.train, *clears, "while True:", "self.update_epoch()")


def test_schedulers_take_the_kl_last():
    for name in ("AdaptiveScheduler", "LinearScheduler", "IdentityScheduler"):
        parameters = list(inspect.signature(getattr(schedulers, name).update).parameters)
        assert parameters[1:6] == ["current_lr", "entropy_coef", "epoch", "frames", "kl_dist"]


def test_only_the_adaptive_schedule_uses_the_kl():
    uses = {
        name: inspect.getsource(getattr(schedulers, name).update).count("kl_dist") > 1
        for name in ("AdaptiveScheduler", "LinearScheduler", "IdentityScheduler")
    }
    assert uses == {"AdaptiveScheduler": True, "LinearScheduler": False, "IdentityScheduler": False}


def test_the_continuous_agent_knows_two_types_of_schedule():
    source = inspect.getsource(a2c_common.ContinuousA2CBase.train_epoch)
    assert re.findall(r"schedule_type == '(\w+)'", source) == ["legacy", "standard"]
    assert source.count("self.scheduler.update(") == 2


def test_a_meter_is_updated_with_the_mean_and_number_of_episodes():
    meter = torch_ext.AverageMeter(1, 10)
    meter.update(torch.tensor([[1.0], [3.0]]))
    meter.update(torch.tensor([[8.0]]))
    assert (meter.mean.tolist(), meter.current_size) == ([4.0], 3)


def test_the_central_value_clips_between_backward_and_step():
    calc = central_value.CentralValueTrain.calc_gradients
    assert in_order(
        calc, "loss.backward()", "if self.truncate_grads:", "clip_grad_norm_", "optimizer.step()"
    )
    source = inspect.getsource(central_value.CentralValueTrain)
    for name in ("writter", "mini_epoch", "lr", "epoch_num", "frame", "grad_norm", "rnn_states"):
        assert f"self.{name} = " in source
    train = central_value.CentralValueTrain.train_net
    assert in_order(train, "range(self.mini_epoch)", "self.dataset[i]", "self.scheduler.update(")
    assert "self.train()" in inspect.getsource(central_value.CentralValueTrain.train_critic)


def test_sac_counts_an_epoch_before_it_begins_and_reads_times_from_its_result():
    train = sac_agent.SACAgent.train
    assert in_order(
        train,
        *("self.env_reset()", "while True:", "self.epoch_num += 1", "self.train_epoch()"),
        *("curr_frames = self.num_frames_per_epoch", "self.frame += curr_frames"),
    )
    returned = "return step_time, play_time, total_update_time, total_time"
    assert returned in inspect.getsource(sac_agent.SACAgent.play_steps)


def test_sac_normalizes_observations_then_next_ones_of_what_it_has_drawn():
    update = sac_agent.SACAgent.update
    assert in_order(
        update,
        *("self.replay_buffer.sample(self.batch_size)", "obs = self.preproc_obs(obs)"),
        *("next_obs = self.preproc_obs(next_obs)", "self.update_counter += 1"),
        "self.update_counter % self.policy_frequency",
    )
    sample = inspect.getsource(experience.VectorizedReplayBuffer.sample)
    assert "return obses, actions, rewards, next_obses, dones" in sample


def test_sac_clips_the_critic_only_between_backward_and_step():
    critic = sac_agent.SACAgent.update_critic
    assert in_order(
        critic,
        *("critic_loss.backward()", "if self.critic_grad_clip > 0:", "clip_grad_norm_"),
        "self.critic_optimizer.step()",
    )
    actor = inspect.getsource(sac_agent.SACAgent.update_actor_and_alpha)
    assert "clip_grad" not in actor


def test_sac_forgets_its_temperature_and_has_no_environment_that_it_did_not_make():
    assert "log_alpha'" not in inspect.getsource(sac_agent.SACAgent.get_weights)
    state = inspect.getsource(sac_agent.SACAgent.get_full_state_weights)
    assert "'log_alpha_optimizer'" in state
    assert "'log_alpha'" not in state
    assert "'vec_env'" not in inspect.getsource(sac_agent.SACAgent)


def test_runner_takes_an_environment_in_its_options():
    assert "load_config" in dir(Runner)
    source = inspect.getsource(a2c_common.A2CBase.__init__)
    assert "config.get('env_info')" in source
    assert "config.get('vec_env', None)" in source


def test_runner_allows_less_precise_products_of_matrices():
    # A loaded policy multiplies as precisely.
    assert "torch.set_float32_matmul_precision('high')" in inspect.getsource(Runner.__init__)


def test_runner_restores_before_it_compiles_and_trains():
    assert in_order(Runner.run_train, "_restore(agent, args)", "torch.compile(", "agent.train()")
