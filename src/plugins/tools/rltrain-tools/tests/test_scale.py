"""`rltrain scale`: what it plans, runs, and says of runs on several numbers of ranks."""

from __future__ import annotations

import contextlib
import json

import pytest
from made_up_runs import make_run
from wrong_content import KINDS, changed, put

from rltrain.cli.main import command_of, main
from rltrain.cli.parser import parse
from rltrain.commands import read_flags, read_run
from rltrain.errors import UsageError
from rltrain_report.runs import read_runs
from rltrain_report.scale.command import ScaleOptions
from rltrain_report.scale.experiment import RESULT, Experiment, Job, plan_experiment
from rltrain_report.scale.results import as_markdown, result_table, scale_page
from rltrain_report.scale.sizes import mode_of, sizes_of
from rltrain_report.scale.words import reasons

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


STUB = (
    *("--library", "stub", "--task", "Stub-v0", "--framework", "numpy", "--grad-sync", "plain"),
    *("--backend", "stub", "--launcher", "stub_launcher", "--writer", "notes"),
)


@pytest.fixture
def plan(stub, tmp_path):
    """Plan an experiment of the stub library."""

    def plan(*words, **more):
        words = (*STUB, *words)
        settings = {"ranks": (1, 2, 4), "seeds": 1, "mode": "weak", "output": str(tmp_path / "out")}
        return plan_experiment(words, read_run(words), **{**settings, **more})

    return plan


def values(jobs, flag):
    """Return the value of a flag in each job: the last one counts."""
    return [job.words[len(job.words) - job.words[::-1].index(flag)] for job in jobs]


def test_each_number_of_ranks_has_a_run_for_each_seed(plan):
    jobs = plan("--seed", "7", ranks=(2, 1), seeds=2).jobs
    assert [job.name for job in jobs] == [
        *("ranks-1_seed-7", "ranks-2_seed-7", "ranks-1_seed-8", "ranks-2_seed-8")
    ]
    assert values(jobs, "--seed") == ["7", "7", "8", "8"]
    assert values(jobs, "--nproc-per-node") == ["1", "2", "1", "2"]
    assert all("--total-envs" not in job.words for job in jobs)


def test_strong_scaling_shares_the_environments_of_the_smallest_number(plan):
    # The task has 2 environments.
    assert values(plan(mode="strong", ranks=(2, 4)).jobs, "--total-envs") == ["4", "4"]
    assert values(plan("--total-envs", "8", mode="strong").jobs, "--total-envs") == ["8"] * 3


def test_a_node_is_filled_before_the_next(plan):
    words = ("--launcher", "scheduler", "--nnodes", "2")
    jobs = plan(*words, ranks=(1, 2, 4, 8)).jobs
    assert values(jobs, "--nnodes") == ["1", "1", "1", "2"]
    assert values(jobs, "--nproc-per-node") == ["1", "2", "4", "4"]


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        (("--num-gpus", "2"), {}, "--nproc-per-node: --ranks sets it. Leave it out."),
        (("--log-root", "x"), {}, "--log-root: --output names the folder of all runs"),
        (("--resume", "x"), {}, "--resume: each run is a new one"),
        (("--seed", "-1"), {}, "--seed -1: give the first seed"),
        (("--total-envs", "8"), {}, "--mode weak and --total-envs contradict each other"),
        (("--num-envs", "8"), {"mode": "strong"}, "--mode strong and --num-envs contradict"),
        (("--total-envs", "6"), {"mode": "strong"}, "--ranks 4: --total-envs 6: cannot be divided"),
        (("--algorithm", "sac"), {}, "--ranks 2: sac on several ranks"),
        (("--nnodes", "2"), {}, "needs a launcher that starts all of them"),
        (("--nnodes", "1:2"), {}, "--nnodes 1:2: give one number"),
        (("--nnodes", "2"), {"ranks": (2, 3, 4)}, "--ranks 3: cannot be divided over 2 nodes of 2"),
        (("agent.learn.iterations=null",), {}, "Give --max-iterations N or --target-return R."),
        (("--backend", "stub_gpu"), {}, "--ranks 4: --nproc-per-node 4: only 2 GPU(s), and ranks"),
    ],
)
def test_what_cannot_work_is_refused_before_a_run_starts(plan, monkeypatch, words, more, said):
    monkeypatch.setenv("STUB_GPUS", "2")
    with pytest.raises(UsageError) as refused:
        plan(*words, **more)
    assert said in str(refused.value)


