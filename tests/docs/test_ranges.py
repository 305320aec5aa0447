"""Every range that is declared is tested from end to end: the version sets hold both ends."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
OURS = "rltrain"
USED = ("library", "jax", "completion", "evaluate", "report", "export", "video")
"""The extras of users whose ranges are tested, all but `viewer`."""
ELSEWHERE = {"isaaclab", "mjlab"}
"""What has version sets of its own."""
NOT_OLDEST = {"envpool", "mlflow-skinny"}
"""What does not fit into the oldest set: its own oldest is in the tested set."""


def declared() -> list[Requirement]:
    """Return the ranges of the core's requirements and of the libraries that plugins adapt."""
    found = []
    for path in [ROOT / "pyproject.toml", *sorted(ROOT.glob("src/**/pyproject.toml"))]:
        project = tomllib.loads(path.read_text())["project"]
        found += project["dependencies"]
        for extra in USED:
            found += project.get("optional-dependencies", {}).get(extra, [])
    requirements = {str(each): each for each in map(Requirement, found)}
    return [each for each in requirements.values() if not each.name.startswith(OURS)]


def pinned(name: str) -> dict[str, Version]:
    lines = (ROOT / "constraints" / f"{name}.txt").read_text().splitlines()
    pins = [line.split("==") for line in lines if "==" in line]
    return {canonicalize_name(package): Version(version) for package, version in pins}


REQUIREMENTS = [each for each in declared() if each.name not in ELSEWHERE]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_the_oldest_set_has_the_lowest_version(requirement):
    """Of two ranges of one package, the wider one counts."""
    name = "tested" if requirement.name in NOT_OLDEST else "oldest"
    lowest = min(
        Version(specifier.version)
        for each in REQUIREMENTS
        for specifier in each.specifier
        if each.name == requirement.name and specifier.operator == ">="
    )
    version = pinned(name)[canonicalize_name(requirement.name)]
    assert version.release[: len(lowest.release)] == lowest.release


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
@pytest.mark.parametrize("name", ["tested", "newest"])
def test_other_sets_are_within_the_range(requirement, name):
    assert requirement.specifier.contains(pinned(name)[canonicalize_name(requirement.name)])
