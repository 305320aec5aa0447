"""What the pictures of `rltrain report` show: targets, seeds, the phases of ranks."""

from __future__ import annotations

import pytest
from made_up_runs import make_run

from rltrain_report.report import report_page
from rltrain_report.runs import read_runs

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def pictures(*runs):
    """Return the pictures of a report by name."""
    return {each.name: each for each in report_page(read_runs(map(str, runs))).pictures()}


def plotted(picture):
    """Return matplotlib's axes with a picture."""
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
