"""Each library's options, translated from mjlab's options for rsl_rl."""

from __future__ import annotations

import pytest
from mjlab.tasks import registry

from rltrain.plan.resolve import make_plan
from rltrain_mjlab.agents import agent_options
from rltrain_mjlab.plugin import describe, tuned

GO1, CAMERA = "Mjlab-Velocity-Flat-Unitree-Go1", "Mjlab-Lift-Cube-Yam-Rgb"


@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_a_run_uses_the_translated_options(library):
    plan = make_plan({"library": library, "task": GO1, "num_envs": 4, "device": "cpu"}, {})
    assert plan.options_from == f"those of the suite mjlab for {GO1}"
    assert (plan.iteration.steps, plan.iteration.iterations) == (24, 10_000)
    assert plan.config.seed == 42


def test_rsl_rl_options_are_mjlabs_own():
    options = agent_options(GO1, "rsl_rl")
    assert options["obs_groups"] == {"actor": ["actor"], "critic": ["critic"]}
    assert options["actor"] == {
        "class_name": "MLPModel",
        "hidden_dims": [512, 256, 128],
        "activation": "elu",
        "obs_normalization": True,
        "distribution_cfg": {
            "class_name": "GaussianDistribution",
            "init_std": 1.0,
            "std_type": "scalar",
        },
    }
    assert "distribution_cfg" not in options["critic"]
    assert options["algorithm"]["entropy_coef"] == 0.01
    assert not {"logger", "wandb_project", "experiment_name"} & set(options)


class MyRunner:
    """Stands for one that a project registers with its task."""


def test_a_runner_of_ones_own_and_a_resume_are_told(capsys, monkeypatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    of = "Mjlab-Cartpole-Balance"
    agent = registry.load_rl_cfg(of)
    agent.resume = True
    envs = registry.load_env_cfg(of), registry.load_env_cfg(of, play=True)
    registry.register_mjlab_task("Own-Runner", *envs, agent, MyRunner)
    run = {"library": "rsl_rl", "suite": "mjlab", "num_envs": 4, "device": "cpu"}
    make_plan({**run, "task": of}, {})
    assert "not read here" not in capsys.readouterr().err
    make_plan({**run, "task": "Own-Runner"}, {})
    told = capsys.readouterr().err
    assert "agent.class_name: not read here. The runner is rltrain's own" in told
    assert "agent.resume: not read here. Continue a run with --resume RUN" in told


def test_rl_games_options_are_translated():
    params = agent_options(GO1, "rl_games")["params"]
    config, critic = params["config"], params["config"]["central_value_config"]
    assert params["network"]["mlp"]["units"] == [512, 256, 128]
    assert params["network"]["separate"] is False
    assert critic["network"]["mlp"]["units"] == [512, 256, 128]
    assert config["minibatch_size_per_env"] == critic["minibatch_size_per_env"] == 6
    assert (config["lr_schedule"], config["kl_threshold"]) == ("adaptive", 0.01)
    assert config["normalize_input"]
    assert critic["normalize_input"]
    assert config["clip_actions"] is False


def test_skrl_options_are_translated():
    options = agent_options(GO1, "skrl")
    policy, value = (options["models"][name]["network"][0] for name in ("policy", "value"))
    assert (policy["input"], value["input"]) == ("OBSERVATIONS", "STATES")
    assert value["layers"] == [512, 256, 128]
    assert options["agent"]["state_preprocessor"] == "RunningStandardScaler"
    assert options["agent"]["learning_rate_scheduler_kwargs"]["kl_threshold"] == 0.01
    assert options["trainer"]["timesteps"] == 240_000


def test_convolutions_are_mjlabs_for_rsl_rl_and_the_librarys_own_for_others():
    options = agent_options(CAMERA, "rsl_rl")
    assert options["obs_groups"]["actor"] == ["actor", "camera"]
    assert options["actor"]["class_name"].startswith("mjlab.rl.spatial_softmax:")
    assert options["actor"]["cnn_cfg"]["output_channels"] == [16, 32]
    assert agent_options(CAMERA, "skrl") is agent_options(CAMERA, "rl_games") is None
    assert describe(CAMERA, {}).images == ("camera",)


def test_other_algorithms_and_libraries_have_no_options():
    assert tuned(describe(GO1, {}), "skrl", "sac") is None
    assert tuned(describe(GO1, {}), "sb3", "ppo") is None
