"""jax, simulators, videos and exporters on a GPU, where they are installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from on_device import (
    KIND,
    LIBRARIES,
    SHARING,
    command,
    gpu_only,
    reports,
    rltrain_in,
    started_in,
    train,
)


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax", reason="jax is not installed")
    try:
        jax.devices(KIND)
    except RuntimeError as error:
        pytest.skip(f"jax has no {KIND}: {error}")
    return jax


def test_jax_trains_reproducibly_on_the_gpu(jax, tmp_path):
    pytest.importorskip("flax", reason="flax, which skrl needs with jax, is not installed")
    agent = {"agent.rollouts": 8}
    ends = []
    for folder in ("a", "b"):
        options = {"framework": "jax", "agent": agent, "max_iterations": 2}
        ends.append(train("skrl", tmp_path / folder, **options))
    assert ends[0].iterations == 2
    first, second = (Path(str(end.checkpoint)).read_bytes() for end in ends)
    assert first == second


def test_one_rank_of_jax_is_on_the_gpu(jax, tmp_path):
    words = ("--framework", "jax", "--nproc-per-node", "1", "--device", KIND)
    run = command("skrl", tmp_path, *words)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_gpu_computes_the_checksums_of_arrays_that_the_cpu_does(jax):
    from rltrain_jax.trees import device_checksums, fingerprints

    leaves = [np.arange(1000, dtype=np.float32), np.array([True, False]), np.float32(3)]
    checksums = {}
    for kind in (KIND, "cpu"):
        there = [jax.device_put(leaf, jax.devices(kind)[0]) for leaf in leaves]
        checksums[kind] = np.asarray(device_checksums(there)).tolist()
    assert checksums[KIND] == checksums["cpu"]
    there = [jax.device_put(leaf, jax.devices(KIND)[0]) for leaf in leaves]
    if KIND != "cpu":
        assert list(fingerprints(there).values()) == checksums["cpu"]


@gpu_only
def test_jaxs_gpus_are_counted_as_jax_does_and_without_it(jax):
    code = "import sys, rltrain_jax.devices as d; print(d.count_cuda(), 'jax' in sys.modules)"
    for visible, number in ((None, len(jax.devices("cuda"))), ("", 0), ("-1", 0)):
        environ = (
            dict(os.environ) if visible is None else os.environ | {"CUDA_VISIBLE_DEVICES": visible}
        )
        words = subprocess.check_output([sys.executable, "-c", code], env=environ, timeout=120)
        assert words.decode().split() == [str(number), "False"]


COMPILED = 500
"""Seconds of a command in which a simulator compiles its programs."""
PLAYGROUND = ("--suite", "playground", "--task", "CartpoleBalance", "env.episode_length=60")


@pytest.mark.timeout(COMPILED + 60)
@pytest.mark.parametrize("task", [(), PLAYGROUND], ids=["embedded", "Playground"])
def test_two_runs_of_jax_share_a_gpus_memory(jax, task, tmp_path):
    if task:
        needs("mujoco_playground")
    words = ("--library", "skrl", "--framework", "jax", "--device", KIND, "--num-envs", "16")
    words = (*words, "--max-iterations", "2", *task, "agent.agent.rollouts=8")
    runs = [started_in(tmp_path, *words, "--log-root", str(tmp_path / name)) for name in ("a", "b")]
    try:
        ends = [run.communicate(timeout=COMPILED) for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [0, 0], ends


MJLAB = ("--task", "Mjlab-Cartpole-Balance")
ISAACLAB = ("--task", "Isaac-Cartpole-Direct", "--headless")
ASSETS = Path(__file__).parents[3] / "src/plugins/suites/rltrain-isaaclab/tests/assets"
SIMULATORS = {
    "mjlab, drawing disabled": ("mjlab", MJLAB, {"MUJOCO_GL": "disabled"}),
    "mjlab, drawing by EGL": ("mjlab", MJLAB, {"MUJOCO_GL": "egl"}),
    "Isaac Lab 3 with Newton": ("isaaclab", ISAACLAB, {"ISAACSIM_ASSET_ROOT": str(ASSETS)}),
}


@pytest.mark.timeout(COMPILED + 60)
@pytest.mark.parametrize("name", SIMULATORS)
def test_two_ranks_with_a_simulator_share_a_gpu(name, nccl_shares, tmp_path):
    module, words, variables = SIMULATORS[name]
    needs(module)
    ranks = (*SHARING, "--nproc-per-node", "2", "--max-iterations", "2")
    run = command("rsl_rl", tmp_path, *ranks, *words, timeout=COMPILED, **variables)
    assert run.returncode == 0, run.stdout + run.stderr
    assert len({rank["device"] for rank in reports(tmp_path, 2)}) == 1


@pytest.mark.timeout(COMPILED + 60)
@pytest.mark.parametrize(
    ("module", "task"), [("mjlab", MJLAB[1]), ("mujoco", "InvertedPendulum-v5")]
)
def test_training_is_filmed_by_egl(module, task, tmp_path):
    needs(module)
    words = ("--library", "rsl_rl", "--task", task, "--device", KIND, "--num-envs", "4", "--video")
    words = (*words, "--video-length", "10", "--max-iterations", "2", "--log-root", str(tmp_path))
    run = rltrain_in(tmp_path, *words, timeout=COMPILED, MUJOCO_GL="egl")
    if "could not be rendered" in run.stderr:
        pytest.skip(run.stderr.splitlines()[-1])
    assert run.returncode == 0, run.stdout + run.stderr
    assert list(tmp_path.rglob("*.mp4")), run.stdout


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_policy_that_learned_on_a_gpu_is_exported(library, tmp_path):
    needs("onnxscript")
    folder = Path(str(train(library, tmp_path, max_iterations=1).run_dir))
    run = rltrain_in(tmp_path, "export", str(folder), "--verify", "64")
    assert run.returncode == 0, run.stdout + run.stderr
    assert list(folder.rglob("*.onnx"))


def needs(module):
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
