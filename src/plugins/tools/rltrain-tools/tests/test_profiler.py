"""The observer `profile` times all ranks."""

from __future__ import annotations

import itertools
import json

from rltrain.testing import FakeWorld
from rltrain_report.profile import ITERATIONS, PROFILE


def events_of(tmp_path):
    (file,) = tmp_path.glob(f"logs/*/*/*/{PROFILE}")
    return json.loads(file.read_bytes())["traceEvents"]


def profiled(stub, tmp_path, ranks, **options):
    given = {**stub.OPTIONS, "log_root": str(tmp_path / "logs"), "observers": ["profile"]}
    FakeWorld(ranks).train(**{**given, **options})
    return events_of(tmp_path)


def test_the_first_iterations_of_all_ranks_are_timed(stub, tmp_path):
    found = profiled(stub, tmp_path, 2, max_iterations=ITERATIONS + 2)
    events = [each for each in found if each["ph"] == "X"]
    assert min(each["ts"] for each in events if each["cat"] == "iteration") == 0
    for rank in (0, 1):
        own = [each for each in events if each["pid"] == rank]
        laps = [each for each in own if each["cat"] == "iteration"]
        assert [each["name"] for each in laps] == [
            f"iteration {number}" for number in range(1, ITERATIONS + 1)
        ]
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1 for a, b in itertools.pairwise(laps))
        steps = [each for each in own if each["name"] == "stepping the environment"]
        assert len(steps) % ITERATIONS == 0
        assert {each["cat"] for each in own} == {"iteration", "phase", "collective"}


def test_a_run_that_ends_early_has_a_profile_of_what_there_was(stub, tmp_path):
    names = [each["name"] for each in profiled(stub, tmp_path, 2, max_iterations=1)]
    assert names.count("iteration 1") == 2


def test_one_rank_has_a_profile_too(stub, tmp_path):
    assert profiled(stub, tmp_path, 1, max_iterations=2)
