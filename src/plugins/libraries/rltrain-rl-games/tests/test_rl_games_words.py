"""What a file has that rl_games does not take is refused by the plan, or answered."""

from __future__ import annotations

import pytest
import yaml
from rl_games.algos_torch import model_builder
from rl_games.algos_torch.model_builder import ModelBuilder
from rl_games.algos_torch.network_builder import NetworkBuilder

from rltrain.errors import UsageError
from rltrain.plan.resolve import make_plan
from rltrain.types import TaskInfo
from rltrain_rl_games.plugin import rltrain_provides
from rltrain_rl_games.refusals import GROUPS_NETWORK
from rltrain_rl_games.remarks import remarks
from rltrain_rl_games.words import words

(SPEC,) = rltrain_provides()
CONTINUOUS = "params.network.space.continuous"


def plan(**agent):
    agent = {f"params.{key}": value for key, value in agent.items()}
    return make_plan(
        {"library": "rl_games", "task": "rltrain/CartPoleContinuous-v1", "agent": agent}
    )


def network(**changed):
    """Return options with a network that is changed."""
    options = SPEC.default_agent(TaskInfo("any", "continuous"), "ppo")
    return {"params": {**options["params"], "network": options["params"]["network"] | changed}}


def test_the_words_are_those_of_the_installed_version():
    found = words(network())
    layers = NetworkBuilder.BaseNetwork()
    assert found["params.network.mlp.activation"].known == set(layers.activations_factory._builders)
    assert found[f"{CONTINUOUS}.mu_init.name"].known == set(layers.init_factory._builders)
    assert found["params.network.rnn.name"].known == {"identity", "lstm", "gru"}
    assert {"adaptive", "linear"} < found["params.config.lr_schedule"].known
    builder = ModelBuilder()
    models = words({"params": {"model": {"name": "continuous_a2c_logst"}}})["params.model.name"]
    assert models.known <= set(builder.model_factory._builders)
    networks = words(network(name="actor_critik"))["params.network.name"].known - {GROUPS_NETWORK}
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
        mine = words(network(name=name, mlp={"activation": "mine"}))
        assert not [key for key in mine if key.startswith("params.network")]
        assert "params.model.name" not in words({"params": {"model": {"name": name}}})


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
    with pytest.raises(UsageError, match=rf"^params\.{kind}\.name that nobody registers: "):
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
    assert first.startswith(f"rltrain: {path}: params.load_checkpoint")
    assert second.startswith(f"rltrain: {path}: params.config.seq_len is not read")
    options["params"]["load_checkpoint"] = False
    options["params"]["config"]["seq_length"] = 16
    path.write_text(yaml.safe_dump(options))
    make_plan({**given, "agent_config": str(path)})
    assert capsys.readouterr().err == ""


def test_options_of_any_shape_are_read():
    for odd in (
        {},
        {"params": None},
        {"params": {"network": []}},
        {"params": {"network": {"name": [1], "rnn": 1}}},
        {"params": {"model": {"name": 1}}},
    ):
        words(odd)
        assert not list(remarks(odd))
