"""The observer `profile` turns on the framework's profiler for a few iterations."""

from __future__ import annotations

import gzip
import json

import pytest

from rltrain.testing import FakeWorld
from rltrain_report.profile import COUNT, ENVIRONMENTS, FIRST


def steps_of(tmp_path, iterations, **options):
    """Train one rank; return how many steps its profile has; None if there is no profile."""
    given = {"task": "rltrain/CartPoleContinuous-v1", "num_envs": 4, "device": "cpu"}
    given |= {"max_iterations": iterations, "observers": ["profile"], "writers": ["console"]}
    FakeWorld(1).train(log_root=str(tmp_path), **given, **options)
    files = [*tmp_path.rglob("rank0*.json.gz"), *tmp_path.rglob("rank0/**/*.trace.json.gz")]
    if not files:
        return None
    events = json.loads(gzip.decompress(files[0].read_bytes()))["traceEvents"]
    return sum(each.get("name") == ENVIRONMENTS and each["ph"] == "X" for each in events)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("iterations", "profiled"),
    [(FIRST, None), (FIRST + 1, 8), (FIRST + COUNT + 1, 8 * COUNT)],
    ids=["short", "ends early", "long"],
)
def test_torchs_profiler_sees_a_few_iterations(tmp_path, iterations, profiled):
    pytest.importorskip("rsl_rl")
    agent = {"num_steps_per_env": 8}
    assert steps_of(tmp_path, iterations, library="rsl_rl", agent=agent) == profiled


@pytest.mark.slow
def test_jaxs_profiler_sees_a_few_iterations(tmp_path):
    pytest.importorskip("skrl")
    pytest.importorskip("jax")
    options = {"framework": "jax", "agent": {"agent": {"rollouts": 8}}}
    assert steps_of(tmp_path, FIRST + COUNT + 1, library="skrl", **options) == 8 * COUNT
