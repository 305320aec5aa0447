"""jax on CUDA, and mjlab's physics on Warp, where they are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from on_device import KIND, train


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
    import on_device

    words = ("--framework", "jax", "--nproc-per-node", "1", "--device", KIND)
    run = on_device.command("skrl", tmp_path, *words)
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


@pytest.mark.gpu_only
def test_jaxs_gpus_are_counted_as_jax_does_and_without_it(jax):
    code = "import sys, rltrain_jax.devices as d; print(d.count_cuda(), 'jax' in sys.modules)"
    for visible, number in ((None, len(jax.devices("cuda"))), ("", 0), ("-1", 0)):
        environ = (
            dict(os.environ) if visible is None else os.environ | {"CUDA_VISIBLE_DEVICES": visible}
        )
        words = subprocess.check_output([sys.executable, "-c", code], env=environ, timeout=120)
        assert words.decode().split() == [str(number), "False"]


def test_mjlab_trains_on_warp(tmp_path):
    pytest.importorskip("mjlab", reason="mjlab is not installed")
    options = {"task": "Mjlab-Cartpole-Balance", "max_iterations": 2}
    whole = train("rsl_rl", tmp_path / "a", **options)
    assert (whole.iterations, whole.frames) == (2, 2 * 16 * 8)
