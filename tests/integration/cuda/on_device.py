"""Runs on the device under test, and their final tensors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import install

import rltrain
from rltrain.types import TrainResult

KIND = os.environ.get("RLTRAIN_TEST_DEVICE", "cuda")
"""The kind of device under test."""

gpu_only = pytest.mark.skipif(KIND == "cpu", reason="means nothing on the CPU")

SHARING = ("--backend", "gloo", "--device", "cpu")
"""Options of ranks that share one GPU over NCCL; on the CPU, over gloo."""
if KIND != "cpu":
    SHARING = ("--backend", "nccl", "--gpu-ids", "0")
BACKEND = SHARING[1]

LIBRARIES = ("rl_games", "rsl_rl", "skrl")

AGENTS: dict[str, dict[str, Any]] = {
    # Compiling its network takes longer than everything else here.
    "rl_games": {
        "params.config.horizon_length": 8,
        "params.config.minibatch_size": 32,
        "params.config.torch_compile": False,
    },
    "rsl_rl": {"num_steps_per_env": 8},
    "skrl": {"agent.rollouts": 8},
}
"""Options of short runs."""

TIMEOUT = 240
"""Seconds of one command."""


def train(library: str, folder: Path, device: str = KIND, **options: Any) -> TrainResult:
    return rltrain.train(
        library=library,
        device=device,
        log_root=str(folder),
        **{"num_envs": 16, "writers": (), "agent": AGENTS[library], **options},
    )


def tensors(checkpoint: str | None) -> dict[str, torch.Tensor]:
    assert checkpoint is not None
    return dict(_flat("", torch.load(checkpoint, map_location="cpu", weights_only=False)))


def _flat(name: str, value: Any) -> list[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    else:
        return []
    return [found for key, item in items for found in _flat(f"{name}.{key}", item)]


def differing(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> list[str]:
    return [
        name
        for name in dict.fromkeys([*one, *other])
        if name not in one or name not in other or not torch.equal(one[name], other[name])
    ]


PROBE = '''
"""An observer that says where its rank is, and does once on rank 1 what PLANTED says: WHAT:STEP."""
import json, os, pathlib, signal, time
from rltrain import hookimpl
from rltrain.specs import ObserverSpec


@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="where", factory="where_plugin:Where")]


class Where:
    @hookimpl(wrapper=True)
    def rltrain_make_env(self, session):
        env = yield
        step, (what, at) = env.step, os.environ.get("PLANTED", ":0").split(":")
        done, left = pathlib.Path(os.environ["PROBE_FOLDER"], "planted"), int(at)

        def counted(actions):
            nonlocal left
            left -= 1
            if session.world.rank == 1 and left == 0 and not done.exists():
                done.touch()
                getattr(self, what)()
            return step(actions)

        env.step = counted
        return env

    def kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    @hookimpl
    def rltrain_shutdown(self, session):
        told = {"device": session.world.device, "world_size": session.world.world_size}
        told["observations"] = str(session.env.episode_length_buf.device)
        if session.world.device.startswith("cuda") and session.framework == "torch":
            import torch

            told["current"] = torch.cuda.current_device()
            told["uuid"] = str(torch.cuda.get_device_properties(session.world.device).uuid)
            told["backend"] = torch.distributed.get_backend()
        path = pathlib.Path(os.environ["PROBE_FOLDER"], f"rank_{session.world.rank}.json")
        path.write_text(json.dumps(told))
'''


def environ_with_probe(folder: Path, **variables: str) -> dict[str, str]:
    """Return the environment of a process that finds the observer `where`."""
    plugins = folder / "plugins"
    install(plugins, "where_plugin", PROBE)
    paths = [str(plugins), os.environ.get("PYTHONPATH", "")]
    added = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "PROBE_FOLDER": str(folder)}
    return {**os.environ, **added, **variables}


def command(
    library: str, folder: Path, *arguments: str, timeout: float = TIMEOUT, **variables: str
) -> subprocess.CompletedProcess[str]:
    agent = [f"agent.{key}={value}" for key, value in AGENTS[library].items()]
    words = ["--library", library, "--distributed", "--num-envs", "16", "--max-iterations", "3"]
    words += ["--check-interval", "1", "--log-root", str(folder / "logs"), "--observer", "where"]
    return rltrain_in(folder, *words, *arguments, *agent, timeout=timeout, **variables)


def rltrain_in(
    folder: Path, *words: str, timeout: float = TIMEOUT, **variables: str
) -> subprocess.CompletedProcess[str]:
    with started_in(folder, *words, **variables) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            # All of its ranks too.
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def started_in(folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rltrain", *words],
        env=environ_with_probe(folder, **variables),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def reports(folder: Path, ranks: int) -> list[dict[str, Any]]:
    return [json.loads((folder / f"rank_{rank}.json").read_text()) for rank in range(ranks)]
