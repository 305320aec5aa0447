"""What `rltrain evaluate` found stays in the run folder, and the report shows it."""

from __future__ import annotations

import dataclasses
import json

import pytest
from made_up_runs import make_run
from messages import check_said

from rltrain_play import episodes
from rltrain_play.episodes import Episode
from rltrain_play.evaluating import Result
from rltrain_play.kept import EVALUATIONS, read_evaluations
from rltrain_report.facts import evaluation_blocks
from rltrain_report.runs import read_runs

pytest.importorskip("scipy")


@pytest.fixture
def run(tmp_path):
    folder = make_run(tmp_path / "run")
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "checkpoints" / "a.pth").write_bytes(b"weights")
    return folder


def result_of(run, checkpoint="checkpoints/a.pth", **more):
    fields = {field.name: None for field in dataclasses.fields(Episode)}
    both = [
        Episode(**{**fields, "episode_return": value, "length": 5, "success": None})
        for value in (1.0, 3.0)
    ]
    made = {
        "digest": "0a",
        "iteration": 7,
        "library": "l",
        "algorithm": "a",
        "task": "t",
        "env": {"play": True},
        "seeds": (4,),
        "episodes": tuple(both),
        **more,
    }
    return Result(run=str(run), checkpoint=str(run / checkpoint), **made)


def test_each_result_is_kept_with_the_options_that_it_was_played_with(run):
    assert result_of(run).keep() is None
    assert result_of(run, seeds=(5,)).keep() is None
    first, second = read_evaluations(run)
    assert (first.checkpoint, first.iteration, first.returns) == ("checkpoints/a.pth", 7, 2.0)
    assert (list(first.seeds), list(second.seeds)) == ([4], [5])
    assert json.loads((run / EVALUATIONS).read_text().splitlines()[0])["env"] == {"play": True}


def test_a_file_of_another_place_has_no_run_folder_to_be_kept_in(run, tmp_path):
    (tmp_path / "b.pth").write_bytes(b"weights")
    assert result_of(run, "../b.pth").keep() is None
    assert not (run / EVALUATIONS).exists()


def test_nothing_is_written_through_a_strangers_link(run, tmp_path):
    target = tmp_path / "target"
    target.write_text("kept\n")
    (run / EVALUATIONS).symlink_to(target)
    check_said(result_of(run).keep())
    assert target.read_text() == "kept\n"


def test_the_report_shows_them_and_passes_over_damaged_lines(run):
    result_of(run).keep()
    whole = json.loads((run / EVALUATIONS).read_text())
    with (run / EVALUATIONS).open("a") as file:
        for damage in ({"episodes": "many"}, {"seeds": None}, {"returns": [1]}):
            file.write(json.dumps({**whole, **damage}) + "\n")
        file.write('[]\n{"checkpoint"')
        file.write("\n" + json.dumps({name: whole[name] for name in whole if name != "task"}))
    table, note = evaluation_blocks(read_runs([str(run)]))
    found = ("2", "4", "2 (1 to 3)", "2 (1 to 3)")
    assert table.rows[0][1:6] == ("checkpoints/a.pth, on t", *found)
    assert [row[1] for row in table.rows[1:]] == ["checkpoints/a.pth"]
    assert "interquartile" in note.paragraphs[0]


def test_progress_is_printed_every_ten_seconds(monkeypatch):
    now, said = [0.0], []
    monkeypatch.setattr(episodes.time, "monotonic", lambda: now[0])
    progress = episodes.Progress(4, said.append)
    for now[0], ended in ((9, 0), (10, 0), (15, 1), (20, 1)):
        progress.update(ended)
    progress.before += 2
    now[0] = 30
    progress.update(1)
    check_said("\n".join(said))
