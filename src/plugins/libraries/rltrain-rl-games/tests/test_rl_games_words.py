"""What a file has that rl_games does not take is refused by the plan, or answered."""

from __future__ import annotations

import copy

import pytest
import yaml
from rl_games.algos_torch import model_builder
from rl_games.algos_torch.model_builder import ModelBuilder
from rl_games.algos_torch.network_builder import NetworkBuilder

from rltrain.errors import UsageError
from rltrain.options import get_dotted, set_dotted
from rltrain.plan.resolve import make_plan
from rltrain.types import TaskInfo
from rltrain_rl_games.declare.choices import choices
from rltrain_rl_games.declare.keys import keys
from rltrain_rl_games.declare.options import ignored
from rltrain_rl_games.declare.refusals import GROUPS_NETWORK
from rltrain_rl_games.plugin import rltrain_provides

(SPEC,) = rltrain_provides()
CONTINUOUS = "params.network.space.continuous"


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
    assert found[f"{CONTINUOUS}.mu_init.name"].allowed == set(layers.init_factory._builders)
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
    assert told.startswith("rltrain: agent.params.load_checkpoint: not read here. A new run")
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
