"""What a run has recorded is in its metrics.jsonl, also after it was killed or had no room."""

from __future__ import annotations

import dataclasses
import datetime
import json
import math

from messages import says

from rltrain.errors import UsageError
from rltrain.records import CheckpointSaved, Media, RunEnded, RunStarted, Scalars, Warned
from rltrain.storage.metrics_file import METRICS, MetricsFile, read_metrics
from rltrain.types import Iteration, World


def started(run, frames=0):
    world = World(world_size=2, num_nodes=1)
    return RunStarted(
        *(str(run), "rl_games", "ppo", "suite/Task-v1", world, 8),
        seed=42,
        config={"wandb": {"api_key": "secret"}},
        iteration=Iteration(32, 100),
        frames=frames,
    )


def scalars(iteration, **more):
    record = Scalars(iteration, {"loss": 0.5}, 100, 512 * iteration, 2.0 * iteration)
    times = {"rollout": (1.0, 2.0), "update": (0.5, 0.5), "collectives": (1.25, 0.25)}
    return dataclasses.replace(record, fps=(100.0, 200.0), **times, **more)


def write(run, *records):
    file = MetricsFile(run)
    for record in records:
        file.write(record)
    return file


def written(run):
    return [json.loads(line) for line in (run / METRICS).read_text().splitlines() if line]


def test_the_reader_returns_what_was_recorded(tmp_path):
    path = str(tmp_path / "checkpoints/ep_2.pth")
    records = [
        scalars(1),
        scalars(2, episode_return=20.5, episode_length=30.0, success_rate=0.25),
        CheckpointSaved(path, 2),
        Media(str(tmp_path / "videos/a.mp4"), "training", 2),
        Warned("Rank 1 is slow.", 2),
        RunEnded(2, 1024, 4.5, 20.5, error="ValueError: no", asked=False),
    ]
    write(tmp_path, started(tmp_path, frames=7), *records)
    found = read_metrics(tmp_path)
    lists = found.scalars, found.checkpoints, found.media, found.warnings
    assert [record for each in lists for record in each] + [found.ended] == records
    expected = {"library": "rl_games", "algorithm": "ppo", "task": "suite/Task-v1", "seed": 42}
    expected |= {"world_size": 2, "num_nodes": 1, "num_envs": 8, "frames": 7, "iterations": 100}
    began = dataclasses.asdict(found.started)
    assert abs((datetime.datetime.now(datetime.UTC) - began.pop("time")).total_seconds()) < 60
    assert began == expected


def test_lines_are_json_with_plain_names_and_relative_paths(tmp_path):
    saved = CheckpointSaved(str(tmp_path / "checkpoints/a.pt"), 1)
    values = {"loss": math.nan, "kl": math.inf, "lr": 0.1}
    record = scalars(1, episode_return=math.nan, values=values)
    write(tmp_path, started(tmp_path), record, saved, RunEnded(1, 512, 2.0, 3.0))
    text = (tmp_path / METRICS).read_text()
    assert not any(word in text for word in ("NaN", "Infinity", "secret"))
    start, first, checkpoint, end = written(tmp_path)
    kinds = [line["record"] for line in (start, first, checkpoint, end)]
    assert kinds == ["started", "scalars", "checkpoint", "ended"]
    assert first["values"] == {"loss": None, "kl": None, "lr": 0.1}
    assert (first["return"], first["length"], first["success"]) == (None, None, None)
    assert first["collectives"] == [1.25, 0.25]
    assert checkpoint == {"record": "checkpoint", "path": "checkpoints/a.pt", "iteration": 1}
    assert (end["return"], end["solved"], end["error"]) == (3.0, False, None)
    assert math.isnan(read_metrics(tmp_path).scalars[0].values["kl"])


def test_the_times_of_ranks(tmp_path):
    record = scalars(1)
    assert record.communication == 0.25
    assert record.waiting == (1.0, 0.0)
    assert record.waiting_share == 1.0 / 5.5
    assert (Scalars(1, {}).communication, Scalars(1, {}).waiting_share) == (0.0, 0.0)


def test_a_half_written_line_is_passed_over_and_the_next_ranks_begin_a_new_one(tmp_path):
    write(tmp_path, started(tmp_path), scalars(1), scalars(2))
    whole = (tmp_path / METRICS).read_bytes()
    for cut in (1, 20):
        (tmp_path / METRICS).write_bytes(whole[:-cut])
        expected = [scalars(1), scalars(2)][: 2 if cut == 1 else 1]
        assert read_metrics(tmp_path).scalars == expected
    write(tmp_path, started(tmp_path), scalars(2), scalars(3))
    assert [record.iteration for record in read_metrics(tmp_path).scalars] == [1, 2, 3]


def test_iterations_that_are_done_again_count_once(tmp_path, monkeypatch):
    saved = CheckpointSaved(str(tmp_path / "2.pt"), 2)
    failed = RunEnded(4, 2048, 8.0, None, error="RuntimeError: lost")
    write(tmp_path, started(tmp_path), *map(scalars, (1, 2, 3, 4)), saved, failed)
    again = scalars(3, episode_return=1.0)
    lines = (tmp_path / METRICS).read_text()
    write(tmp_path, started(tmp_path, frames=1024), again, saved)
    found = read_metrics(tmp_path)
    assert [record.iteration for record in found.scalars] == [1, 2, 3]
    assert found.scalars[2].episode_return == 1.0
    assert (found.started.frames, found.ended, found.checkpoints) == (0, None, [saved])
    # Time goes on while there is no rank.
    later = found.started.time + datetime.timedelta(minutes=1)
    late = written(tmp_path)[7] | {"time": later.isoformat()}
    (tmp_path / METRICS).write_text(lines + json.dumps(late) + "\n")
    write(tmp_path, again)
    assert read_metrics(tmp_path).scalars[-1].seconds == 60.0 + again.seconds


def test_a_folder_without_the_file_is_refused(tmp_path):
    with says(UsageError):
        read_metrics(tmp_path)
    (tmp_path / METRICS).write_text('{"step": 1}\n[1]\nx\n')
    with says(UsageError):
        read_metrics(tmp_path)
    # What a damaged line says fills no screen.
    line = {"record": "started", "time": "2026-11-29T15:14:07.213" + "[" * 100_000}
    (tmp_path / METRICS).write_text(json.dumps(line))
    with says(UsageError) as refused:
        read_metrics(tmp_path)
    assert len(str(refused.value)) < 600
