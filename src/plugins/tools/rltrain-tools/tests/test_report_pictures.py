"""What the pictures of `rltrain report` tell: the target, and values where the reader points."""

from __future__ import annotations

import re
from html import unescape

import pytest
from made_up_runs import make_run

from rltrain_report.report import report_page
from rltrain_report.runs import read_runs

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def pictures(*runs):
    """Return the pictures of a report by name."""
    return {each.name: each for each in report_page(read_runs(map(str, runs))).pictures()}


def values(picture):
    """Return what a reader is told who points at a picture, from left to right."""
    return [unescape(each) for each in re.findall(r"<title>(.*?)</title>", picture.svg, re.DOTALL)]


def test_the_target_return_is_a_line_of_the_return_alone(tmp_path):
    drawn = pictures(make_run(tmp_path / "a", target_return=475.0))
    for name in ("return-frames", "return-seconds"):
        assert drawn[name].legend == ["rl_games (n=1)", "target 475"]
        assert drawn[name].alt.endswith(". target 475.")
        assert ">target 475<" in drawn[name].svg
    assert "target" not in drawn["episode-length-frames"].svg


def test_each_target_of_several_groups_is_told_once(tmp_path):
    runs = [
        make_run(tmp_path / f"{target}-{seed}", seed=seed, target_return=target)
        for target in (90.0, 60.0, None)
        for seed in (1, 2)
    ]
    assert list(pictures(*runs)["return-frames"].legend[3:]) == ["target 60", "target 90"]


@pytest.mark.parametrize("target", [True, "60", float("nan"), float("inf"), 10**400, [60]])
def test_a_target_that_is_no_number_is_none(tmp_path, target):
    (run,) = read_runs([str(make_run(tmp_path / "a", target_return=target))])
    assert run.target_return is None


def test_a_reader_who_points_at_a_curve_reads_what_each_group_has_there(tmp_path):
    runs = [make_run(tmp_path / "a", seed=1), make_run(tmp_path / "b", library="skrl", seed=3)]
    told = values(pictures(*runs)["return-seconds"])
    assert told[0] == "1.2 seconds\nrl_games (n=1): 21\nskrl (n=1): 23"
    assert told[-1] == "7.2 seconds\nrl_games (n=1): 121\nskrl (n=1): 123"
    assert len(told) == 11


def test_a_group_that_has_ended_has_no_value_after_that(tmp_path):
    short = make_run(tmp_path / "a", iterations=4)
    told = values(pictures(short, make_run(tmp_path / "b", library="skrl"))["return-frames"])
    assert [each.count("\n") for each in told] == [2, 2, 2, *[1] * 8]


def test_a_long_curve_has_as_many_places_as_a_reader_can_point_at(tmp_path):
    told = values(pictures(make_run(tmp_path / "a", iterations=900))["return-frames"])
    assert len(told) == 40
    assert told[-1].endswith("rl_games (n=1): 8,996")  # The mean of the last bin.


def test_a_reader_who_points_at_a_bar_reads_the_phases_of_that_rank(tmp_path):
    told = values(pictures(make_run(tmp_path / "a", ranks=2, slow=0))["time-rl-games"])
    slow = "rank 0\nrollout: 0.4 s\nupdate: 0.3 s\nwaiting: 0 s\ncommunication: 0.1 s"
    assert (len(told), told[0]) == (2, slow)


def test_strips_are_side_by_side_within_the_axes(tmp_path):
    svg = pictures(make_run(tmp_path / "a"))["return-frames"].svg
    strips = [
        tuple(map(float, found))
        for found in re.findall(r'class="values" x="([\d.]+)" width="([\d.]+)"', svg)
    ]
    ends = [x + width for x, width in strips]
    assert [x for x, _ in strips[1:]] == pytest.approx(ends[:-1], abs=0.2)
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    assert 0 < strips[0][0] < ends[-1] < width
