from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
from helpers import python
from made_up_plugins import hidden_variables, plain_environment, site, stub
from test_long_runs import hold_no_more
from tracker_runs import started

from rltrain.records import Scalars

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rltrain_tensorboard.plugin import TensorBoardOptions
from rltrain_tensorboard.writer import FOLDER, TensorBoardWriter

__all__ = ["hidden_variables", "plain_environment", "site", "stub"]


def events(run_dir: Path) -> EventAccumulator:
    accumulator = EventAccumulator(str(run_dir / FOLDER), size_guidance={"tensors": 0})
    accumulator.Reload()
    return accumulator


def written(run_dir: Path, *records: Scalars) -> EventAccumulator:
    writer = TensorBoardWriter(TensorBoardOptions())
    for record in (started(run_dir), *records):
        writer.rltrain_write(record)
    writer.rltrain_shutdown()
    return events(run_dir)


def test_every_scalar_is_written_against_global_frames(tmp_path: Path) -> None:
    record = Scalars(
        3,
        {"loss/policy": 0.25, "loss/grad (max)": 4.0},
        frames=6144,
        fps=(20500.0, 20700.0),
        episode_return=187.5,
        episode_length=190.0,
    )
    found = written(tmp_path, record)
    assert {tag: found.Scalars(tag)[0].value for tag in found.Tags()["scalars"]} == {
        "loss/policy": 0.25,
        "loss/grad (max)": 4.0,
        "episode/return": 187.5,
        "episode/length": 190.0,
        "performance/fps": 41200.0,
        "performance/fps_rank_min": 20500.0,
        "performance/fps_rank_max": 20700.0,
        "iteration": 3.0,
    }
    assert {found.Scalars(tag)[0].step for tag in found.Tags()["scalars"]} == {6144}


def test_iterations_make_one_curve_with_wall_time(tmp_path: Path) -> None:
    found = written(tmp_path, *(Scalars(i, {"loss": 1.0 / i}, frames=512 * i) for i in (1, 2, 3)))
    curve = found.Scalars("loss")
    assert [event.step for event in curve] == [512, 1024, 1536]
    times = [event.wall_time for event in curve]
    assert times == sorted(times)
    assert times[0] > 1e9


def test_ranks_that_start_again_replace_what_they_do_once_more(tmp_path: Path) -> None:
    written(tmp_path, *(Scalars(i, {"loss": float(i)}, frames=512 * i) for i in (1, 2, 3)))
    (file,) = (tmp_path / FOLDER).iterdir()
    file.rename(file.with_name("events.out.tfevents.0"))  # Ranks that failed had other ids.
    writer = TensorBoardWriter(TensorBoardOptions())
    writer.rltrain_write(dataclasses.replace(started(tmp_path), frames=512))
    for i in (2, 3, 4):
        writer.rltrain_write(Scalars(i, {"loss": 10.0 * i}, frames=512 * i))
    writer.rltrain_shutdown()
    curve = events(tmp_path).Scalars("loss")
    assert [(event.step, event.value) for event in curve] == [
        (512, 1.0),
        (1024, 20.0),
        (1536, 30.0),
        (2048, 40.0),
    ]


def test_values_that_are_not_finite_are_written(tmp_path: Path) -> None:
    values = {"nan": math.nan, "inf": -math.inf, "beyond float32": 1e300}
    found = written(tmp_path, Scalars(1, values, episode_return=math.nan))
    assert math.isnan(found.Scalars("nan")[0].value)
    assert math.isnan(found.Scalars("episode/return")[0].value)
    assert found.Scalars("inf")[0].value == -math.inf
    assert found.Scalars("beyond float32")[0].value == math.inf


def test_records_are_on_disk_before_shutdown(tmp_path: Path) -> None:
    writer = TensorBoardWriter(TensorBoardOptions())
    writer.rltrain_write(started(tmp_path))
    writer.rltrain_write(Scalars(1, {"loss": 1.0}, frames=512))
    assert events(tmp_path).Scalars("loss")[0].step == 512
    writer.rltrain_shutdown()


def test_two_runs_in_one_process_do_not_share_a_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert written(tmp_path / name, Scalars(1, {name: 1.0})).Scalars(name)


def test_it_is_written_without_torch_or_tensorflow() -> None:
    code = "import sys, rltrain_tensorboard.writer\n"
    code += "print(sorted({'rich', 'tensorflow', 'torch'} & set(sys.modules)))"
    assert python(code).stdout.strip() == "[]"


@pytest.mark.slow
def test_a_long_run_holds_no_more_than_a_short_one(stub, tmp_path: Path) -> None:
    hold_no_more(TensorBoardWriter(TensorBoardOptions()), tmp_path, files=6)
