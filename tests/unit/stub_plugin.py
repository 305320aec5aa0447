"""A plugin of every kind, on numpy, that trains nothing and records its calls."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.specs import (
    BackendSpec,
    CheckpointFormat,
    GradientSyncSpec,
    Ignored,
    LauncherSpec,
    LibrarySpec,
    ObserverSpec,
    OptionSchema,
    Refusal,
    SuiteSpec,
    WriterSpec,
)
from rltrain.types import Iteration, TaskInfo

EVENTS: list[Any] = []
"""What was called, in order."""
RECORDS: list[Any] = []
"""What the writer `notes` was given."""

OPTIONS: dict[str, Any] = {
    "library": "stub",
    "task": "Stub-v0",
    "framework": "numpy",
    "grad_sync": "plain",
    "backend": "stub",
    "writers": ["notes"],
}
"""The options of a run with nothing but stubs."""

DEFAULTS: dict[str, Any] = {
    "model": {"units": [8, 4], "activation": "elu"},
    "layers": [{"size": 1}, {"size": 2}],
    "learn": {"iterations": 3, "steps": 4, "rate": 1e-3, "base_seed": 11, "envs": None},
    "fail": None,
}


TASK = TaskInfo("Stub-v0", "continuous", num_envs=2, max_episode_length=4, options={"gravity": 9.8})


def describe(task: str, env: Mapping[str, Any]) -> TaskInfo | None:
    if task == "StubOpen-v0":
        return TaskInfo(task, "discrete", num_envs=2)
    return TASK if task == TASK.name else None


def default_agent(task: TaskInfo, algorithm: str) -> dict[str, Any]:
    return DEFAULTS


def count_gpus() -> int:
    """Count like torch: CUDA_VISIBLE_DEVICES selects among the machine's GPUs."""
    gpus = int(os.environ.get("STUB_GPUS", "0"))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return gpus if visible is None else len(visible.split(",")) if visible else 0


def why_not_shared() -> str | None:
    """Say why ranks cannot share a GPU, as the test has it."""
    return os.environ.get("STUB_CANNOT_SHARE")


def iteration(config) -> Iteration:
    learn = config.agent["learn"]
    if config.num_envs == 13:
        raise UsageError("agent.learn.batch 4: does not divide a rank's batch of 13.")
    rows = learn.get("batch")
    cuts = learn["steps"] * config.num_envs // rows if rows else None
    return Iteration(learn["steps"], learn["iterations"] or None, mini_batches=cuts)


def scale_mini_batches(agent, written_for, num_envs):
    learn = agent["learn"]
    if learn.get("batch") is None:
        return agent
    return {**agent, "learn": {**learn, "batch": learn["batch"] * num_envs // written_for}}


def read_checkpoint(path: str, trusted: bool) -> list[str] | str:
    with open(path, errors="replace") as file:
        keys = file.read().split()
    return keys or "it is empty."


IGNORED = {
    "resume": Ignored("Give --resume."),
    "load_run": Ignored("Give --resume.", if_typed=True),
    "folder": Ignored("Give --log-root.", if_typed=True),
    "logger": Ignored("Give --writer.", off=("", "console")),
}


@hookimpl
def rltrain_provides():
    parts, numpy = "stub_parts", {"frameworks": ("numpy",)}
    backend = functools.partial(BackendSpec, factory=f"{parts}:StubBackend", framework="numpy")
    counted = {"count_devices": "stub_plugin:count_gpus"}
    return [
        backend(
            name="stub",
            device="cpu",
            is_default=True,
            launcher="stub_launcher",
            grad_sync="plain",
            exporter=f"{parts}:StubExporter",
        ),
        backend(
            name="stub_gpu",
            device="cuda",
            is_default=True,
            why_not_shared="stub_plugin:why_not_shared",
            **counted,
        ),
        backend(name="stub_shared", device="cpu", shared_devices=("cuda",), **counted),
        LauncherSpec(name="stub_launcher", factory=f"{parts}:StubLauncher", **numpy),
        LauncherSpec(
            name="scheduler",
            factory=f"{parts}:StubScheduler",
            options="stub_parts:SchedulerOptions",
            starts_nodes=True,
            **numpy,
        ),
        LauncherSpec(name="without_launch", factory="builtins:object", **numpy),
        LauncherSpec(
            name="without_restarts",
            factory=f"{parts}:StubLauncher",
            unsupported=("max_restarts",),
            **numpy,
        ),
        GradientSyncSpec(name="plain", factory=f"{parts}:StubSync", **numpy),
        SuiteSpec(
            name="stubs",
            factory=f"{parts}:StubSuite",
            frameworks=("numpy",),
            describe=describe,
            tasks=lambda: ["Stub-v0", "StubOpen-v0"],
        ),
        WriterSpec(name="notes", factory=f"{parts}:NotesWriter"),
        WriterSpec(name="more_notes", factory=f"{parts}:MoreNotesWriter"),
        ObserverSpec(name="watcher", factory=f"{parts}:Watcher"),
        LibrarySpec(
            name="stub",
            factory=f"{parts}:StubLibrary",
            frameworks=("numpy",),
            algorithms=("ppo", "sac"),
            default_agent=default_agent,
            schema=OptionSchema(
                required=("learn.iterations", "model"),
                also=frozenset({"learn.clip"}),
                ignored=lambda agent: IGNORED,
                run_keys={
                    "seed": "learn.base_seed",
                    "max_iterations": "learn.iterations",
                    "num_envs": "learn.envs",
                    "checkpoint_interval": "learn.save",
                },
            ),
            refuses=(
                Refusal(
                    "sac on several ranks",
                    lambda config, task: config.algorithm == "sac" and config.on_several_ranks,
                    "its replay buffers are not shared.",
                    "train on one rank.",
                ),
            ),
            iteration=iteration,
            scale_mini_batches=scale_mini_batches,
            checkpoint=CheckpointFormat("stub_plugin:read_checkpoint", frozenset({"stub"})),
        ),
    ]
