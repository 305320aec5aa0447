"""Keys of a file that the installed rsl_rl does not take are refused by the plan."""

from __future__ import annotations

import inspect

import pytest
import yaml
from rsl_rl import extensions
from rsl_rl.algorithms import PPO, Distillation
from rsl_rl.models import CNNModel, MLPModel, RNNModel
from rsl_rl.modules import CNN, distribution
from rsl_rl_stubs import small_agent

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.plan.resolve import make_plan
from rltrain_adapters.sources import parameters
from rltrain_rsl_rl.keys import keys

CLASSES = {
    "rsl_rl.algorithms": [PPO, Distillation],
    "rsl_rl.models": [MLPModel, RNNModel, CNNModel],
    "rsl_rl.modules": [
        CNN,
        distribution.GaussianDistribution,
        distribution.HeteroscedasticGaussianDistribution,
    ],
    "rsl_rl.extensions": [extensions.RandomNetworkDistillation],
}
OF_SCRIPTS = {
    "class_name": "OnPolicyRunner",
    "device": "cuda:0",
    "experiment_name": "ant",
    "run_name": "",
    "wandb_project": "mjlab",
    "wandb_tags": [],
    "neptune_project": "isaaclab",
    "upload_model": True,
    "resume": False,
    "load_run": ".*",
    "load_checkpoint": "model_.*.pt",
    "empirical_normalization": False,
}
"""What Isaac Lab and mjlab keep in the same file."""


def plan(tmp_path, changes, **options):
    """Plan the defaults as a file, with changes; a value that is `...` is left out."""
    agent = small_agent()
    for key, value in changes.items():
        set_dotted(agent, key, value)
        if value is ...:
            section, _, name = key.rpartition(".")
            (agent[section] if section else agent).pop(name)
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump(agent))
    options = {"num_envs": 4, "agent_config": str(path), **options}
    return make_plan({"library": "rsl_rl", "task": "rltrain/CartPoleContinuous-v1", **options})


@pytest.mark.parametrize("module", CLASSES)
def test_the_keys_are_those_of_the_installed_version(module):
    for made in CLASSES[module]:
        signature = inspect.signature(made.__init__).parameters
        taken = {
            name: each.default is not each.empty
            for name, each in signature.items()
            if name != "self" and each.kind is not each.VAR_KEYWORD
        }
        assert parameters(module, made.__name__) == taken


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("algorithm.clip_params", "clip_param"),
        ("actor.hidden_dim", "hidden_dims"),
        ("critic.activations", "activation"),
        ("actor.distribution_cfg.init_stdd", "init_std"),
        ("clip_action", "clip_actions"),
        ("policy.init_noise_stdd", "init_noise_std"),
    ],
)
def test_a_key_that_rsl_rl_does_not_take_is_refused_by_the_plan(key, meant, tmp_path):
    with pytest.raises(UsageError) as refused:
        plan(tmp_path, {key: 0.2})
    assert str(refused.value).startswith(f"agent.{key}: rsl_rl 5.")
    assert f" has no such option. Did you mean {meant!r}?" in str(refused.value)


@pytest.mark.parametrize(
    "key", ["save_interval", "actor.class_name", "algorithm.rnd_cfg.num_outputs"]
)
def test_a_key_that_rsl_rl_needs_is_named(key, tmp_path):
    rnd = {"predictor_hidden_dims": [8], "target_hidden_dims": [8]}
    with pytest.raises(UsageError, match=rf"^agent\.{key}: is missing, and rsl_rl 5"):
        plan(tmp_path, {"algorithm.rnd_cfg": rnd} if "rnd" in key else {key: ...})


def test_keys_of_isaac_lab_and_mjlab_pass_without_a_word(tmp_path, capsys):
    plan(tmp_path, {**OF_SCRIPTS, "logger": "tensorboard"})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("resume", True, "a run goes on with --resume RUN, and a new one starts from --checkpoint"),
        ("logger", "wandb", "Give --writer NAME for others"),
    ],
)
def test_what_they_tell_scripts_is_answered(key, value, told, tmp_path, capsys):
    plan(tmp_path, {**OF_SCRIPTS, "logger": "tensorboard", key: value})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"rltrain: {tmp_path / 'agent.yaml'}: {key}")
    assert told in line


def test_keys_of_other_versions_are_left_to_the_migrations(tmp_path):
    plan(tmp_path, {"critic.stochastic": False, "actor.cnn_cfg": None, "actor.rnn_type": "lstm"})


def test_classes_of_the_users_own_take_any_key():
    agent = small_agent()
    agent["actor"]["class_name"] = agent["critic"]["distribution_cfg"] = "mine:Model"
    agent["algorithm"]["class_name"] = "mine:PPO"
    assert not {"actor", "critic.distribution_cfg", "algorithm"} & keys(agent).keys()


def test_convolutions_have_keys_for_all_groups_or_for_each():
    for given, found in ({"norm": "none"}, "actor.cnn_cfg"), ({"eye": {}}, "actor.cnn_cfg.eye"):
        agent = {"actor": {"class_name": "CNNModel", "cnn_cfg": given}}
        assert set(keys(agent)[found].required) == {"output_channels", "kernel_size"}


def test_options_of_any_shape_are_read():
    for odd in (
        {},
        {"actor": {"class_name": [1], 2: {}}},
        {"actor": {"class_name": "CNNModel", "cnn_cfg": {1: {}}, "distribution_cfg": {1: 1}}},
        {"policy": "x", "algorithm": []},
        {"policy": [1]},
    ):
        keys(odd)
