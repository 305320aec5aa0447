"""Ranks on GPUs: the launcher leaves CUDA alone, and each rank is where the plan says."""

from __future__ import annotations

import os

import pytest
import torch
from helpers import python
from on_device import KIND, LIBRARIES, TIMEOUT, command, environ_with_probe, gpu_only, reports

GPUS = torch.cuda.device_count()
GLOO = ("--backend", "gloo", "--device", KIND, "--nproc-per-node", "2")


def uuids() -> list[str]:
    return [str(torch.cuda.get_device_properties(index).uuid) for index in range(GPUS)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_ranks_train_on_one_gpu_through_gloo_and_stay_equal(library, tmp_path):
    run = command(library, tmp_path, *GLOO)  # The ranks are compared after every iteration.
    assert run.returncode == 0, run.stdout + run.stderr
    first = "cpu" if KIND == "cpu" else "cuda:0"
    second = first if GPUS < 2 else "cuda:1"
    assert [rank["device"] for rank in reports(tmp_path, 2)] == [first, second]
    assert {rank["observations"] for rank in reports(tmp_path, 2)} == {first, second}


@gpu_only
@pytest.mark.parametrize("library", LIBRARIES)
def test_one_rank_trains_with_nccl(library, tmp_path):
    run = command(library, tmp_path, "--nproc-per-node", "1")
    assert run.returncode == 0, run.stdout + run.stderr
    (rank,) = reports(tmp_path, 1)
    assert (rank["device"], rank["current"], rank["backend"]) == ("cuda:0", 0, "nccl")


@gpu_only
@pytest.mark.parametrize("chosen", range(max(GPUS, 1)))
@pytest.mark.parametrize("by", ["--gpu-ids", "index", "uuid"])
def test_a_rank_is_on_the_gpu_that_was_chosen(tmp_path, chosen, by):
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    index = names[chosen] if names[0] else str(chosen)
    visible = {"--gpu-ids": None, "index": index, "uuid": f"GPU-{uuids()[chosen]}"}[by]
    options = ["--gpu-ids", str(chosen)] if visible is None else []
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    run = command("rsl_rl", tmp_path, *options, **variables)
    assert run.returncode == 0, run.stdout + run.stderr
    (rank,) = reports(tmp_path, 1)
    assert (rank["device"], rank["uuid"]) == ("cuda:0", uuids()[chosen])


@pytest.mark.skipif(GPUS < 2 and KIND != "cpu", reason="needs two GPUs")
@gpu_only
def test_gpu_ids_are_given_to_ranks_in_their_order(tmp_path):
    run = command("rsl_rl", tmp_path, "--gpu-ids", "1", "0")
    assert run.returncode == 0, run.stdout + run.stderr
    assert [rank["uuid"] for rank in reports(tmp_path, 2)] == uuids()[1::-1]


@gpu_only
def test_more_ranks_than_gpus_are_refused_with_advice_to_share(tmp_path):
    run = command("rsl_rl", tmp_path, "--nproc-per-node", str(GPUS + 1))
    assert run.returncode == 2
    assert "--backend gloo --device cuda" in run.stderr


AFTERWARDS = """
import os, sys
from rltrain.cli import main
code = main(sys.argv[2:])
import torch
assert not torch.cuda.is_initialized(), "the launcher has initialized CUDA"
child = os.fork()
if child == 0:
    # Fails in a fork of a process that has asked CUDA anything, even how many GPUs there are.
    os._exit(int(torch.ones(3, device=sys.argv[1]).sum().item()) - 3)
assert os.waitpid(child, 0)[1] == 0, "a child of the launcher cannot use the device"
sys.exit(code)
"""


@pytest.mark.parametrize("dry", [["--dry-run"], []], ids=["plan", "run"])
def test_the_launcher_leaves_cuda_to_its_children(tmp_path, dry):
    words = ["--library", "rsl_rl", "--distributed", *GLOO, "--num-envs", "16"]
    words += ["--max-iterations", "1", "--log-root", str(tmp_path / "logs"), *dry]
    python(AFTERWARDS, KIND, *words, timeout=TIMEOUT, **environ_with_probe(tmp_path))
