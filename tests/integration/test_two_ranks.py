"""Two real gloo ranks of each library: every hook is called, and the ranks end equal."""

from __future__ import annotations

import json

import pytest
import torch

pytestmark = pytest.mark.slow

LIBRARIES = ["rl_games", "rsl_rl", "skrl"]
TWO_RANKS = ["--distributed", "--nproc-per-node", "2", "--num-envs", "32"]


@pytest.fixture(scope="module", params=LIBRARIES)
def ended(request, module_command):
    """A run of each library that has ended: the library, the run, and the folder of its probes."""
    command = module_command(request.param)
    words = ("--library", request.param, *TWO_RANKS, "--max-iterations", "3")
    probes = {"PROBE_FOLDER": str(command.folder)}
    run = command(*words, "--observer", "probe", "--seed", "3", **probes)
    assert run.returncode == 0, run.stderr
    return request.param, run, command.folder


def test_hooks_are_called_on_every_rank_and_models_end_equal(ended):
    check_ranks(ended[2])


def check_ranks(folder):
    calls = [json.loads((folder / f"calls_{rank}.json").read_text()) for rank in (0, 1)]
    for rank in (0, 1):
        assert calls[rank]["init_distributed"] == 1
        assert [calls[rank][f"seed {s}"] for s in ("model", "environment", "learner")] == [1, 1, 1]
        assert calls[rank]["wrap_model"] >= 1
        assert calls[rank]["gradient_sync"] == 1
        assert calls[rank]["gradient averages"] == calls[0]["gradient averages"] >= 3
    # Run started, three iterations, at least one checkpoint, run ended; on rank 0 only.
    assert calls[0]["write"] >= 6
    assert "write" not in calls[1]

    first, second = (torch.load(folder / f"state_{rank}.pt", weights_only=True) for rank in (0, 1))
    assert first.keys() == second.keys()
    assert len(first) >= 5
    assert any("mean" in name for name in first), "the normalizers are models too"
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_the_run_folder_holds_what_a_run_needs(ended):
    library, run, _ = ended
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert manifest["world_size"] == 2
    assert manifest["versions"]["torch"]
    assert "--library" in manifest["command"]
    assert manifest["config"]["library"] == library
    assert manifest["config"]["agent"]
    assert manifest["seed"] == 3
    seeds = manifest["seeds"]
    assert [row["rank"] for row in seeds] == [0, 1]
    assert seeds[0]["model"] == seeds[1]["model"]
    assert len({row[stream] for row in seeds for stream in ("environment", "learner")}) == 4
    assert len(list(run.folder.rglob("events.out.tfevents*"))) == 1
    assert sorted(path.name for path in run.folder.glob("logs/*")) == ["rank_0.log", "rank_1.log"]
    assert run.checkpoints()
