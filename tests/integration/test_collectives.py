"""How many collectives an iteration costs, counted on a fake world."""

from __future__ import annotations

import pytest
from observers import RANK_LOCAL

from rltrain.testing import FakeWorld

SKRL = {"agent.learning_rate_scheduler": "KLAdaptiveLR", "agent.experiment.checkpoint_interval": 0}
CASES = {
    "rl_games": ("rl_games", "torch", {}, 4 * 5),
    "rsl_rl": ("rsl_rl", "torch", {}, 4 * 5),
    # In each of 8 epochs, another one for the KL divergence: skrl's own with torch.
    "skrl": ("skrl", "torch", SKRL, 4 * 8 + 8),
    "skrl-jax": ("skrl", "jax", SKRL, 4 * 8 + 8),
}
"""Library, framework, options and steps of the optimizer in an iteration, by default."""


@pytest.mark.parametrize(
    "case", [pytest.param(x, marks=[pytest.mark.slow] if "jax" in x else []) for x in CASES]
)
def test_an_iteration_costs_a_collective_a_step_and_at_most_four_more(tmp_path, case):
    library, framework, agent, steps = CASES[case]

    def collectives(iterations: int) -> int:
        world = FakeWorld(2, rank_local=RANK_LOCAL.get(library, ()))
        world.train(
            library=library,
            framework=framework,
            num_envs=8,
            max_iterations=iterations,
            agent=agent
            | ({"agent.experiment.checkpoint_interval": 0} if library == "skrl" else {}),
            log_root=str(tmp_path),
        )
        return len(world.trace)

    assert steps <= (collectives(4) - collectives(2)) / 2 <= steps + 4
