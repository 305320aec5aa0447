"""The process group over real processes, compared with the fake one."""

from __future__ import annotations

import json

import pytest
from group_ranks import collectives
from jax_processes import ended

from rltrain.testing import FakeWorld

pytestmark = pytest.mark.slow

DEVICES_FLAG = "--xla_force_host_platform_device_count=4"


def run_ranks(**options):
    results = ended("group_ranks.py", **options)
    assert [code for code, _, _ in results] == [0] * len(results), results
    return [json.loads(out.splitlines()[-1]) for _, out, _ in results]


@pytest.fixture(scope="module", params=[2, 3])
def ranks(request):
    """The results of each rank."""
    return run_ranks(size=request.param)


def test_new_message_lengths_and_repeated_gradients_compile_nothing(ranks):
    assert [one["compiled again"] for one in ranks] == [[]] * len(ranks)


def test_all_ranks_get_the_same_bytes(ranks):
    for one in ranks:
        assert one["collectives"] == ranks[0]["collectives"]


def test_results_equal_the_fake_groups_bit_for_bit(ranks):
    fake = FakeWorld(len(ranks)).run(collectives)
    for rank, one in enumerate(ranks):
        for name, result in json.loads(json.dumps(fake[rank])).items():
            # gloo adds in a ring: only two numbers have the same sum in any order.
            if len(ranks) == 2 or not name.startswith(("sum of jax", "mean of jax")):
                assert one["collectives"][name] == result, name


def test_ranks_meet_over_ipv6():
    ranks = run_ranks(host="::1")
    assert [one["place"][:2] for one in ranks] == [[0, 2], [1, 2]]


def test_a_users_flag_for_several_devices_is_overridden():
    ranks = run_ranks(environ={"XLA_FLAGS": DEVICES_FLAG})
    assert [one["devices"] for one in ranks] == [[2, 2, 1]] * 2
