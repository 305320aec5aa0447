"""Runs on a real Ray cluster of two nodes, both of them this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from helpers import wait_for

pytestmark = pytest.mark.slow

TASK = '''
"""A task whose environments raise on the rank that PLANTED names."""
import os
import gymnasium
import numpy as np
from rltrain import hookimpl


@hookimpl
def rltrain_provides():
    return []


class Planted(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))
    steps = 0

    def reset(self, *, seed=None, options=None):
        if "RANK" in os.environ:  # Not while the task is tried before the run.
            with open(f"threads_{os.environ['RANK']}", "w") as file:
                file.write(os.environ["OMP_NUM_THREADS"])
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 40 and os.environ.get("RANK") == "1" and os.path.exists("planted"):
            if os.path.exists("once"):
                os.remove("planted")
            raise ValueError("planted in one rank's environment")
        return np.zeros(3, np.float32), 1.0, False, False, {}


gymnasium.register("Planted-v0", entry_point="planted_task:Planted", max_episode_steps=20)
'''

RUN = ("--library", "rsl_rl", "--launcher", "ray", "--nnodes", "2", "--nproc-per-node", "1")
SHORT = ("--num-envs", "16", "--max-iterations", "2")
FOREVER = ("--task", "planted_task:Planted-v0", "--num-envs", "2", "--max-iterations", "100000")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The variables with which Ray's programs find the cluster."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # Paths of sockets must be short.
    plugins = tmp_path_factory.mktemp("plugins")
    (plugins / "planted_task.py").write_text(TASK)
    variables = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_local_fs_capacity_threshold": "1",  # Never warn that a disk is nearly full.
        "PYTHONPATH": os.pathsep.join([str(plugins), os.environ.get("PYTHONPATH", "")]),
    }
    before = dict(os.environ)
    os.environ.update(variables)
    os.environ.pop("OMP_NUM_THREADS", None)
    node = {"num_cpus": 2, "object_store_memory": 80 << 20}
    # Ray's cluster for tests notes its address there, and does not make the folder.
    (Path(tempfile.gettempdir()) / "ray").mkdir(exist_ok=True)
    running = cluster_utils.Cluster()
    try:
        running.add_node(**node, temp_dir=folder, include_dashboard=False)
        running.add_node(**node)
        running.wait_for_nodes(timeout=60)
        yield running, {**variables, "RAY_ADDRESS": running.address}
    finally:
        running.shutdown()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start(cluster, tmp_path):
    """Start `rltrain` in an empty folder."""
    started = []

    def run(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "rltrain", *words],
            cwd=tmp_path,
            env={**os.environ, **cluster[1]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)


def finished(process, timeout=240) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def begun(condition) -> None:
    """Wait for a run's ranks: next to other work, Ray starts its first processes in a minute."""
    wait_for(condition, 200)


