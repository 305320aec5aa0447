"""The defaults, what is refused, and which keys and words a file may have."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import pytest
import yaml
from messages import check_said, says
from rl_games.algos_torch import model_builder
from rl_games.algos_torch.model_builder import ModelBuilder
from rl_games.algos_torch.network_builder import NetworkBuilder

from rltrain.errors import UsageError
from rltrain.options import get_dotted, load_yaml, set_dotted
from rltrain.options.agent import load_agent, override_agent
from rltrain.plan.resolve import make_plan
from rltrain.plugins.registry import Registry
from rltrain.specs import SuiteSpec
from rltrain.testing import make_config
from rltrain.types import Iteration, TaskInfo
from rltrain_rl_games import plugin
from rltrain_rl_games.declare.choices import choices
from rltrain_rl_games.declare.iteration import iteration
from rltrain_rl_games.declare.keys import keys
from rltrain_rl_games.declare.options import ignored
from rltrain_rl_games.declare.refusals import GROUPS_NETWORK
from rltrain_rl_games.plugin import rltrain_provides

(SPEC,) = rltrain_provides()
CONTINUOUS = TaskInfo("any", "continuous", num_envs=64)
MULTI_DISCRETE = TaskInfo("any", "multi_discrete")
FEW = TaskInfo("any", "continuous", num_envs=8)
SUITE = SuiteSpec(
    name="any",
    factory="any:Any",
    frameworks=("torch", "jax"),
    describe=lambda task, env: None,
    tasks=list,
)
SAC = {"params.algo.name": "sac", "params.config.replay_buffer_size": 96}


def resolved(agent, task=CONTINUOUS, algorithm="ppo"):
    overrides = {f"+{key}": value for key, value in agent.items()}
    options, source = load_agent(None, SPEC, algorithm, "torch", SUITE, task, Registry([]))
    override_agent(options, overrides, SPEC, source, {})
    return make_config(algorithm=algorithm, agent=options, num_envs=64)


def refusals(agent, task=CONTINUOUS, algorithm="ppo"):
    config, names = resolved(agent, task, algorithm), []
    for refusal in SPEC.refuses:
        if refusal.applies(config, task):
            names.append(refusal.name)
            break  # Like the plan: a later refusal may assume that this one does not apply.
    return names


CENTRAL = "params.config.central_value_config"


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        # What is refused in the table of support, is tested there.
        ({"params.algo.name": "dqn"}, "params.algo.name that rl_games does not have"),
        ({"params.algo.name": "a2c_discrete"}, "params.algo.name for other actions"),
        ({"params.model.name": "multi_discrete_a2c"}, "params.model.name for other actions"),
        (
            {"params.config.kl_threshold": None},
            "params.config.lr_schedule adaptive without kl_threshold",
        ),
        ({"params.model.name": "continuous_a2c"}, "params.model.name continuous_a2c"),
        (
            {f"{CENTRAL}.lr_schedule": "linear", "params.config.max_epochs": -1},
            f"{CENTRAL} with lr_schedule linear and no end",
        ),
        ({"params.config.max_steps": 10}, "params.config.max_steps"),
    ],
)
def test_unsupported_options_are_refused_by_name(agent, expected):
    assert refusals(agent) == [expected]


@pytest.mark.parametrize(
    ("network", "refused"),
    [
        ({"normalization": "batch_norm", "cnn": {"type": "conv2d"}}, True),
        # rl_games' own: over all images of a batch.
        ({"normalization": "layer_norm", "cnn": {"type": "conv2d"}}, True),
        ({"normalization": "batch_norm", "mlp": {"d2rl": True}}, True),
        ({"normalization": "layer_norm", "mlp": {"d2rl": True}}, False),
        ({"normalization": "batch_norm"}, False),  # Plain layers have none.
    ],
)
def test_normalization_over_a_mini_batch_is_refused_on_several_ranks(network, refused):
    config = resolved({"params.network": network})
    name = "params.network.normalization on several ranks"
    (refusal,) = [refusal for refusal in SPEC.refuses if refusal.name == name]
    assert refusal.applies(dataclasses.replace(config, distributed=True), CONTINUOUS) is refused
    assert not refusal.applies(config, CONTINUOUS)


@pytest.mark.parametrize(
    ("task", "algorithm", "file"),
    [
        (CONTINUOUS, "ppo", "ppo_continuous.yaml"),
        (FEW, "ppo", "ppo_continuous_few_envs.yaml"),
        (MULTI_DISCRETE, "ppo", "ppo_multi_discrete.yaml"),
        (CONTINUOUS, "sac", "sac_continuous.yaml"),
        (FEW, "sac", "sac_continuous_few_envs.yaml"),
    ],
)
def test_defaults_match_the_kind_of_task_and_are_not_refused(task, algorithm, file):
    expected = load_yaml(str(Path(plugin.__file__).parent / "defaults" / file), "a file")
    assert SPEC.default_agent(task, algorithm) == expected
    assert refusals({}, task, algorithm) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Iteration(32, 100, mini_batches=4)),
        ({"params.config.max_epochs": -1}, Iteration(32, None, mini_batches=4)),
        ({**SAC, "params.config.num_steps_per_episode": 8}, Iteration(8, 100, replay_rows=96)),
        (SAC, Iteration(1, 100, replay_rows=96)),
    ],
)
def test_an_iteration_is_a_rollout(options, expected):
    assert iteration(resolved(options)) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"minibatch_size": 100},
        {"minibatch_size_per_env": 5},
        {"minibatch_size_per_env": None},
        {"horizon_length": 0},
        {"seq_length": 3},
        {"central_value_config.minibatch_size": 100},
    ],
)
def test_mini_batches_that_do_not_divide_are_refused_by_their_name(options):
    with says(UsageError):
        iteration(resolved({f"params.config.{key}": value for key, value in options.items()}))


def scaled(written_for, num_envs, **options):
    agent = resolved({f"params.config.{key}": value for key, value in options.items()}).agent
    return SPEC.scale_mini_batches(agent, written_for, num_envs)["params"]["config"]


def test_mini_batches_are_scaled_by_the_number_of_environments():
    central = {"minibatch_size": 1024}
    config = scaled(256, 64, minibatch_size=2048, central_value_config=central)
    assert config["minibatch_size"] == 512
    assert config["central_value_config"]["minibatch_size"] == 256
    # Scaling up works too.
    assert scaled(64, 256, minibatch_size=512)["minibatch_size"] == 2048
    assert scaled(256, 64, minibatch_size_per_env=8)["minibatch_size_per_env"] == 8
    sac = {**resolved(SAC).agent}
    assert SPEC.scale_mini_batches(sac, 256, 64) == sac


RNN = {"params.network.rnn": {"name": "gru"}, "params.config.minibatch_size": 512}


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({"params.config.minibatch_size": 2048}, (100, 10)),
        ({"params.config.minibatch_size": 32}, (64, 1)),
        (RNN, (64, 1)),
    ],
)
def test_mini_batches_that_cannot_be_scaled_are_refused(options, numbers):
    agent = resolved({**options, "params.config.seq_length": 32}).agent
    with says(UsageError):
        SPEC.scale_mini_batches(agent, *numbers)


def test_sequences_of_a_recurrent_policy_divide_rollout_and_mini_batches():
    options = {"params.network.rnn": {"name": "gru"}, "params.config.seq_length": 64}
    with says(UsageError):
        iteration(resolved(options))


OF_SPACE = "params.network.space.continuous"


def plan(tmp_path, options):
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump(options))
    given = {"library": "rl_games", "task": "rltrain/CartPoleContinuous-v1"}
    return make_plan({**given, "agent_config": str(path)})


def network(**changed):
    """Return options with a network that is changed."""
    options = copy.deepcopy(dict(SPEC.default_agent(TaskInfo("any", "continuous"), "ppo")))
    return {"params": {**options["params"], "network": options["params"]["network"] | changed}}


def test_the_words_are_those_of_the_installed_version():
    found = choices(network())
    layers = NetworkBuilder.BaseNetwork()
    assert found["params.network.mlp.activation"].allowed == set(
        layers.activations_factory._builders
    )
    assert found[f"{OF_SPACE}.mu_init.name"].allowed == set(layers.init_factory._builders)
    assert found["params.network.rnn.name"].allowed == {"identity", "lstm", "gru"}
    assert {"adaptive", "linear"} < found["params.config.lr_schedule"].allowed
    builder = ModelBuilder()
    models = choices({"params": {"model": {"name": "continuous_a2c_logst"}}})["params.model.name"]
    assert models.allowed <= set(builder.model_factory._builders)
    networks = choices(network(name="actor_critik"))["params.network.name"].allowed - {
        GROUPS_NETWORK
    }
    assert networks <= set(builder.get_network_builder().network_factory._builders)


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        ("network.mlp.activation", "eluu", "elu"),
        ("network.mlp.initializer.name", "defalt", "default"),
        ("network.space.continuous.mu_init.name", "orthogonl", "orthogonal"),
        ("network.name", "actor_critik", "actor_critic"),
        ("model.name", "continuous_a2c_logst", "continuous_a2c_logstd"),
        ("config.lr_schedule", "adaptve", "adaptive"),
        ("config.seq_lenght", 16, "seq_length"),
        ("config.max_epoch", 16, "max_epochs"),
        ("network.mlp.unit", 16, "units"),
        ("network.space.continuous.fixed_sigm", 16, "fixed_sigma"),
        ("netwrok", 16, "network"),
    ],
)
def test_a_word_or_a_key_that_rl_games_lacks_is_refused_by_the_plan(key, value, meant, tmp_path):
    options = network()
    if value == 16:
        get_dotted(options, f"params.{key}".rpartition(".")[0]).pop(meant, None)
    set_dotted(options, f"params.{key}", value)
    with pytest.raises(UsageError) as refused:
        plan(tmp_path, options)
    place = key if value == 16 else f"{key}={value}"
    assert str(refused.value).startswith(f"agent.params.{place}: rl_games 1.")
    assert f"Did you mean {meant!r}?" in str(refused.value)


def test_a_network_of_the_users_own_may_have_any_name_and_words_of_its_own():
    for name in ("my_actor_critic", "actor_critic_2", "transformer", "a2c"):
        mine = choices(network(name=name, mlp={"activation": "mine"}))
        assert not [key for key in mine if key.startswith("params.network")]
        assert "params.model.name" not in choices({"params": {"model": {"name": name}}})


@pytest.mark.parametrize("kind", ["model", "network"])
def test_a_name_that_nobody_registers_is_refused_by_the_plan(kind, tmp_path, monkeypatch):
    module = tmp_path / f"my_{kind}.py"
    module.write_text(
        "import gymnasium\ngymnasium.register('Mine-v0', 'gymnasium.envs.classic_control"
        ":PendulumEnv')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    options = {"library": "rl_games", "task": f"my_{kind}:Mine-v0"}
    options["agent"] = {f"params.{kind}.name": "complex_net"}
    key = rf"params\.{kind}\.name"
    told = rf"^{key} that no module registers \(agent\.{key}=complex_net\): "
    with pytest.raises(UsageError, match=told):
        make_plan(options)
    module.write_text(f"{module.read_text()}# register_{kind}('complex_net', ...)\n")
    make_plan(options)
    monkeypatch.setitem(getattr(model_builder, f"{kind.upper()}_REGISTRY"), "complex_net", None)
    make_plan({**options, "task": "rltrain/CartPoleContinuous-v1"})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"seq_len": 16, "seq_length": 16}, []),
        ({"seq_len": 16}, ["config.seq_len: not read here. rl_games calls"]),
        (
            {"expl_type": "none", "minibatch_size": 8, "minibatch_size_per_env": 8},
            [
                "config.expl_type, agent.params.network.my_layers: rl_games 1.",
                "config.minibatch_size_per_env: not read here.",
            ],
        ),
    ],
)
def test_what_rl_games_never_reads_is_answered(config, said, tmp_path, capsys):
    options = network(rnn={"name": "lstm", "units": 8, "layers": 1})
    options["params"]["config"] |= config
    if "expl_type" in config:
        options["params"]["network"]["my_layers"] = 3
    plan(tmp_path, options)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(said)
    for line, words in zip(lines, said, strict=True):
        assert line.startswith(f"rltrain: agent.params.{words}")


def test_the_checkpoint_that_a_file_names_is_not_loaded(tmp_path, capsys):
    options = network()
    options["params"] |= {"load_checkpoint": True, "load_path": "a.pth"}
    plan(tmp_path, options)
    (told,) = capsys.readouterr().err.splitlines()
    check_said(told)
    options["params"]["load_checkpoint"] = False
    plan(tmp_path, options)
    assert capsys.readouterr().err == ""


def test_other_networks_and_agents_may_have_any_key():
    mine = network(name="mine")
    assert not [section for section in keys(mine) if "network" in section]
    mine["params"]["algo"] = {"name": "amp_continuous"}
    assert keys(mine) == {}


def test_options_of_any_shape_are_read():
    for odd in (
        {},
        {"params": None},
        {"params": {"network": []}},
        {"params": {"network": {"name": [1], "rnn": 1}}},
        {"params": {"model": {"name": 1}}},
    ):
        choices(odd)
        keys(odd)
        ignored(odd)
