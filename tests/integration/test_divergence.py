"""One weight changed on one rank: the run stops within the interval, and names it."""

from __future__ import annotations

import re

import pytest
import torch
from observers import RANK_LOCAL

from rltrain.errors import DivergenceError
from rltrain.hookspecs import hookimpl
from rltrain.testing import FakeWorld

INTERVAL = 3


class ChangesOneWeight:
    """Changes one number of one parameter on rank 1, in its step number `at`."""

    def __init__(self, at):
        self.at, self.models = at, {}

    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session):
        env = yield
        step, done = env.step, 0

        def counted(actions):
            nonlocal done
            done += 1
            if session.world.rank == 1 and done == self.at:
                self.change()
            return step(actions)

        env.step = counted
        return env

    @hookimpl(wrapper=True)
    def rltrain_wrap_model(self, role):
        self.models[role] = model = yield
        return model

    @torch.no_grad()
    def change(self):
        first = next(model for model in self.models.values() if list(model.parameters()))
        # Rarely the same number after an optimizer step.
        list(first.parameters())[1].view(-1)[0] += 1e-3


@pytest.mark.parametrize("library", ["rl_games", "rsl_rl", "skrl"])
def test_a_weight_that_is_changed_on_one_rank_stops_the_run(library, tmp_path):
    steps = {
        "rl_games": {"params.config.horizon_length": 8},
        "rsl_rl": {"num_steps_per_env": 8},
        "skrl": {"agent.rollouts": 8},
    }[library]
    seen = []

    def observer():
        seen.append(ChangesOneWeight(at=8 + 3))  # In the second iteration's rollout.
        return seen[-1]

    with pytest.raises(DivergenceError) as caught:
        FakeWorld(2, rank_local=RANK_LOCAL.get(library, ())).train(
            library=library,
            num_envs=8,
            max_iterations=20,
            check_interval=INTERVAL,
            agent=steps,
            observers=[observer],
            log_root=str(tmp_path),
        )
    match = re.search(
        r"at iteration (\d+): (\S+) differs from rank 0's on rank\(s\) 1 ", str(caught.value)
    )
    assert match, caught.value
    assert int(match[1]) == INTERVAL
    role, _, name = match[2].partition(".")
    assert name == list(dict(seen[0].models[role].named_parameters()))[1]


@pytest.mark.slow
def test_an_interval_of_zero_checks_at_the_end(tmp_path):
    with pytest.raises(DivergenceError, match="at iteration 4"):
        FakeWorld(2).train(
            library="rsl_rl",
            num_envs=8,
            max_iterations=4,
            check_interval=0,
            agent={"num_steps_per_env": 8},
            observers=[lambda: ChangesOneWeight(at=3)],
            log_root=str(tmp_path),
        )