def ranks_of(folder) -> list[int]:
    """Return the processes whose working directory is this folder, the command itself excepted."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_text()
            if os.readlink(entry / "cwd") == str(folder) and "-m\0rltrain" not in words:
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def test_two_nodes_train_one_run(start, tmp_path):
    status, out, err = finished(start(*RUN, *SHORT))
    assert status == 0, out + err
    assert "2 ranks on cpu, 2 nodes" in out
    assert "finished  iteration 2/2" in out
    (manifest,) = tmp_path.rglob("manifest.json")
    assert json.loads(manifest.read_text())["world_size"] == 2
    assert {path.name for path in manifest.parent.glob("logs/*")} == {"rank_0.log", "rank_1.log"}


def test_a_failed_rank_is_shown_as_without_ray(start, tmp_path):
    (tmp_path / "planted").touch()
    status, _out, err = finished(start(*RUN, *FOREVER))
    assert status == 1
    assert "raised ValueError: planted in one rank's environment" in err.rstrip().splitlines()[-1]
    assert "rltrain: Node 1 (" in err
    wait_for(lambda: not ranks_of(tmp_path), 10)


def test_all_nodes_start_again_and_go_on_from_the_checkpoint(start, tmp_path):
    (tmp_path / "planted").touch()
    (tmp_path / "once").touch()
    words = (*RUN, *FOREVER[:-1], "4", "agent.save_interval=1")
    words = (*words, "agent.num_steps_per_env=16", "--max-restarts", "1")
    status, out, err = finished(start(*words))
    assert status == 0, out + err
    assert "Starting all nodes again; restarts left: 0." in out
    assert "planted in one rank's environment" in out
    assert "Resuming" in out
    assert "finished  iteration 4/4" in out


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGUSR1, 75)])
def test_a_run_that_is_asked_to_end_saves_a_checkpoint(start, tmp_path, number, status):
    run = start(*RUN, *FOREVER, "--checkpoint-interval", "100000")
    begun(lambda: any(path.stat().st_size for path in tmp_path.glob("logs/*/*/*/metrics.jsonl")))
    run.send_signal(number)
    ended, out, err = finished(run, 60)
    assert ended == status, out + err
    assert "ending after this iteration, with a checkpoint" in out
    assert "stopped  iteration" in out
    assert "Traceback" not in err
    (index,) = tmp_path.glob("logs/*/*/*/checkpoints.json")
    assert max(each["iteration"] for each in json.loads(index.read_text())) > 0
    wait_for(lambda: not ranks_of(tmp_path), 10)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_request_ends_the_ranks_of_all_nodes_at_once(start, tmp_path, number, status):
    run = start(*RUN, *FOREVER[:-1], "1", "agent.num_steps_per_env=100000000")
    begun(lambda: list(tmp_path.glob("logs/*/*/*/logs/rank_1.log")))
    time.sleep(3)
    run.send_signal(number)
    time.sleep(3)
    run.send_signal(number)
    ended, out, err = finished(run, 30)
    assert ended == status, out + err
    assert "Traceback" not in err
    wait_for(lambda: not ranks_of(tmp_path), 10)


def test_sigterm_ends_the_ranks_which_have_the_cpus_of_one_each(start, tmp_path):
    # A signal is no failure after which the nodes start again.
    run = start(*RUN[:-3], "1", "--nproc-per-node", "2", *FOREVER, "--max-restarts", "1")
    begun(lambda: [path.read_text() for path in tmp_path.glob("threads_*")] == ["1", "1"])
    run.terminate()
    status, _out, err = finished(run)
    assert (status, err) == (75, "")
    wait_for(lambda: not ranks_of(tmp_path), 10)


def test_a_node_without_the_plugin_is_a_clear_error(start, cluster, tmp_path, monkeypatch):
    broken = tmp_path / "broken" / "rltrain_ray"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('not there')")
    running, _ = cluster
    monkeypatch.setenv("PYTHONPATH", str(broken.parent), prepend=os.pathsep)
    extra = running.add_node(num_cpus=2, object_store_memory=80 << 20)
    try:
        status, _out, err = finished(start(*RUN[:5], "3", *RUN[6:], *SHORT))
    finally:
        running.remove_node(extra)
    assert status == 2, err
    assert "cannot start rltrain: ImportError: not there. Install rltrain-ray" in err
    assert "Traceback" not in err


def test_a_script_that_has_connected_to_ray_stays_connected(cluster, tmp_path):
    code = """
import ray, rltrain
ray.init()
try:
    rltrain.train(library="rsl_rl", launcher="ray", nproc_per_node=8, join_timeout=1)
except rltrain.errors.UsageError as error:
    print(error)
print("connected:", ray.is_initialized())
"""
    environ = {**os.environ, **cluster[1]}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "the run needs 1 node(s) with 8 CPU each" in ran.stdout, ran.stderr
    assert "connected: True" in ran.stdout


def test_what_the_cluster_does_not_have_is_said(start):
    status, _out, err = finished(start(*RUN[:-1], "8", "--join-timeout", "2", *SHORT))
    assert status == 2
    assert "the run needs 2 node(s) with 8 CPU each" in err
    assert "Its nodes have 2 CPU; 2 CPU." in err
    assert "Traceback" not in err


def test_a_node_that_dies_ends_the_run_and_is_named(start, cluster, tmp_path):
    running, _ = cluster
    extra = running.add_node(num_cpus=2, resources={"extra": 1}, object_store_memory=80 << 20)
    run = start(*RUN[:5], "3", *RUN[6:], *FOREVER)
    begun(lambda: list(tmp_path.glob("logs/*/*/*/logs/rank_2.log")))
    running.remove_node(extra, allow_graceful=False)
    status, out, err = finished(run, 60)
    assert status == 1, out + err
    assert "is gone" in err or "Ray lost node" in err
    wait_for(lambda: not ranks_of(tmp_path), 10)
