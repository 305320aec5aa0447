"""Keys and words that the installed rsl_rl does not take are refused by the plan."""

from __future__ import annotations

import inspect

import pytest
import rsl_rl.models
import rsl_rl.modules
import yaml
from messages import check_said, says
from rsl_rl import extensions
from rsl_rl.algorithms import PPO, Distillation
from rsl_rl.models import CNNModel, MLPModel, RNNModel
from rsl_rl.modules import CNN, distribution
from rsl_rl.utils import resolve_nn_activation, resolve_optimizer
from rsl_rl_stubs import small_agent

from rltrain.errors import UsageError
from rltrain.options import set_dotted
from rltrain.plan.resolve import make_plan
from rltrain_adapters.sources import parameters
from rltrain_rsl_rl.declare.choices import choices
from rltrain_rsl_rl.declare.keys import keys

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
    "runner_class_name": "rsl_rl.runners:OnPolicyRunner",
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
    ("key", "value", "meant"),
    [
        ("algorithm.clip_params", 0.2, "clip_param"),
        ("critic.activations", 0.2, "activation"),
        ("actor.distribution_cfg.init_stdd", 0.2, "init_std"),
        ("clip_action", 0.2, "clip_actions"),
        ("policy.init_noise_stdd", 0.2, "init_noise_std"),
        ("algorithm.optimizer", "sgdd", "sgd"),
        ("actor.activation", "eluu", "elu"),
        ("critic.class_name", "MLPModl", "MLPModel"),
        ("actor.distribution_cfg.class_name", "GausianDistribution", "GaussianDistribution"),
        ("actor.distribution_cfg.std_type", "scalr", "scalar"),
        ("algorithm.schedule", "adaptve", "adaptive"),
    ],
)
def test_a_key_or_a_word_that_rsl_rl_does_not_take_is_refused(key, value, meant, tmp_path):
    with pytest.raises(UsageError) as refused:
        plan(tmp_path, {key: value})
    place = key if value == 0.2 else f"{key}={value}"
    assert str(refused.value).startswith(f"agent.{place}: rsl_rl 5.")
    assert f"Did you mean {meant!r}?" in str(refused.value)


@pytest.mark.parametrize(
    "key", ["save_interval", "actor.class_name", "algorithm.rnd_cfg.num_outputs"]
)
def test_a_key_that_rsl_rl_needs_is_named(key, tmp_path):
    rnd = {"predictor_hidden_dims": [8], "target_hidden_dims": [8]}
    with says(UsageError):
        plan(tmp_path, {"algorithm.rnd_cfg": rnd} if "rnd" in key else {key: ...})


def test_keys_of_isaac_lab_and_mjlab_pass_without_a_word(tmp_path, capsys):
    plan(tmp_path, {**OF_SCRIPTS, "logger": "tensorboard"})
    assert capsys.readouterr().err == ""


def typed(**agent):
    given = {"library": "rsl_rl", "task": "rltrain/CartPoleContinuous-v1", "agent": agent}
    return make_plan(given)


def test_names_that_are_typed_for_scripts_are_answered(capsys):
    common = OF_SCRIPTS.keys() - {"resume", "class_name", "runner_class_name"}
    common -= {"empirical_normalization"}
    typed(**dict.fromkeys(common, "x"))
    told = capsys.readouterr().err
    assert all(f"agent.{key}" in told for key in common)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("resume", True),
        ("logger", "wandb"),
        ("logger", {"class_name": "WandbLogWriter"}),
        ("class_name", "my_lab:MyRunner"),
        ("my_key", 1),
        ("policy.init_noise_std", 0.3),
        ("policy.critic_hidden_dims", [8]),
        ("policy.activation", "elu"),
    ],
)
def test_a_files_words_to_scripts_are_answered_and_typed_ones_refused(key, value, tmp_path, capsys):
    if not key.startswith("policy"):
        plan(tmp_path, {**OF_SCRIPTS, "logger": "tensorboard", key: value})
        (line,) = capsys.readouterr().err.splitlines()
        check_said(line)
    if key != "my_key" and not isinstance(value, dict):
        with pytest.raises(UsageError) as refused:
            typed(**{key: value})
        check_said(str(refused.value))
        typed(**{f"+{key}": value})
        check_said(capsys.readouterr().err)


def test_an_algorithm_of_ones_own_is_refused_for_that():
    with says(UsageError):
        typed(**{"algorithm.class_name": "PPOAMP", "+algorithm.schedule": "mine"})


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


