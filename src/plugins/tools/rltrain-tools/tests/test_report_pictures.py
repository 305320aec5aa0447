"""Pictures of `rltrain report`, and what `rltrain scale` says of several numbers of ranks."""

from __future__ import annotations

import pytest
from made_up_runs import make_run
from messages import check_said

from rltrain.cli.main import main
from rltrain_report.report import report_page
from rltrain_report.runs import read_runs
from rltrain_report.scale import reasons, sizes_of, table

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def pictures(*runs):
    return {each.name: each for each in report_page(read_runs(map(str, runs))).pictures()}


def plotted(picture):
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    picture.plot(axes)
    return axes


def legend(picture):
    return plotted(picture).get_legend_handles_labels()[1]


def test_the_target_return_is_a_line_of_the_return_alone(tmp_path):
    shown = pictures(make_run(tmp_path / "a", target_return=475.0))
    for name in ("return-frames", "return-seconds"):
        assert legend(shown[name]) == ["rl_games (n=1)", "target 475"]
        assert shown[name].alt.endswith(". target 475.")
    assert "target" not in str(legend(shown["episode-length-frames"]))


def test_each_target_of_several_groups_is_shown_once(tmp_path):
    runs = [
        make_run(tmp_path / f"{target}-{seed}", seed=seed, target_return=target)
        for target in (90.0, 60.0, None)
        for seed in (1, 2)
    ]
    assert legend(pictures(*runs)["return-frames"])[3:] == ["target 60", "target 90"]


@pytest.mark.parametrize("target", [True, "60", float("nan"), float("inf"), 10**400, [60]])
def test_a_target_that_is_no_number_is_none(tmp_path, target):
    (run,) = read_runs([str(make_run(tmp_path / "a", target_return=target))])
    assert run.target_return is None


def test_seeds_have_a_mean_and_a_band_where_all_have_recorded(tmp_path):
    runs = [make_run(tmp_path / f"{seed}", seed=seed, iterations=9 + seed) for seed in (1, 2)]
    axes = plotted(pictures(*runs)["return-frames"])
    *seeds, mean = axes.get_lines()
    assert len(seeds) == 2
    assert mean.get_xdata()[-1] == min(line.get_xdata()[-1] for line in seeds)
    assert mean.get_ydata()[0] == 21.5  # 10 x iteration + seed, from iteration 2 on.
    assert len(axes.collections) == 1


def test_neighbors_are_averaged_in_a_long_curve(tmp_path):
    (line,) = plotted(
        pictures(make_run(tmp_path / "a", iterations=900))["return-frames"]
    ).get_lines()
    assert len(line.get_xdata()) == 300
    assert round(line.get_ydata()[-1]) == 8996


def test_bars_are_the_phases_of_each_rank(tmp_path):
    axes = plotted(pictures(make_run(tmp_path / "a", ranks=2, slow=0))["time-rl-games"])
    heights = {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}
    assert heights["rollout"] == pytest.approx([0.4, 0.2])
    assert heights["waiting"] == pytest.approx([0, 0.2])


# What more ranks are worth


@pytest.fixture
def sizes(tmp_path):
    """Runs on 1, 2 and 4 ranks; on 4, rank 3 is slow."""
    paths = [
        make_run(tmp_path / f"{ranks}-{seed}", ranks=ranks, seed=seed, **slow)
        for ranks, slow in ((1, {}), (2, {}), (4, {"slow": 3}))
        for seed in (1, 2)
    ]
    return sizes_of(read_runs(map(str, paths)))


def test_efficiency_is_the_speed_of_a_rank_compared_with_one_alone(sizes):
    one, two, four = sizes
    # An iteration takes 0.5 s, and 0.1 s more on 2 ranks; on 4, 0.4 s of waiting and communication.
    speed = one.fps_of_a_rank
    assert two.fps_of_a_rank == pytest.approx(speed * 5 / 6)
    assert four.fps_of_a_rank == pytest.approx(speed * 5 / 9)
    assert [len(size.fps) for size in sizes] == [2, 2, 2]  # A number for each seed.


def test_the_table_has_a_row_for_each_number_of_ranks(sizes):
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table(sizes)]
    _, rule, *rows = (dict(zip(lines[0], line, strict=True)) for line in lines)
    assert {cell.strip("-") for cell in rule.values()} == {":"}
    assert [row["ranks"] for row in rows] == ["1", "2", "4"]
    assert [row["efficiency"] for row in rows] == ["100%", "83%", "56%"]
    assert (rows[2]["waiting"], rows[2]["communication"]) == ("17%", "22%")
    assert len({len(line) for line in table(sizes)}) == 1


def test_it_says_why_more_ranks_are_not_faster(sizes):
    two, four = reasons(sizes)
    check_said(two)
    check_said(four)


def test_fewer_environments_a_rank_are_expected_to_be_less_work(tmp_path):
    paths = [make_run(tmp_path / "1", ranks=1, num_envs=8), make_run(tmp_path / "2", num_envs=4)]
    (two,) = reasons(sizes_of(read_runs(map(str, paths))))
    # 0.3 s of update and 0.2 s of rollout, as before, though there is half as much to do.
    check_said(two)


def test_runs_are_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for ranks in (1, 2):
        make_run(tmp_path / f"{ranks}", ranks=ranks)
    assert main(["scale", "1", "2"]) == 0
    printed = capsys.readouterr().out
    assert "|     2 |" in printed
    assert "2 ranks: " in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "RUN"),
        ("1 other", "All runs had 1 ranks"),
        ("1 skrl", "The runs differ in the library, rl_games and skrl"),
    ],
)
def test_bad_input_is_refused_with_the_reason(tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "1", ranks=1)
    make_run(tmp_path / "other", ranks=1, seed=2)
    make_run(tmp_path / "skrl", library="skrl")
    assert main(["scale", *words.split()]) == 2
    assert said in capsys.readouterr().err
