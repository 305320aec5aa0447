"""`rltrain scale`: what it plans, runs, and says of runs on several numbers of ranks."""

from __future__ import annotations

import pytest
from made_up_runs import make_run

from rltrain.cli.main import command_of, main
from rltrain.cli.parser import parse
from rltrain.commands import read_flags, read_run
from rltrain.errors import UsageError
from rltrain_report.runs import read_runs
from rltrain_report.scale import ScaleOptions, _begin, _finished, plan_jobs
from rltrain_report.scaling import (
    as_markdown,
    reasons,
    result_table,
    scale_page,
    sizes_of,
)

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


STUB = (
    *("--library", "stub", "--task", "Stub-v0", "--framework", "numpy", "--grad-sync", "plain"),
    *("--backend", "stub", "--launcher", "stub_launcher", "--writer", "notes"),
)


@pytest.fixture
def plan(stub):
    """Plan an experiment of the stub library; return its runs' words by name."""

    def plan(*words, ranks=(1, 2, 4), seeds=1, mode="weak"):
        words = (*STUB, *words)
        return plan_jobs(words, read_run(words), ranks, seeds, mode)[1]

    return plan


def values(jobs, flag):
    """Return the value of a flag in each job: the last one counts."""
    return [words[len(words) - words[::-1].index(flag)] for words in jobs.values()]


def test_each_number_of_ranks_has_a_run_for_each_seed(plan):
    jobs = plan("--seed", "7", ranks=(2, 1), seeds=2)
    assert list(jobs) == [*("ranks-1_seed-7", "ranks-2_seed-7", "ranks-1_seed-8", "ranks-2_seed-8")]
    assert values(jobs, "--seed") == ["7", "7", "8", "8"]
    assert values(jobs, "--nproc-per-node") == ["1", "2", "1", "2"]
    assert all("--total-envs" not in words for words in jobs.values())


def test_strong_scaling_shares_the_environments_of_the_smallest_number(plan):
    # The task has 2 environments.
    assert values(plan(mode="strong", ranks=(2, 4)), "--total-envs") == ["4", "4"]
    assert values(plan("--total-envs", "8", mode="strong"), "--total-envs") == ["8"] * 3


def test_a_node_is_filled_before_the_next(plan):
    jobs = plan("--launcher", "scheduler", "--nnodes", "2", ranks=(1, 2, 4, 8))
    assert values(jobs, "--nnodes") == ["1", "1", "1", "2"]
    assert values(jobs, "--nproc-per-node") == ["1", "2", "4", "4"]


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        (("--num-gpus", "2"), {}, "--nproc-per-node: rltrain scale sets this"),
        (("--log-root", "x"), {}, "--log-root: rltrain scale sets this"),
        (("--resume", "x"), {}, "--resume: rltrain scale sets this"),
        (("--seed", "-1"), {}, "--seed -1: give the first seed"),
        (("--total-envs", "8"), {}, "--mode weak and --total-envs contradict each other"),
        (("--num-envs", "8"), {"mode": "strong"}, "--mode strong and --num-envs contradict"),
        (("--total-envs", "6"), {"mode": "strong"}, "--ranks 4: --total-envs 6: cannot be divided"),
        (("--algorithm", "sac"), {}, "--ranks 2: sac on several ranks"),
        (("--nnodes", "2"), {}, "needs a launcher that starts all of them"),
        (("--nnodes", "1:2"), {}, "--nnodes 1:2: must be a whole number"),
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
    assert sum(two.fps) == pytest.approx(2 * 5 / 6 * sum(one.fps))
    assert two.seconds_to_target_return == pytest.approx((7.2, 7.2))


