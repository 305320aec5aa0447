"""What a file has that rl_games does not take is refused by the plan, or answered."""

from __future__ import annotations

import pytest
import yaml
from rl_games.algos_torch import model_builder
from rl_games.algos_torch.model_builder import ModelBuilder
from rl_games.algos_torch.network_builder import NetworkBuilder

from rltrain.errors import UsageError
from rltrain.options import get_dotted, set_dotted
from rltrain.options.agent import override_agent
from rltrain.plan.resolve import make_plan
from rltrain.types import TaskInfo
from rltrain_rl_games.declare.choices import choices
from rltrain_rl_games.declare.keys import keys
from rltrain_rl_games.declare.options import ignored
from rltrain_rl_games.declare.refusals import GROUPS_NETWORK
from rltrain_rl_games.plugin import rltrain_provides

(SPEC,) = rltrain_provides()
CONTINUOUS = "params.network.space.continuous"


def plan(**agent):
    agent = {f"params.{key}": value for key, value in agent.items()}
    return make_plan(
        {"library": "rl_games", "task": "rltrain/CartPoleContinuous-v1", "agent": agent}
    )


def plan_file(options, tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump(options))
    given = {"library": "rl_games", "task": "rltrain/CartPoleContinuous-v1"}
    return make_plan({**given, "agent_config": str(path)})


def network(**changed):
    """Return options with a network that is changed."""
    options = SPEC.default_agent(TaskInfo("any", "continuous"), "ppo")
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
    ("key", "word", "meant"),
    [
        ("network.mlp.activation", "eluu", "elu"),
        ("network.mlp.initializer.name", "defalt", "default"),
        ("network.space.continuous.mu_init.name", "orthogonl", "orthogonal"),
        ("network.name", "actor_critik", "actor_critic"),
        ("model.name", "continuous_a2c_logst", "continuous_a2c_logstd"),
        ("config.lr_schedule", "adaptve", "adaptive"),
    ],
)
def test_a_word_that_rl_games_lacks_is_refused_by_the_plan(key, word, meant):
    with pytest.raises(UsageError) as refused:
        plan(**{key: word})
    assert str(refused.value).startswith(f"agent.params.{key}={word}: rl_games 1.")
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


def test_what_a_file_says_to_other_programs_is_answered(tmp_path, capsys):
    options = network(rnn={"name": "lstm", "units": 8, "layers": 1})
    options["params"] |= {"load_checkpoint": True, "load_path": "a.pth"}
    options["params"]["config"]["seq_len"] = 16
    path = tmp_path / "agent.yaml"
    path.write_text(yaml.safe_dump(options))
    given = {"library": "rl_games", "task": "rltrain/CartPoleContinuous-v1"}
    make_plan({**given, "agent_config": str(path)})
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("rltrain: agent.params.load_checkpoint: not read here. A new run")
    assert second.startswith("rltrain: agent.params.config.seq_len: not read here. rl_games calls")
    options["params"]["load_checkpoint"] = False
    options["params"]["config"]["seq_length"] = 16
    path.write_text(yaml.safe_dump(options))
    make_plan({**given, "agent_config": str(path)})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("params.config.seq_lenght", "seq_length"),
        ("params.config.max_epoch", "max_epochs"),
        ("params.network.mlp.unit", "units"),
        ("params.network.space.continuous.fixed_sigm", "fixed_sigma"),
        ("params.netwrok", "network"),
    ],
)
def test_a_misspelled_key_of_a_file_is_refused_by_the_plan(key, meant, tmp_path):
    options = network()
    section = key.rpartition(".")[0]
    get_dotted(options, section).pop(meant, None)
    set_dotted(options, key, 16)
    with pytest.raises(UsageError) as refused:
        plan_file(options, tmp_path)
    assert str(refused.value).startswith(f"agent.{key}: rl_games 1.")
    assert f" has no such option. Did you mean {meant!r}?" in str(refused.value)


def test_keys_that_rl_games_never_reads_are_named(tmp_path, capsys):
    options = network(my_layers=3)
    options["params"]["config"] |= {"expl_type": "none", "minibatch_size": 8}
    options["params"]["config"]["minibatch_size_per_env"] = 8
    plan_file(options, tmp_path)
    first, second = capsys.readouterr().err.splitlines()
    lacks = "agent.params.config.expl_type, agent.params.network.my_layers: rl_games 1."
    assert first.startswith(f"rltrain: {lacks}")
    assert second.startswith("rltrain: agent.params.config.minibatch_size_per_env: not read here.")


def test_other_networks_and_agents_may_have_any_key():
    mine = network(name="mine")
    assert not [section for section in keys(mine) if "network" in section]
    mine["params"]["algo"] = {"name": "amp_continuous"}
    assert keys(mine) == {}


@pytest.mark.parametrize("algorithm", ["ppo", "sac"])
@pytest.mark.parametrize("action", ["continuous", "discrete", "multi_discrete"])
def test_the_keys_of_the_default_options_are_known(algorithm, action):
    options = SPEC.default_agent(TaskInfo("any", action), algorithm)
    assert override_agent(options, {}, SPEC, "the defaults", options) == []


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
