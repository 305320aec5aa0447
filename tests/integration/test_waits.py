"""No library waits for its device more often under rltrain than by itself.

Counted on the CPU, in one iteration: the calls that would wait on a GPU. The folder `cuda` counts
the actual waits.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from observers import RANK_LOCAL

from rltrain import hookimpl
from rltrain.testing import FakeWorld

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks import alone

from rltrain_torch.arrays import TorchArrays

SMALL = {
    "rl_games": {
        "params.config.horizon_length": 8,
        "params.config.minibatch_size": 32,
        "params.config.mini_epochs": 2,
    },
    "rsl_rl": {"num_steps_per_env": 8, "algorithm.num_learning_epochs": 2},
    "skrl": {
        "agent.rollouts": 8,
        "agent.learning_epochs": 2,
        "agent.experiment": {"checkpoint_interval": 0},
    },
}
"""Eight steps an iteration; fewer updates than by default."""

RECORD = {"rltrain_torch.arrays": 1}
"""An iteration's returns and lengths are read at once."""

ON_RANKS = {
    # The meters of all ranks, read at once; and the mean divergence of each mini-batch, which
    # rl_games itself reads, too.
    "rl_games": {"rltrain_rl_games.run.metrics": 1, "rltrain_torch.deferred_mean": 4},
    # One for each mini-batch's divergence, where rsl_rl itself asks two or three times.
    "rsl_rl": {"rltrain_rsl_rl.run.agents": 8},
    # skrl's own readings are enough.
    "skrl": {},
}
"""By library, what else is read on one of several ranks."""


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Let nothing be counted by numpy, which is for tensors on the CPU."""
    monkeypatch.setattr(TorchArrays, "view_on_host", lambda self, x: x)


def by_module(places):
    modules = Counter()
    for place, count in places.items():
        modules[place.partition(":")[0]] += count
    return modules


def waits_alone(how, library, folder):
    with alone.waits("cpu") as found:
        alone.train(how, library, "cpu", 8, 3, str(folder), found.lap, SMALL[library])
    return found.iteration


@pytest.mark.parametrize("library", alone.LIBRARIES)
def test_one_process_waits_no_more_than_the_library_itself(library, tmp_path):
    native = waits_alone("native", library, tmp_path / "native")
    assert sum(native.values()) > 8, "nothing was counted"
    ours = waits_alone("rltrain", library, tmp_path / "rltrain")
    more = by_module({place: n for place, n in ours.items() if place not in native})
    assert {name: n for name, n in more.items() if name.startswith("rltrain")} == RECORD
    assert sum(ours.values()) <= sum(native.values())


@pytest.mark.parametrize("library", alone.LIBRARIES)
def test_a_rank_waits_for_nothing_in_its_steps_either(library, tmp_path):
    class Watch:
        @hookimpl(wrapper=True)
        def rltrain_make_env(self):
            env = alone.lapped((yield), 8, self.lap)
            self.waits = alone.waits("cpu")
            self.found = self.waits.__enter__()
            return env

        def lap(self):
            self.found.lap()

        @hookimpl
        def rltrain_shutdown(self):
            self.waits.__exit__(None, None, None)

    runs = FakeWorld(2, rank_local=RANK_LOCAL.get(library, ())).train(
        library=library,
        num_envs=8,
        max_iterations=3,
        agent=SMALL[library],
        observers=[Watch],
        log_root=str(tmp_path),
    )
    for run in runs:
        modules = by_module(run.observers[0].found.iteration)
        ours = {name: n for name, n in modules.items() if name.startswith("rltrain")}
        assert ours == RECORD | ON_RANKS[library]
