"""The writer with MLflow's real client, into a folder. With a real server: tests/integration."""

from __future__ import annotations

import dataclasses
import math
import random
import time

import pytest
from messages import says

from rltrain.records import CheckpointSaved, Media, Scalars

pytest.importorskip("mlflow")

from tracker_runs import ENDED, said, saved_files, scalars, started

from rltrain_devkit import WriterConformance
from rltrain_mlflow.plugin import MlflowOptions
from rltrain_mlflow.writer import MlflowClient, MlflowTracker, MlflowWriter
from rltrain_tracking import Refused, Row

pytestmark = pytest.mark.usefixtures("apart")


class TestMlflow(WriterConformance):
    writer = "mlflow"


@pytest.fixture
def store(tmp_path):
    return f"file://{tmp_path}/store"


def write(uri, run_dir, *records, first=None, ended=ENDED, **options):
    run_dir.mkdir(exist_ok=True)
    writer = MlflowWriter(MlflowOptions(tracking_uri=uri, **options))
    for record in (first or started(run_dir), *records, ended):
        writer.rltrain_write(record)
    writer.rltrain_shutdown()


class Found:
    """The runs of an experiment."""

    def __init__(self, uri, experiment="rltrain"):
        self.client = MlflowClient(uri)
        number = self.client.get_experiment_by_name(experiment).experiment_id
        self.runs = self.client.search_runs([number])

    @property
    def run(self):
        (run,) = self.runs
        return run

    def curve(self, name):
        history = self.client.get_metric_history(self.run.info.run_id, name)
        return sorted((metric.step, metric.value) for metric in history)

    def files(self, folder=None):
        found = {}
        for entry in self.client.list_artifacts(self.run.info.run_id, folder):
            found |= self.files(entry.path) if entry.is_dir else {entry.path: entry.file_size}
        return found


def test_a_run_has_all_that_was_recorded(store, tmp_path, capsys):
    # Numbers of new experiments in a folder, one in ten, are drawn from Python's generator.
    MlflowClient(store).create_experiment("rltrain")
    before, folder = random.getstate(), tmp_path / "run"
    checkpoint, video = saved_files(folder)
    write(
        store,
        folder,
        *map(scalars, (1, 2)),
        Scalars(3, {"odd": math.nan}, frames=1536),
        CheckpointSaved(checkpoint, 3),
        Media(video, "clip", 3),
        tags=["team=blue", "note=a=b"],
        checkpoints="all",
    )
    assert random.getstate() == before
    assert said(capsys, "mlflow") == []
    found = Found(store)
    run, params, tags = found.run, found.run.data.params, found.run.data.tags
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert [params[key] for key in ("agent.lr", "agent.units", "world_size")] == [
        *("0.1", "[64, 64]", "2")
    ]
    assert [tags[key] for key in ("team", "note", "rltrain.outcome")] == ["blue", "a=b", "finished"]
    assert found.curve("loss/grad max") == [(512, 1.0), (1024, 0.5)]
    assert found.curve("performance/fps") == [(512, 17.0), (1024, 17.0)]
    ((step, value),) = found.curve("odd")
    assert step == 1536
    assert math.isnan(value)
    assert found.files() == {"checkpoints/2.pt": 7, "config.yaml": 14, "media/clip.mp4": 5}


@pytest.mark.parametrize(
    ("changes", "outcome", "status"),
    [({"asked": True}, "stopped", "KILLED"), ({"error": "ValueError: no"}, "failed", "FAILED")],
)
def test_the_end_of_a_run(changes, outcome, status, store, tmp_path):
    write(store, tmp_path / "run", ended=dataclasses.replace(ENDED, **changes))
    run = Found(store).run
    assert (run.data.tags["rltrain.outcome"], run.info.status) == (outcome, status)


