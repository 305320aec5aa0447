"""Collectives of each library on a fake world: their number, other gradient syncs, divergence."""

from __future__ import annotations

import re

import pytest
import torch
from observers import RANK_LOCAL

from rltrain.errors import DivergenceError
from rltrain.hookspecs import hookimpl
from rltrain.testing import FakeWorld

LIBRARIES = ["rl_games", "rsl_rl", "skrl"]
SKRL = {"agent.learning_rate_scheduler": "KLAdaptiveLR"}
STEPS = {
    "rl_games": {"params.config.horizon_length": 8},
    "rsl_rl": {"num_steps_per_env": 8},
    "skrl": {"agent.rollouts": 8},
}
"""By library, the option that makes an iteration short."""


@pytest.fixture
def train(tmp_path):
    """Train two ranks; return the world, rank 0's parameters and rank 1's, and the checkpoint."""

    def run(library, iterations=2, folder="run", **options):
        world = FakeWorld(2, rank_local=RANK_LOCAL.get(library, ()))
        options = {"num_envs": 8, **options, "log_root": str(tmp_path / folder)}
        runs = world.train(library=library, max_iterations=iterations, **options)
        return world, *(run.state() for run in runs), runs[0].result.checkpoint

    return run


# Library, framework, options and steps of the optimizer in an iteration, by default.
COSTS = [
    ("rl_games", "torch", {}, 4 * 5),
    ("rsl_rl", "torch", {}, 4 * 5),
    # In each of 8 epochs, another one for the KL divergence: skrl's own with torch.
    ("skrl", "torch", SKRL, 4 * 8 + 8),
    pytest.param("skrl", "jax", SKRL, 4 * 8 + 8, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("library", "framework", "agent", "steps"), COSTS)
def test_an_iteration_costs_a_collective_a_step_and_at_most_four_more(
    train, library, framework, agent, steps
):
    if library == "skrl":
        agent = {**agent, "agent.experiment.checkpoint_interval": 0}
    two, four = (train(library, n, framework=framework, agent=agent)[0] for n in (2, 4))
    assert steps <= (len(four.trace) - len(two.trace)) / 2 <= steps + 4


def synced(train, library, grad_sync, *words, **options):
    agent = SKRL if library == "skrl" else {}
    return train(library, *words, grad_sync=grad_sync, num_envs=16, agent=agent, **options)


def distance(some, others):
    return max(float((some[name].double() - others[name].double()).abs().max()) for name in some)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_ranks_end_equal_after_half_the_bytes(train, library):
    rounded, ours, others, _ = synced(train, library, "bf16")
    assert all(torch.equal(ours[name], others[name]) for name in ours)
    whole, exact, *_ = synced(train, library, "flat", 2, "exact")
    sent, usual = (
        max(x.bytes for x in world.trace if x.op == "all_reduce(sum)") for world in (rounded, whole)
    )
    assert sent == pytest.approx(usual / 2, rel=1e-2)
    # Close to the exact gradients, but not equal, which shows that it was used.
    assert 0 < distance(ours, exact) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_resumed_run_goes_on_with_what_was_rounded_off(train, library):
    _, whole, *_ = synced(train, library, "bf16", 4, "whole")
    *_, checkpoint = synced(train, library, "bf16", 2, "stopped")
    _, resumed, *_ = synced(train, library, "bf16", 4, "resumed", checkpoint=checkpoint)
    assert distance(whole, resumed) == 0


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


# In the second iteration's rollout; 0 checks at the end alone.
@pytest.mark.parametrize(
    ("library", "interval", "found"),
    [*((each, 3, 3) for each in LIBRARIES), pytest.param("rsl_rl", 0, 4, marks=pytest.mark.slow)],
)
def test_a_weight_that_is_changed_on_one_rank_stops_the_run(train, library, interval, found):
    seen = []

    def observer():
        seen.append(ChangesOneWeight(at=8 + 3))
        return seen[-1]

    options = {"check_interval": interval, "agent": STEPS[library], "observers": [observer]}
    with pytest.raises(DivergenceError) as caught:
        train(library, 20 if interval else 4, **options)
    match = re.search(
        r"at iteration (\d+): (\S+) differs from rank 0's on rank\(s\) 1 ", str(caught.value)
    )
    assert match, caught.value
    assert int(match[1]) == found
    role, _, name = match[2].partition(".")
    assert name == list(dict(seen[0].models[role].named_parameters()))[1]
