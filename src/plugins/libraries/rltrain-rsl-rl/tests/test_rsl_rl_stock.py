"""An adapted run of one rank learns what rsl_rl's own run learns."""

from __future__ import annotations

import copy

import pytest
import torch
from rsl_rl.runners import OnPolicyRunner
from rsl_rl_stubs import (
    CURIOUS,
    POOLS,
    LocalSession,
    PointEnv,
    mirrored,
    recurrent,
    small_agent,
)

from rltrain.metrics.environment import CountedEnv
from rltrain.options import get_dotted, set_dotted
from rltrain.testing import FakeWorld
from rltrain_rsl_rl.run.env import RslRlEnv
from rltrain_rsl_rl.run.runner import SessionRunner
from rltrain_rsl_rl.run.upstream import rnd_optimizer

SYMMETRY = {
    "data_augmentation_func": mirrored,
    "use_data_augmentation": True,
    "use_mirror_loss": True,
    "mirror_loss_coeff": 0.5,
}
NORMALIZES = (
    "actor.obs_normalization",
    "critic.obs_normalization",
    "algorithm.rnd_cfg.state_normalization",
)
CASES = {
    "adaptive learning rate": {"algorithm.schedule": "adaptive", "algorithm.desired_kl": 0.01},
    "advantages by mini-batch": {"algorithm.normalize_advantage_per_mini_batch": True},
    "recurrent": recurrent("lstm"),
    "RND": CURIOUS,
    "RND, recurrent": {**CURIOUS, **recurrent("gru")},
    "symmetry": {
        "algorithm.symmetry_cfg": SYMMETRY,
        "algorithm.schedule": "adaptive",
        "algorithm.desired_kl": 0.01,
    },
}


class TimedEnv(PointEnv):
    step_dt = 0.02


def learned(runner) -> dict[str, torch.Tensor]:
    """Return every tensor of models and optimizers, by name."""
    algorithm = runner.alg
    models = {"actor": algorithm.actor, "critic": algorithm.critic}
    optimizers = {"optimizer": algorithm.optimizer}
    if algorithm.rnd:
        models["rnd"], optimizers["rnd optimizer"] = algorithm.rnd, rnd_optimizer(algorithm)
    found = {
        f"{role}.{name}": tensor
        for role, model in models.items()
        for name, tensor in model.state_dict().items()
    }
    for role, optimizer in optimizers.items():
        for index, state in optimizer.state_dict()["state"].items():
            found.update({f"{role}.{index}.{name}": value for name, value in state.items()})
    return {**found, "learning rate": torch.tensor(algorithm.learning_rate)}


@pytest.mark.parametrize("distributed", [False, True])
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_one_rank_learns_what_rsl_rl_learns(tmp_path, options, distributed):
    agent = small_agent()
    agent["obs_groups"]["rnd_state"] = ["policy"]
    for key, value in options.items():
        set_dotted(agent, key, copy.deepcopy(value))
    if not POOLS:  # The adapter's normalizers are updated when those of 5.5 are.
        for key in NORMALIZES:
            if get_dotted(agent, key, None):
                set_dotted(agent, key, False)

    def stock(group):
        torch.manual_seed(3)
        runner = OnPolicyRunner(RslRlEnv(CountedEnv(TimedEnv(), 0), "cpu"), copy.deepcopy(agent))
        runner.learn(3)
        return learned(runner)

    def adapted(group):
        torch.manual_seed(3)
        run = {"distributed": True, "nproc_per_node": 1} if distributed else {}
        session = LocalSession(tmp_path, agent, TimedEnv(), group=group, **run)
        runner = SessionRunner(RslRlEnv(session.env, "cpu"), copy.deepcopy(agent), session)
        runner.connect()
        runner.learn(3)
        return learned(runner)

    # Fake worlds of one rank restore the generators, so both runs start equal.
    [expected], [state] = FakeWorld(1).run(stock), FakeWorld(1).run(adapted)
    assert list(state) == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-5, msg=name)
