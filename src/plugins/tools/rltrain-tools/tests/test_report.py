"""`rltrain report`: what its page says of runs, and what it refuses."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import time
from html import unescape

import pytest
from made_up_runs import make_run
from messages import check_said

from rltrain.cli.main import main
from rltrain.records import Scalars
from rltrain.storage.metrics_file import METRICS
from rltrain_report.groups import grouped
from rltrain_report.page import write_page
from rltrain_report.pictures import Picture
from rltrain_report.report import report_page
from rltrain_report.runs import read_runs
from rltrain_report.timing import frames_a_second, rank_times, slowest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def words(block):
    """Yield what a reader sees of a page, or of a part of it, but for the pictures' inside."""
    if isinstance(block, str):
        yield block
    elif isinstance(block, Picture):
        yield from (block.name, block.title, block.alt)
    elif isinstance(block, list | tuple):
        for each in block:
            yield from words(each)
    elif dataclasses.is_dataclass(block):
        yield from words([getattr(block, field.name) for field in dataclasses.fields(block)])


def text_of(*runs):
    return "\n".join(words(report_page(read_runs(map(str, runs)))))


def section(title, *runs):
    page = report_page(read_runs(map(str, runs)))
    (found,) = [each for each in page.sections if each.title == title]
    return found


@pytest.fixture
def written(tmp_path):
    """Write a report on runs by the command; return the page's HTML and the folder."""

    def write(*runs):
        folder = tmp_path / "out"
        assert main(["report", *map(str, runs), "--output", str(folder)]) == 0
        return (folder / "report.html").read_text(), folder

    return write