def test_the_words_of_the_runs_are_kept_apart():
    of_scale = ["--ranks", "1", "2", "--seeds=2", "--output", "o", "--mode", "weak"]
    of_runs = ["Ant-v5", "--library", "skrl", "--gpu-ids", "0", "1", "agent.x=1", "--seed", "-1"]
    mixed = [*of_runs[:3], *of_scale[:4], *of_runs[3:], *of_scale[4:], "+agent.y=2"]
    arguments, words = parse(command_of(["scale"])[1], "scale", mixed)
    assert words == [*of_runs, "+agent.y=2"]
    assert read_flags(ScaleOptions, arguments) == ScaleOptions(
        ranks=(1, 2), seeds=2, mode="weak", output="o"
    )


@pytest.fixture
def runs(tmp_path):
    """Return runs on 1, 2 and 4 ranks; on 4, rank 3 is slow."""

    def runs(**settings):
        paths = [
            make_run(tmp_path / f"{ranks}-{seed}", ranks=ranks, seed=seed, **slow, **settings)
            for ranks, slow in ((1, {}), (2, {}), (4, {"slow": 3}))
            for seed in (1, 2)
        ]
        return read_runs(map(str, paths))

    return runs


def test_efficiency_is_the_speed_of_a_rank_compared_with_one_alone(runs):
    one, two, four = sizes_of(runs(target_return=100.0, solved=True))
    # An iteration takes 0.5 s, and 0.1 s more on 2 ranks; on 4, 0.4 s of waiting and communication.
    assert [size.efficiency for size in (one, two, four)] == pytest.approx([1, 5 / 6, 5 / 9])
    assert [len(size.fps) for size in (one, two, four)] == [2, 2, 2]  # A number for each seed.
    assert two.mean_fps == pytest.approx(2 * 5 / 6 * one.mean_fps)
    # Frames of 12 iterations on one rank are 6 of two ranks, and 3 of four: 10 x iteration + seed.
    assert one.equal_return == (121, 122)
    assert four.equal_return == (31, 32)
    assert two.seconds_to_target == pytest.approx((7.2, 7.2))


def test_the_table_has_a_row_for_each_number_of_ranks(runs):
    head, rule, *rows = as_markdown(result_table(sizes_of(runs(target_return=9.0)))).splitlines()
    assert "return at 3,072 frames" in head
    assert set(rule) == set("|-:")
    assert [row.split("|")[1].strip() for row in rows] == ["1", "2", "4"]
    assert "83%" in rows[1]
    columns = [name.strip() for name in head.split("|")]
    shares = [rows[2].split("|")[columns.index(x)].strip() for x in ("waiting", "communication")]
    assert shares == ["17%", "22%"]
    assert "2 not" in rows[1]  # Reached the target return.


def test_it_says_why_more_ranks_are_not_faster(runs):
    two, four, *notes = reasons(sizes_of(runs()), "weak")
    assert two.startswith("2 ranks: 1.67 times the frames a second of one, an efficiency of 83%.")
    assert "An iteration takes 0.6 s; 0.5 s would be perfect." in two
    assert "Of the lost time, 100% is communication (0.1 s)" in two
    assert "38% is waiting for the slowest rank (0.15 s)" in four
    assert "Rank 3 is the slowest: its own work takes 0.7 s an iteration, 40% more" in four
    assert any("a single rank may use several cores" in note for note in notes)


def test_a_speed_that_cannot_be_is_said_to_be_none(tmp_path):
    runs = [make_run(tmp_path / "1", ranks=1, slow=0), make_run(tmp_path / "2")]
    two, note = reasons(sizes_of(read_runs(map(str, runs))), "weak")
    assert "OMP_NUM_THREADS=1" in note
    assert "more than 2 times" in two
    assert "has slowed the runs on fewer ranks" in two


