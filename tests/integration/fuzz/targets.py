"""What reads from outside: valid inputs, and the errors with which others may be refused."""

from __future__ import annotations

import atexit
import collections
import contextlib
import functools
import hashlib
import io
import json
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cluster_variables
import numpy as np
import torch
from made_up_runs import made_state, make_run

from rltrain.data import MalformedData, pack_object, pack_state, unpack_object
from rltrain.errors import UsageError
from rltrain.nodes.meeting import parse
from rltrain.options import load_yaml
from rltrain.options.run import RunOptions
from rltrain.placement.cluster import find_cluster
from rltrain.plan.files import with_options_of_run
from rltrain.plugins.registry import discover
from rltrain.policies.trained import options_of_run
from rltrain.storage.checkpoint import INDEX, Checkpoint, name_of_state, saved_checkpoints
from rltrain.storage.manifest import read_manifest
from rltrain.storage.metrics_file import METRICS, read_metrics
from rltrain.storage.run import Run
from rltrain_adapters.unpickling import load_data
from rltrain_report.report import report_page
from rltrain_report.runs import read_runs
from rltrain_skrl.run.checkpoints import parts
from rltrain_torch.checkpoints import top_level_keys

"""Of the tests."""


@dataclass(frozen=True)
class Target:
    """Something that reads what somebody else wrote or sent."""

    seeds: Callable[[], list[bytes]]
    """Returns valid inputs."""
    read: Callable[[bytes, Path], Any]
    """Reads an input; it may use the folder, which is empty."""
    refuses: tuple[type[Exception], ...] = (UsageError,)
    """The errors with which it may refuse an input."""


STATE = made_state(
    3,
    2.5,
    circumstances={"algorithm": "ppo", "env.mass": 1.5},
    progress={"iteration": 3, "frames": 96, "window": [(1.0, 2.0, 1.0, 0.0, 0.0)]},
    ranks=[pack_state({"plugins": {}, "env": None, "library": np.arange(3.0)}, {})],
)


_PAIR = (1, "x")
SHARED = {"a": [_PAIR, _PAIR], (_PAIR, _PAIR): {(_PAIR, (_PAIR, _PAIR))}, "b": [[_PAIR] * 3] * 3}
"""What few bytes may have much of."""
CONTAINERS = [
    collections.deque([1, _PAIR], 5),
    collections.Counter("aab"),
    collections.OrderedDict(a=_PAIR, b=_PAIR),
    frozenset({_PAIR, frozenset({2})}),
    bytearray(b"x"),
]


def _pickles() -> list[bytes]:
    values = [STATE, {"a": np.arange(4.0), "b": [1, "x", (2.5, None)]}, np.float32(1), {1, 2}]
    values += [SHARED, *CONTAINERS]
    return [pickle.dumps(value, protocol) for value in values for protocol in (4, 5)]


def _messages() -> list[bytes]:
    values = [STATE, {"loss": 0.5, "x": np.arange(4.0)}, [1, (2, {3}), b"bytes", 1j]]
    values += [SHARED, *CONTAINERS]
    return [pack_object(value) for value in [*values, np.random.default_rng(1)]]


PART = b"part of rank 0"
IN_PARTS = {**STATE, "ranks": [[len(PART), hashlib.sha256(PART).hexdigest()]]}


def _read_saved(data: bytes, folder: Path) -> Any:
    """Read a state with its right digest, so that its contents are looked at."""
    checkpoint = folder / "a.pth"
    checkpoint.write_bytes(b"weights")
    (folder / "ranks").mkdir()
    state = folder / "ranks" / name_of_state("a.pth", checkpoint)
    length = len(data).to_bytes(8, "little")
    digest = hashlib.sha256(length + data).digest()
    state.write_bytes(b"rltrain state 2\n" + digest + length + data + PART)
    found = Checkpoint(checkpoint)
    found.check()
    return found.state


def _read_index(data: bytes, folder: Path) -> None:
    (folder / "checkpoints").mkdir()
    (folder / INDEX).write_bytes(data)
    warnings: list[str] = []
    for entry in saved_checkpoints(folder, warnings.append):
        assert Path(entry["name"]).name == entry["name"]
    for choice in ("latest", "best", "1"):
        with contextlib.suppress(UsageError):  # There is none; it may be read all the same.
            Run(folder, warn=warnings.append).checkpoint(choice)


def _read_metrics(data: bytes, folder: Path) -> None:
    (folder / METRICS).write_bytes(data)
    read_metrics(folder)


def _report(name: str) -> Callable[[bytes, Path], None]:
    """Return what shows a run of which one file is damaged."""

    def read(data: bytes, folder: Path) -> None:
        run = shutil.copytree(_whole_run(), folder / "run")
        (run / name).write_bytes(data)
        report_page(read_runs([str(run)]))

    return read


@functools.cache
def _whole_run() -> Path:
    kept = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, kept)
    return make_run(kept / "run", iterations=3, media=(("video.mp4", b"x"),), error="no")


def _part_of_run(name: str) -> list[bytes]:
    return [(_whole_run() / name).read_bytes()]


