"""Two ranks learn the stand-in's tasks, with the options that Isaac Lab ships, unchanged."""

from __future__ import annotations

import pytest
from messages import says

from rltrain.errors import UsageError
from rltrain.options import load_yaml
from rltrain.plan.resolve import make_plan
from rltrain.testing import FakeWorld, differing

CARTPOLE = "Isaac-Cartpole-v0"
ASYMMETRIC = "Isaac-Cartpole-Asymmetric-Direct-v0"
CAMERA = "Isaac-Cartpole-RGB-Camera-Direct-v0"
DISCRETE = "Isaac-Cartpole-Discrete-Direct-v0"
PLACE = {"skrl": ["skrl:config.torch"]}


def train(library, task, tmp_path, **options):
    pytest.importorskip(library)
    # Imported tasks are registered with Gymnasium too, so the suite must be named.
    settings = {"suite": "isaaclab", "max_iterations": 1, "log_root": str(tmp_path)}
    world = FakeWorld(2, rank_local=PLACE.get(library, ()))
    return world.train(library=library, task=task, **settings | options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "task", "steps"),
    [
        ("rl_games", CARTPOLE, 16),
        ("rl_games", ASYMMETRIC, 16),
        ("rl_games", CAMERA, 8),
        ("rsl_rl", CARTPOLE, 16),
        ("rsl_rl", ASYMMETRIC, 16),
        ("skrl", CARTPOLE, 16),
        ("skrl", ASYMMETRIC, 16),
        ("skrl", CAMERA, 8),
        ("rl_games", DISCRETE, 32),  # With the library's options: none are registered.
    ],
)
def test_ranks_learn_with_registered_options(library, task, steps, tmp_path):
    runs = train(library, task, tmp_path)
    num_envs = 16 if task == CAMERA else 64
    assert runs[0].result.frames == 2 * num_envs * steps
    assert not differing(runs)


@pytest.mark.parametrize("agent", ["AMP", "IPPO", "MAPPO"])
def test_agents_that_no_suite_can_serve_are_refused(agent, agent_file):
    file = agent_file("skrl_ppo_cfg.yaml")
    options = {"library": "skrl", "suite": "isaaclab", "task": CARTPOLE, "agent_config": file}
    overrides = {
        "agent.class": agent,
        "+motion_dataset": {"class": "RandomMemory", "memory_size": 200},
        "+agent.discriminator_loss_scale": 5.0,
    }
    with says(UsageError):
        make_plan(options | {"agent": overrides})


def test_a_plan_knows_the_task(agent_file):
    plan = make_plan({"library": "skrl", "suite": "isaaclab", "task": CARTPOLE})
    assert plan.options_from == f"those of the suite isaaclab for {CARTPOLE}"
    assert plan.config.agent == load_yaml(agent_file("skrl_ppo_cfg.yaml"), "the file")
    assert plan.config.num_envs == 64