def test_strong_scaling_expects_less_work_a_rank(tmp_path):
    paths = [make_run(tmp_path / "1", ranks=1, num_envs=8), make_run(tmp_path / "2", num_envs=4)]
    runs = read_runs(map(str, paths))
    assert mode_of(runs) == "strong"
    (two, *_) = reasons(sizes_of(runs), "strong")
    # 0.3 s of update and 0.2 s of rollout, as before, though there is half as much to do.
    assert "An iteration takes 0.6 s; 0.25 s would be perfect." in two
    assert "43% is in the update (0.3 s instead of 0.15 s)" in two


def test_more_ranks_than_cores_are_named(runs, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "a-host")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    assert "This machine has 2 cores for 4 ranks" in "\n".join(reasons(sizes_of(runs()), "weak"))


def test_the_page_has_a_picture_of_each_measure(runs):
    page = scale_page(sizes_of(runs(target_return=9.0, solved=True)), "weak")
    assert [picture.name for picture in page.pictures()] == [
        *("fps", "efficiency", "iteration", "time-to-target", "return-frames", "return-seconds"),
        *("time-2-ranks", "time-4-ranks"),
    ]
    assert page.title == "rltrain/CartPoleContinuous-v1 on 1, 2 and 4 ranks"


def test_finished_runs_are_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for ranks in (1, 2):
        make_run(tmp_path / f"{ranks}", ranks=ranks, iterations=1, value=None)
    assert main(["scale", "--runs", "1", "2"]) == 0
    assert "|     2 |" in capsys.readouterr().out
    assert (tmp_path / "scale" / "scale.html").exists()
    assert (tmp_path / "scale" / "fps.png").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Give --ranks N..., the numbers of ranks; or --runs RUN..."),
        ("--ranks 2 2", "give at least two numbers"),
        ("--ranks 1 x", "--ranks x: must be a whole number"),
        ("--ranks 1 2 --dry-run", "--dry-run: rltrain scale plans every run"),
        ("--ranks 1 2 --libary skrl", "Did you mean '--library'?"),
        ("--runs 1 2 --ranks 1 2", "--ranks: nothing is started with --runs"),
        ("--runs 1 2 --library skrl", "--library: nothing is started with --runs"),
        ("--runs 1 other", "All runs had 1 ranks"),
        ("--runs 1 skrl", "The runs differ in the library, rl_games and skrl"),
        ("--runs 1 odd", "neither the environments a rank are equal nor"),
    ],
)
def test_bad_input_is_refused_with_the_reason(tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "1", ranks=1)
    make_run(tmp_path / "2")
    make_run(tmp_path / "other", ranks=1, seed=2)
    make_run(tmp_path / "skrl", library="skrl")
    make_run(tmp_path / "odd", num_envs=9)
    assert main(["scale", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_with_another_experiment_is_refused(plan, tmp_path):
    first = plan("--max-iterations", "3")
    first.folder.mkdir()
    run = make_run(first.runs / "stub/task/time_ranks-1_seed-42", ranks=1)
    first.save({"ranks-1_seed-42": run})
    assert plan("--max-iterations", "3").finished() == {"ranks-1_seed-42": run}
    assert json.loads((first.folder / "scale.json").read_text())["mode"] == "weak"
    with pytest.raises(UsageError, match="holds another experiment: rltrain scale --mode weak"):
        plan("--max-iterations", "4").finished()
    (first.folder / "scale.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        first.finished()


def test_an_experiment_of_somebody_else(tmp_path):
    folder = tmp_path / "experiment"
    folder.mkdir()
    (job,) = jobs = (Job(1, 1, ()),)
    experiment = Experiment(folder, "weak", (), jobs)
    run = tmp_path / "run"
    run.mkdir()
    (run / "metrics.jsonl").touch()
    saved = {"mode": "weak", "words": [], "runs": {job.name: str(run)}}
    for each in changed(saved):
        (folder / RESULT).write_text(json.dumps(each))
        with contextlib.suppress(UsageError):  # Any other error fails the test.
            assert experiment.finished() == {}
    for kind in KINDS:
        put(kind, folder / RESULT)
        with pytest.raises(UsageError, match="cannot be read"):
            experiment.finished()