OTHERS = {
    "algorithm.optimizer": "adam",
    "algorithm.loss_type": "mse",
    "actor.rnn_type": "lstm",
    "policy.noise_std_type": "log",
}
"""Options that the defaults do not have."""


def with_others(**changed):
    agent = small_agent()
    for key, value in (OTHERS | changed).items():
        section, _, name = key.partition(".")
        agent.setdefault(section, {})[name] = value
    return agent


def test_the_words_are_those_of_the_installed_version():
    found = choices(with_others())
    for word in found["actor.activation"].allowed:
        assert resolve_nn_activation(word)
    for word in found["algorithm.optimizer"].allowed:
        assert resolve_optimizer(word)
    with pytest.raises(ValueError, match="Valid activations are: ") as told:
        resolve_nn_activation("none such")
    assert all(repr(word) in str(told.value) for word in found["actor.activation"].allowed)
    assert str(told.value).count("', '") == len(found["actor.activation"].allowed) - 1
    assert {"adam", "sgd"} < found["algorithm.optimizer"].allowed
    assert found["actor.class_name"].allowed == set(rsl_rl.models.__all__)
    distributions = found["actor.distribution_cfg.class_name"].allowed
    assert "GaussianDistribution" in distributions
    assert all(issubclass(getattr(rsl_rl.modules, x), object) for x in distributions)
    assert found["actor.distribution_cfg.std_type"].allowed == {"scalar", "log"}
    assert found["policy.noise_std_type"].allowed == {"scalar", "log"}
    assert found["algorithm.schedule"].allowed == {"adaptive", "fixed"}
    assert found["algorithm.loss_type"].allowed == {"mse", "huber"}
    assert found["actor.rnn_type"].allowed == {"lstm", "gru"}


def test_words_are_taken_in_any_case_where_rsl_rl_does():
    typed(**{"actor.activation": "ELU", "algorithm.optimizer": "AdamW"})


def test_a_class_of_the_users_own_takes_any_word():
    for mine in ("my.models:Mine", "rsl_rl_of_ours.models.Mine"):
        found = choices(with_others(**{"actor.class_name": mine}))
        assert not [key for key in found if key in ("actor.activation", "actor.class_name")]
        assert "critic.activation" in found


def test_options_of_any_shape_are_read():
    for odd in (
        {},
        {"actor": None, "algorithm": []},
        {"actor": {"class_name": [1], 2: {}}, "policy": "x"},
        {"actor": {"class_name": "CNNModel", "cnn_cfg": {1: {}}, "distribution_cfg": {1: 1}}},
        {"policy": [1], "algorithm": []},
    ):
        keys(odd)
        choices(odd)


LEGGED = """
seed: 5
runner_class_name: OnPolicyRunner
policy: {init_noise_std: 0.7, actor_hidden_dims: [8], critic_hidden_dims: [8], activation: elu}
algorithm: {num_learning_epochs: 2, num_mini_batches: 4, learning_rate: 2.0e-3, schedule: adaptive,
  desired_kl: 0.02, gamma: 0.98, lam: 0.9, clip_param: 0.1, entropy_coef: 0.0, max_grad_norm: 2.0,
  value_loss_coef: 0.5, use_clipped_value_loss: true}
runner: {policy_class_name: ActorCritic, algorithm_class_name: PPO, num_steps_per_env: 12,
  max_iterations: 7, save_interval: 3, experiment_name: walk, run_name: "", resume: true,
  load_run: -1, checkpoint: -1, resume_path: null}
"""


@pytest.mark.slow
def test_files_of_legged_gym_are_read(tmp_path, capsys):
    path = tmp_path / "legged.yaml"
    path.write_text(LEGGED)
    task = {"library": "rsl_rl", "task": "rltrain/CartPoleContinuous-v1", "num_envs": 4}
    made = make_plan({**task, "agent_config": str(path), "agent": {"algorithm.gamma": 0.97}})
    assert (made.config.seed, made.iteration.steps, made.iteration.iterations) == (5, 12, 7)
    assert made.config.agent["algorithm"]["gamma"] == 0.97
    told = capsys.readouterr().err
    assert "agent.resume: not read here. Continue a run with --resume RUN" in told
    with pytest.raises(UsageError, match=r"runner\.max_iterations: .* 'agent\.max_iterations'\?"):
        make_plan({**task, "agent_config": str(path), "agent": {"runner.max_iterations": 3}})
    path.write_text(LEGGED.replace("num_mini_batches", "num_minibatches"))
    with pytest.raises(UsageError, match="Did you mean 'num_mini_batches'"):
        make_plan({**task, "agent_config": str(path)})