def test_the_table_has_a_row_for_each_number_of_ranks(runs):
    head, rule, *rows = as_markdown(result_table(sizes_of(runs(target_return=9.0)))).splitlines()
    assert "time to 9" in head
    assert set(rule) == set("|-:")
    assert [row.split("|")[1].strip() for row in rows] == ["1", "2", "4"]
    assert "83%" in rows[1]
    columns = [name.strip() for name in head.split("|")]
    shares = [rows[2].split("|")[columns.index(x)].strip() for x in ("waiting", "communication")]
    assert shares == ["17%", "22%"]
    assert "2 not" in rows[1]  # Reached the target return.


def test_it_says_why_more_ranks_are_not_faster(runs):
    two, four, *_ = reasons(sizes_of(runs()), "weak")
    assert two.startswith("2 ranks: 1.67 times the frames a second of one, an efficiency of 83%.")
    assert "An iteration takes 0.6 s; 0.5 s would be perfect." in two
    assert "Of the lost time, 100% is communication (0.1 s instead of 0 s)" in two
    assert "38% is waiting (0.15 s instead of 0 s)" in four
    assert "Rank 3 is the slowest: its own work takes 0.7 s an iteration, 40% more" in four


def test_a_speed_that_cannot_be_is_said_to_be_none(tmp_path):
    runs = [make_run(tmp_path / "1", ranks=1, slow=0), make_run(tmp_path / "2")]
    two, *_ = reasons(sizes_of(read_runs(map(str, runs))), "weak")
    assert "more than 2 times" in two
    assert "has slowed the runs on fewer ranks" in two


def test_strong_scaling_expects_less_work_a_rank(tmp_path):
    paths = [make_run(tmp_path / "1", ranks=1, num_envs=8), make_run(tmp_path / "2", num_envs=4)]
    runs = read_runs(map(str, paths))
    (two, *_) = reasons(sizes_of(runs), "strong")
    # 0.3 s of update and 0.2 s of rollout, as before, though there is half as much to do.
    assert "An iteration takes 0.6 s; 0.25 s would be perfect." in two
    assert "43% is update (0.3 s instead of 0.15 s)" in two


def test_more_ranks_than_cores_are_named(runs, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "a-host")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    assert "This machine has 2 cores for 4 ranks" in "\n".join(reasons(sizes_of(runs()), "weak"))


def test_the_page_has_pictures_of_speed_learning_and_ranks(runs):
    page = scale_page(sizes_of(runs()), "weak")
    assert [picture.name for picture in page.pictures()] == [
        *("fps", "return-frames", "return-seconds"),
        *("time-1-ranks", "time-2-ranks", "time-4-ranks"),
    ]
    assert page.title == "rltrain/CartPoleContinuous-v1 on 1, 2, 4 ranks"


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
    ],
)
def test_bad_input_is_refused_with_the_reason(tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "1", ranks=1)
    make_run(tmp_path / "2")
    make_run(tmp_path / "other", ranks=1, seed=2)
    make_run(tmp_path / "skrl", library="skrl")
    assert main(["scale", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_a_folder_with_another_experiment_is_refused(tmp_path):
    folder, experiment = tmp_path / "out", {"mode": "weak", "words": ["--max-iterations", "3"]}
    for _ in range(2):
        _begin(folder, experiment)
    with pytest.raises(UsageError, match="holds another experiment: rltrain scale --mode weak"):
        _begin(folder, {**experiment, "words": []})
    (folder / "scale.json").write_text("{")
    with pytest.raises(UsageError, match="Name another folder"):
        _begin(folder, experiment)


def test_the_newest_run_of_a_name_that_finished_is_not_run_again(tmp_path):
    runs = tmp_path / "runs" / "stub" / "task"
    for name, ended in (("1_ranks-1_seed-4", True), ("2_ranks-1_seed-4_2", False)):
        make_run(runs / name, ranks=1, ended=ended)
    make_run(runs / "3_ranks-1_seed-42", ranks=1)
    assert _finished(tmp_path, "ranks-1_seed-4") == runs / "1_ranks-1_seed-4"
    assert _finished(tmp_path, "ranks-2_seed-4") is None