def test_one_run_through_restarts_and_resumed_runs(store, tmp_path):
    folder, later = tmp_path / "first", tmp_path / "second"
    write(store, folder, scalars(1), scalars(2), ended=dataclasses.replace(ENDED, error="E: no"))
    config = {"task": "Task-v1", "checkpoint": str(folder / "checkpoints" / "1.pt"), "new": 1}
    going_on = {"frames": 512, "config": config, "resumed": "Resuming 1.pt. Changed: seed."}
    write(store, folder, Scalars(2, {"x": 3.0}, frames=1024), first=started(folder, **going_on))
    write(store, later, Scalars(3, {"x": 4.0}, frames=1536), first=started(later, **going_on))
    found = Found(store)
    assert found.curve("x") == [(1024, 3.0), (1536, 4.0)]
    assert found.curve("iteration") == [(512, 1.0), (1024, 2.0), (1024, 2.0), (1536, 3.0)]
    assert found.run.info.status == "FINISHED"
    # What has a value keeps it.
    assert found.run.data.params["run_dir"] == str(folder)
    assert found.run.data.params["new"] == "1"
    assert found.run.data.tags["rltrain.run_dir"] == str(later)
    assert found.run.data.tags["rltrain.resumed"] == "Resuming 1.pt. Changed: seed."
    write(store, tmp_path / "third", first=started(tmp_path / "third", **going_on), resume=False)
    assert len(Found(store).runs) == 2


def test_a_run_that_is_not_there_any_more_is_a_new_one(store, tmp_path):
    folder = tmp_path / "run"
    write(store, folder, scalars(1))
    found = Found(store)
    found.client.delete_run(found.run.info.run_id)
    write(store, folder, scalars(2))
    assert Found(store).curve("iteration") == [(1024, 2.0)]
    other = f"file://{tmp_path}/other"
    write(other, folder, scalars(3))
    assert Found(other).curve("iteration") == [(1536, 3.0)]


def test_variables_of_mlflow_count_where_an_option_is_not_set(store, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    write(None, tmp_path / "one")
    assert Found(store, "theirs").run.info.run_name == "one"
    write(None, tmp_path / "two", experiment="mine", run_name="name")
    found = Found(store, "mine")
    assert found.run.info.run_name == "name"
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", found.run.info.experiment_id)
    write(None, tmp_path / "three")
    assert {run.info.run_name for run in Found(store, "mine").runs} == {"name", "three"}
    monkeypatch.setenv("MLFLOW_RUN_ID", found.run.info.run_id)
    write(None, tmp_path / "four", scalars(1))
    assert len(Found(store, "mine").runs) == 2


def test_rows_go_in_batches_and_may_go_twice(store, tmp_path):
    tracker = MlflowTracker(MlflowOptions(tracking_uri=store))
    tracker.connect(started(tmp_path))
    rows = [Row(step, 1000.0 + step, {f"m{i}": float(i) for i in range(70)}) for step in range(30)]
    tracker.log(rows)
    assert len(Found(store).curve("m69")) == 30
    with pytest.raises(Refused):
        tracker.log([Row(1, 1.0, {"a": "not a number"})])


def test_a_server_that_is_not_there_is_named_once(tmp_path, capsys):
    before = time.monotonic()
    write("http://me:secret@127.0.0.1:9", tmp_path / "run", *map(scalars, (1, 2)))
    assert time.monotonic() - before < 20
    line = said(capsys, "mlflow")[-1]
    assert "2 records were not sent" in line
    assert "Connection refused" in line or "127.0.0.1" in line
    assert "secret" not in line


@pytest.mark.parametrize(
    "options", [{"tracking_uri": "localhost:5000"}, {"tags": ["blue"]}, {"checkpoints": "some"}]
)
def test_options_that_mlflow_would_refuse_are_refused_before_the_run(options):
    with says(ValueError):
        MlflowOptions(**options)
    for uri in ("http://host:5000", "https://me:pw@host/x", "databricks://profile", "runs"):
        assert MlflowOptions(tracking_uri=uri).tracking_uri == uri
