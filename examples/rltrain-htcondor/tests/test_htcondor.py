from __future__ import annotations

import pytest

from rltrain.cli.main import main
from rltrain.errors import UsageError
from rltrain_devkit import ClusterConformance
from rltrain_htcondor.cluster import find


class TestHtcondor(ClusterConformance):
    cluster = "htcondor"
    environ = {"_CONDOR_PROCNO": "1", "_CONDOR_NPROCS": "3"}
    alone = ({"_CONDOR_PROCNO": "0", "_CONDOR_NPROCS": "1"},)


def test_a_node_knows_its_place():
    found = find({"_CONDOR_PROCNO": "1", "_CONDOR_NPROCS": "3"})
    assert (found.node_rank, found.num_nodes) == (1, 3)


def test_a_job_of_one_node_is_alone():
    assert find({"_CONDOR_PROCNO": "0", "_CONDOR_NPROCS": "1"}) is None
    assert find({}) is None


@pytest.mark.parametrize(
    ("node", "message"), [("x", "_CONDOR_PROCNO=x"), ("3", "contradict each other")]
)
def test_wrong_variables_are_shown(node, message):
    with pytest.raises(UsageError, match=message):
        find({"_CONDOR_PROCNO": node, "_CONDOR_NPROCS": "3"})


def test_a_run_takes_the_place(monkeypatch, capsys):
    monkeypatch.setenv("_CONDOR_PROCNO", "1")
    monkeypatch.setenv("_CONDOR_NPROCS", "2")
    words = ["--distributed", "--master-addr", "10.0.0.1", "--device", "cpu", "--dry-run"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "htcondor" in shown
    assert "10.0.0.1" in shown
