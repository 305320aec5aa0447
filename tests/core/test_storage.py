"""The memory that a rank's rollouts or its replay buffer take."""

from __future__ import annotations

import pytest

from rltrain.plan.sizes import estimate_memory
from rltrain.types import ArrayInfo, Iteration, TaskInfo

VECTOR, IMAGE = ArrayInfo((4,)), ArrayInfo((84, 84, 3), "uint8")


def task(action="continuous", actions=(1,), **groups):
    return TaskInfo("any", action, observations=groups or None, actions=actions)


@pytest.mark.parametrize(
    ("iteration", "info", "message"),
    [
        # 32 x 64 rows of 4 + 3 + 6 floats.
        (Iteration(32), task(policy=VECTOR), "about 106 kB a rank for rollouts"),
        (Iteration(32), task(policy=IMAGE), "about 43 MB a rank for rollouts"),
        (Iteration(32), task(policy=ArrayInfo(IMAGE.shape)), "about 173 MB a rank for rollouts"),
        (Iteration(32, image_bytes=4), task(policy=IMAGE), "about 173 MB a rank for rollouts"),
        (Iteration(32), task(policy=VECTOR, camera=IMAGE), "about 43 MB a rank for rollouts"),
        (
            Iteration(8, replay_rows=100_000),
            task("discrete", (6,), policy=IMAGE),
            "about 4.2 GB a rank for the replay buffer",
        ),
        (Iteration(1), task(policy=ArrayInfo((4,), "float64")), "about 3.3 kB a rank for rollouts"),
    ],
)
def test_the_memory_of_stored_data_is_estimated(iteration, info, message):
    assert estimate_memory(iteration, info, 64) == message


def test_there_is_no_estimate_if_observations_are_unknown():
    assert estimate_memory(Iteration(32), task(), 64) is None