SAVED = Path(__file__).resolve().with_name("saved_run")
"""A run of rl_games."""


def _go_on_from(name: str) -> Callable[[bytes, Path], None]:
    """Return what goes on from a run folder of which one file is damaged."""

    def read(data: bytes, folder: Path) -> None:
        run = shutil.copytree(SAVED, folder / "rl_games" / "task" / "run")
        (run / name).write_bytes(data)
        options_of_run(run, {})
        options = with_options_of_run({"resume": str(run)})[0]
        assert Path(options["checkpoint"]).is_relative_to(run)
        assert ":" not in (options.get("task") or "")

    return read


def _read_manifest(data: bytes, folder: Path) -> None:
    (folder / "manifest.json").write_bytes(data)
    read_manifest(folder)


def _yaml(data: bytes, folder: Path) -> None:
    path = folder / "options.yaml"
    path.write_bytes(data)
    load_yaml(str(path), "--config")


YAML = b"""library: rl_games
task: &name rltrain/CartPole-v1
env: {mass: 1.5, names: [a, b], other: "${task}"}
agent:
  params: {config: {learning_rate: 3e-4, name: *name, horizon: 16}}
more: {a: &a [1, 2], b: &b [*a, *a], c: &c [*b, *b, *b], d: [*c, *c], <<: {x: *c}}
"""


def _checkpoints() -> list[bytes]:
    files = []
    sparse = torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (3,))
    values = [{"model": {"w": torch.ones(2, 3)}, "n": np.float64(1)}, {"policy": b"x"}]
    for value in (*values, {"a": SHARED, "b": CONTAINERS[:3]}, {"w": sparse}):
        for new in (True, False):
            file = io.BytesIO()
            torch.save(value, file, _use_new_zipfile_serialization=new)
            files.append(file.getvalue())
    return [*files, pickle.dumps({"policy": b"\x81\xa1w\xc0", "optimizer": b""}, 4)]


def _keys(of: Callable[[str], Any]) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        path = folder / "checkpoint"
        path.write_bytes(data)
        found = of(str(path))
        assert isinstance(found, (str, list))

    return read


def _of_nodes() -> list[bytes]:
    hello = b'{"kind": "node", "number": 1, "count": 2, "facts": {"rltrain": "0.1"}, "host": "m"}'
    return [hello, b'{"failed": "two\\nlines", "status": 2}', b"{}"]


METADATA = b"""Metadata-Version: 2.1
Name: rltrain-strange
Version: 1.0
Requires-Dist: gymnasium>=1; extra == "library"

====
[rltrain]
strange = json
"""


def _read_plugins(data: bytes, folder: Path) -> None:
    info = folder / "rltrain_strange-1.0.dist-info"
    info.mkdir()
    metadata, _, points = data.partition(b"====\n")
    (info / "METADATA").write_bytes(metadata)
    (info / "entry_points.txt").write_bytes(points)
    sys.path.insert(0, str(folder))
    try:
        for record in discover().records:
            assert record.status
    finally:
        sys.path.remove(str(folder))


def _environments() -> list[bytes]:
    found = {name: each for name, each in vars(cluster_variables).items() if name.isupper()}
    del found["SKRL"], found["REGISTRY"]  # skrl's are for jax alone.
    return [json.dumps(each).encode() for each in found.values()]


def _read_environment(data: bytes, folder: Path) -> None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(found, dict):
        environ = {str(name): str(value) for name, value in found.items()}
        find_cluster(RunOptions(distributed=True), discover(), environ)


TARGETS = {
    "pickled files": Target(_pickles, lambda data, _: load_data(data), (pickle.UnpicklingError,)),
    "messages of ranks": Target(_messages, lambda data, _: unpack_object(data), (MalformedData,)),
    "states": Target(lambda: [pack_state(IN_PARTS, {})], _read_saved),
    "indices of checkpoints": Target(
        lambda: [json.dumps([{"name": "a", "iteration": 1, "episode_return": 2.0}]).encode()],
        _read_index,
    ),
    "metrics": Target(lambda: _part_of_run(METRICS), _read_metrics),
    "metrics in a report": Target(lambda: _part_of_run(METRICS), _report(METRICS)),
    "manifests in a report": Target(
        lambda: _part_of_run("manifest.json"), _report("manifest.json")
    ),
    "options of run folders": Target(
        lambda: [(SAVED / "config.yaml").read_bytes()], _go_on_from("config.yaml")
    ),
    "options of libraries in run folders": Target(
        lambda: [(SAVED / "agent.yaml").read_bytes()], _go_on_from("agent.yaml")
    ),
    "manifests": Target(lambda: [b'{"config": {"task": "x", "seed": 1}}'], _read_manifest),
    "option files": Target(lambda: [YAML], _yaml),
    "checkpoints of torch": Target(_checkpoints, _keys(top_level_keys), ()),
    "checkpoints of skrl": Target(_checkpoints, _keys(parts), ()),
    "messages of nodes": Target(_of_nodes, lambda data, _: parse(data), (ValueError,)),
    "metadata of plugins": Target(lambda: [METADATA], _read_plugins),
    "variables of clusters": Target(_environments, _read_environment),
}
