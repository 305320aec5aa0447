"""Networks of a user's own on several ranks learn as one, or are refused before they learn."""

from __future__ import annotations

import pytest

from rltrain.errors import DivergenceError, UsageError
from rltrain.testing import FakeWorld, differing

OPTIONS = {
    "rsl_rl": lambda name: {"num_steps_per_env": 8, "actor.class_name": f"own_networks:{name}"},
    "rl_games": lambda name: {
        "params.network.name": name,
        "params.config.horizon_length": 8,
        "params.config.minibatch_size_per_env": 4,
    },
}


@pytest.fixture
def train(tmp_path):
    def run(library, network, ranks=2):
        return FakeWorld(ranks).train(
            library=library,
            task="own_networks:Own-v0",
            agent=OPTIONS[library](network),
            num_envs=4,
            max_iterations=2,
            log_root=str(tmp_path),
        )

    return run


@pytest.mark.parametrize("library", OPTIONS)
@pytest.mark.parametrize("network", ["Centered", "ByTheLast"])
def test_statistics_of_a_batch_are_refused_before_it_learns(train, library, network):
    with pytest.raises(
        UsageError, match=r"a network of your own .* on the other rows\. .* 2 ranks"
    ):
        train(library, network)


@pytest.mark.slow
def test_what_is_kept_beside_forward_is_found_after_the_first_iteration(train):
    with pytest.raises(DivergenceError, match=r"iteration 1: actor\.output for an equal input"):
        train("rsl_rl", "BesideForward")


@pytest.mark.slow
@pytest.mark.parametrize("library", OPTIONS)
def test_noise_is_not_refused(train, library):
    assert not differing(train(library, "Noisy"))


@pytest.mark.parametrize("library", OPTIONS)
def test_on_one_rank_nothing_is_refused(train, library):
    (run,) = train(library, "Centered", ranks=1)
    assert run.result.iterations == 2