def test_options_that_say_nothing_of_what_is_learned_split_no_group(tmp_path):
    others = {
        "launcher": "x",
        "max_restarts": 3,
        "check_interval": 9,
        "max_iterations": 40,
        "agent": {"params": {"config": {"max_epochs": 40}, "seed": 5}},
        "plugins": {"wandb": {"name": "b"}, "tensorboard": {"flush": 9}, "slurm": {"time": "1h"}},
        "keep": 3,
    }
    agent = {"params": {"config": {"max_epochs": 20}, "seed": 4}}
    runs = [make_run(tmp_path / "a", agent=agent), make_run(tmp_path / "b", seed=2, **others)]
    assert len(grouped(read_runs(map(str, runs)))) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"plugins": {"gymnasium": {"vectorization": "x"}}, "suite": "gymnasium"},
        {"agent": {"params": {"config": {"gamma": 0.5}}}},
        {"env": {"mass": 2}},
        {"num_envs": 3},
        {"checkpoint": "of_another_program.pth"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_options_that_say_what_is_learned_do(tmp_path, other):
    same = {"suite": other["suite"]} if "suite" in other else {}
    runs = [make_run(tmp_path / "a", **same), make_run(tmp_path / "b", **other)]
    assert len(grouped(read_runs(map(str, runs)))) == 2


def test_what_did_not_finish_and_what_is_there_twice_is_in_no_mean(tmp_path):
    runs = [make_run(tmp_path / f"{seed}", seed=seed, iterations=12) for seed in (1, 2, 3)]
    runs.append(make_run(tmp_path / "again", seed=3))
    runs.append(make_run(tmp_path / "broken", seed=4, iterations=4, error="ValueError: no"))
    runs.append(make_run(tmp_path / "now", seed=5, iterations=5, ended=False))
    (group,) = grouped(read_runs(map(str, runs)))
    assert [run.name for run in group.counted] == ["1", "2", "again"]
    table, left_out, *_ = section("Summary", *runs).blocks
    assert table.rows[0][1:2] == ["3"]
    assert table.rows[0][-1] == "122 (121 to 123)"
    assert left_out.paragraphs == [
        "In no mean, and dotted in pictures: 3 (another run of its seed counts), broken (failed), "
        "now (still training, or killed)."
    ]
    picture = next(iter(report_page(read_runs(map(str, runs))).pictures()))
    assert "to 122, mean of 3 seeds" in picture.alt
    (group,) = grouped(read_runs(map(str, runs[-2:])))
    assert [run.name for run in group.counted] == ["broken", "now"]  # There is nothing else.


def test_of_thousands_of_values_some_are_shown(tmp_path):
    run = make_run(tmp_path / "a", iterations=2)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines[1]["values"] = {f"name {number}": 1.0 for number in range(20_000)}
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert "19,942 more values are not shown." in text_of(run)


def test_runs_that_differ_only_in_the_seed_are_one_line_with_a_band(tmp_path):
    runs = [make_run(tmp_path / f"{seed}", seed=seed) for seed in (1, 2, 3)]
    text = text_of(*runs, make_run(tmp_path / "skrl", library="skrl", value="Loss / Policy"))
    assert "4 runs in 2 groups, trained with rl_games and skrl." in text
    # 10 x iteration + seed, of iterations 2 to 12.
    summaries = "rl_games: from 22 to 122, mean of 3 seeds; skrl: from 21 to 121"
    assert f"Return against frames. {summaries}." in text
    assert f"Return against time. {summaries}." in text
    assert "122 (121 to 123)" in text


def test_runs_that_differ_in_an_option_are_named_by_it(tmp_path):
    runs = [
        make_run(tmp_path / f"{lr}-{seed}", seed=seed, agent={"params": {"lr": lr, "seed": seed}})
        for lr in (0.1, 0.2)
        for seed in (1, 2)
    ]
    groups = grouped(read_runs(map(str, runs)))
    assert [group.label for group in groups] == ["rl_games, lr=0.1", "rl_games, lr=0.2"]
    assert section("What differs", *runs).blocks[0].rows == [("agent.params.lr", "0.1", "0.2")]


def test_the_librarys_and_the_tasks_options_name_a_group_before_others(tmp_path):
    runs = [
        make_run(tmp_path / str(x), num_envs=x, target_return=x, env={"mass": x}, agent={"lr": x})
        for x in (1, 2)
    ]
    assert [group.label for group in grouped(read_runs(map(str, runs)))] == [
        *("rl_games, lr=1, mass=1", "rl_games, lr=2, mass=2")
    ]


def test_the_page_holds_all_that_it_shows(tmp_path, written):
    run = make_run(tmp_path / "run", value=None)
    page, folder = written(run)
    assert page.count("<img") == 5
    assert "default-src 'none'" in page
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert all(each.startswith(("data:", "#")) for each in loaded)
    assert not re.search(r"url\(|@import|<script|https?:", page)
    for name in ("return-frames", "return-seconds", "episode-length-frames", "time-rl-games"):
        png = (folder / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert base64.b64encode(png).decode() in page


def test_names_are_never_markup(tmp_path, written):
    name = '"><script>alert(1)</script> & $x^2$ <img src=x onerror=alert(1)>'
    settings = {"task": name, "iterations": 3, "value": name[2:], "warning": name}
    page, _ = written(make_run(tmp_path / "<script>", error=f"E: {name}", **settings))
    assert "<script" not in page
    assert "<img src=x" not in page
    assert name in unescape(page)


def test_the_slowest_rank_is_named(tmp_path):
    text = text_of(make_run(tmp_path / "run", ranks=3, slow=1))
    said = "Rank 1 is the slowest: its own work takes 0.7 s an iteration, 40% more than the median"
    assert said in text
    assert "most of that in its rollout" in text


def test_what_ranks_do_adds_up_to_their_iteration(tmp_path):
    (run,) = read_runs([str(make_run(tmp_path / "run", ranks=2, slow=0))])
    slow, waits = rank_times(run.scalars)
    assert (slow.rollout, slow.update, slow.waiting) == (0.4, 0.3, 0.0)
    assert (waits.waiting, waits.communication) == pytest.approx((0.2, 0.1))
    assert slow.whole == pytest.approx(waits.whole)
    check_said(slowest([slow]))


def test_the_first_iterations_do_not_count_as_speed():
    def speed(*fps):
        return frames_a_second([Scalars(n, {}, fps=(each,)) for n, each in enumerate(fps)])

    assert speed(1, 1, 10, 20, 30) == 20
    assert speed(1, 1, *([1] * 8), *([9] * 90)) == 9
    assert speed(5) == 5


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "and statistics in every check of "),
        ({"ranks": 1}, "one rank has nothing to compare"),
        ({"check_interval": 0}, "No check was made"),
        ({"error": "DivergenceError: x differs"}, " have diverged."),
    ],
)
def test_divergence_checks_are_reported(tmp_path, settings, said):
    assert said in text_of(make_run(tmp_path / "run", **settings))


def test_warnings_errors_and_restarts_are_shown(tmp_path):
    run = make_run(tmp_path / "a", warning="Rank 1 is slow.", error="ValueError: no")
    failure = {"iteration": 4, "error": "rank 1 was killed", "then": "from the beginning"}
    (run / "restarts.json").write_text(json.dumps([failure]))
    text = text_of(run)
    assert "iteration 3: Rank 1 is slow.\n" in text
    assert "It ended by ValueError: no" in text
    assert "failed after iteration 4: rank 1 was killed; from the beginning" in text


def test_values_with_names_that_are_alike_have_pictures_of_their_own(tmp_path):
    runs = [
        make_run(tmp_path / f"{number}", value=name)
        for number, name in enumerate(("loss/a", "loss a", "loss_a"))
    ]
    names = [picture.name for picture in report_page(read_runs(map(str, runs))).pictures()]
    assert {"value-loss-a", "value-loss-a-2", "value-loss-a-3"} < set(names)
    assert "\n1 other value\n" in text_of(*runs)


def test_a_success_rate_is_shown_where_there_is_one(tmp_path):
    runs = [make_run(tmp_path / "a", success=True), make_run(tmp_path / "b", seed=2)]
    assert "Success rate against frames. rl_games: from 0.08333 to 1." in text_of(*runs)
    assert "Success" not in text_of(runs[1])


def test_several_tasks_have_sections_of_their_own(tmp_path):
    runs = [make_run(tmp_path / "a", task="Ant-v5"), make_run(tmp_path / "b", task="Hopper-v5")]
    assert section("Learning: Ant-v5", *runs).name == "learning-ant-v5"
    pictures = [picture.name for picture in report_page(read_runs(map(str, runs))).pictures()]
    assert "return-frames-ant-v5" in pictures
    assert len(pictures) == len(set(pictures))


def test_a_run_that_still_trains_is_shown_so_far(tmp_path):
    run = make_run(tmp_path / "run", ended=False)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"record": "scalars", "itera')  # Being written.
    (run / "manifest.json").unlink()
    assert "1 had not ended when this page was written" in text_of(run)


def test_the_page_of_one_run_is_in_its_folder_and_that_of_several_is_new(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    one, other = (make_run(tmp_path / name, iterations=1, value=None) for name in ("one", "other"))
    assert main(["report", "one"]) == 0
    assert (one / "report" / "report.html").exists()
    for folder in ("report", "report_2"):
        assert main(["report", "one", "other", str(other)]) == 0
        assert f"page      {folder}/report.html" in capsys.readouterr().out
        assert "2 runs" in (tmp_path / folder / "report.html").read_text()


def test_latest_is_the_newest_run_below_the_log_root(tmp_path, capsys):
    for seed in (1, 2):
        make_run(tmp_path / "logs/rl_games/task" / f"{seed}", seed=seed, iterations=1)
    assert main(["report", "latest", "--log-root", str(tmp_path / "logs")]) == 0
    assert (tmp_path / "logs/rl_games/task/2/report/report.html").exists()


def test_a_checkpoint_names_its_run(tmp_path):
    run = make_run(tmp_path / "run")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "best.pth").touch()
    assert "One run, trained" in text_of(run / "checkpoints" / "best.pth", run)


def empty(path, error=None):
    return make_run(path, iterations=0, ended=error is not None, error=error)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent", "absent: is not there. Name a run folder, a checkpoint in one, or latest."),
        ("latest", "latest: no such run below logs has recorded anything"),
        ("folder", "is no run folder: metrics.jsonl is missing"),
        ("parent", "is no run folder: metrics.jsonl is missing"),
        ("empty", "it has recorded no iteration yet"),
        ("failed", "it failed before its first iteration: ValueError: no"),
        ("damaged", "metrics.jsonl: is damaged (ValueError: no line says what the run is)"),
        ("odd", "metrics.jsonl: is damaged (TypeError"),
        ("text", "text: a file holds a value that rltrain does not write (TypeError"),
        ("a" * 300, "is not there"),
    ],
)
def test_bad_input_is_refused_with_the_reason(tmp_path, capsys, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    make_run(tmp_path / "parent" / "task" / "run")
    empty(tmp_path / "empty")
    empty(tmp_path / "failed", error="ValueError: no\nmore")
    scalars = '{"record": "scalars", "iteration": 1, "values": {"loss": "low"}, "frames": "many"}'
    for bad, line in (
        ("damaged", '{"record"'),
        ("odd", '{"record": "scalars"}'),
        ("text", scalars),
    ):
        path = make_run(tmp_path / bad) / "metrics.jsonl"
        text = "" if bad == "damaged" else path.read_text()
        path.write_text(f"{text}{line}\n")
    assert main(["report", name]) == 2
    assert said in capsys.readouterr().err


def test_an_empty_run_is_left_out(tmp_path, capsys):
    assert "One run, trained" in text_of(make_run(tmp_path / "run"), empty(tmp_path / "empty"))
    check_said(capsys.readouterr().err)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "file").touch()
    run = make_run(tmp_path / "run", iterations=1)
    assert main(["report", str(run), "--output", str(tmp_path / "file")]) == 2
    check_said(capsys.readouterr().err)


# What somebody else made is shown, or refused: never obeyed, and never for ever; see fuzz

PRIVATE = "private-of-mine"


@pytest.mark.slow
@pytest.mark.parametrize("name", [METRICS, "manifest.json", "restarts.json"])
@pytest.mark.parametrize("kind", ["fifo", "zero", "outside", "nested", "sparse", "bytes"])
def test_files_that_are_none_of_a_run_are_not_read(tmp_path, capsys, name, kind):
    run = make_run(tmp_path / "run", iterations=3)
    path = run / name
    path.unlink(missing_ok=True)
    mine = tmp_path / "mine.json"
    line = {"record": "warning", "text": PRIVATE, "iteration": 1}
    mine.write_text(json.dumps({**line, "config": {"x": PRIVATE}, "host": PRIVATE}))
    {
        "fifo": lambda: os.mkfifo(path),
        "zero": lambda: path.symlink_to("/dev/zero"),
        "outside": lambda: path.symlink_to(mine),
        "nested": lambda: path.write_text("[" * 200_000),
        "sparse": lambda: (path.touch(), os.truncate(path, 1 << 40)),
        "bytes": lambda: path.write_bytes(b"\xff\xfe\x00{"),
    }[kind]()
    begun = time.monotonic()
    status = main(["report", str(run)])
    assert time.monotonic() - begun < 60
    assert status == (2 if name == METRICS else 0)
    told = "".join(capsys.readouterr())
    assert "Traceback" not in told
    pages = [page.read_text() for page in run.rglob("*.html")]
    assert PRIVATE not in told + "".join(pages)


def test_the_page_has_no_control_characters(tmp_path):
    name = "\x1b[2J\u202eabc\x9b\x00\x07\u2066 <b>"
    named = dict.fromkeys(("task", "library", "value", "warning", "error"), name)
    run = make_run(tmp_path / "run", iterations=3, **named)
    (run / "manifest.json").write_text(json.dumps({"host": name, "command": name, "config": {}}))
    written = write_page(report_page(read_runs([str(run)])), run / "report", "page.html")
    text = written[0].read_text()
    assert not set(name) & set(text) - set("[2Jabc <b>")
    assert r"\x1b[2J\u202eabc" in text
    assert all(path.name.isprintable() for path in written)
