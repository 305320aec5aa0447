"""What pages say of versions and algorithms is what projects, version sets and plugins declare."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec

ROOT = Path(__file__).parents[2]
VERSIONS = (ROOT / "docs" / "versions.md").read_text()
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
PACKAGES = {"rl_games": "rl-games", "rsl_rl": "rsl-rl-lib"}
"""Of libraries whose package has another name."""
LIBRARIES = ("rl_games", "rsl_rl", "skrl")
USED = ("library", "jax", "completion", "evaluate", "report", "export", "video")
"""The extras of users whose ranges are tested, all but `viewer`."""
ELSEWHERE = {"isaaclab", "mjlab"}
"""What has version sets of its own."""
NOT_OLDEST = {"envpool", "mlflow-skinny"}
"""What does not fit into the oldest set: its own oldest is in the tested set."""


def rows(page, head):
    """Return the rows of the table with a head, as lists of cells."""
    _, table = page.split(f"| {head} |", 1)
    lines = table.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def pythons():
    return dict(re.findall(r"^python-(\S+) := (\S+)$", MAKEFILE, re.MULTILINE))


def pinned(name):
    lines = (ROOT / "constraints" / f"{name}.txt").read_text().splitlines()
    pins = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(package): version for package, version in pins}


def declared():
    found = []
    for path in [ROOT / "pyproject.toml", *sorted(ROOT.glob("src/**/pyproject.toml"))]:
        project = tomllib.loads(path.read_text())["project"]
        found += project["dependencies"]
        for extra in USED:
            found += project.get("optional-dependencies", {}).get(extra, [])
    requirements = {str(each): each for each in map(Requirement, found)}
    return [each for each in requirements.values() if not each.name.startswith("rltrain")]


def ranges(package):
    return {frozenset(map(str, each.specifier)) for each in declared() if each.name == package}


REQUIREMENTS = [each for each in declared() if each.name not in ELSEWHERE]


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=str)
def test_version_sets_hold_both_ends_of_every_range(requirement):
    """Of two ranges of one package, the wider one counts."""
    package = canonicalize_name(requirement.name)
    lowest = min(
        Version(specifier.version)
        for each in REQUIREMENTS
        for specifier in each.specifier
        if each.name == requirement.name and specifier.operator == ">="
    )
    oldest = pinned("tested" if requirement.name in NOT_OLDEST else "oldest")[package]
    assert Version(oldest).release[: len(lowest.release)] == lowest.release
    for name in ("tested", "newest"):
        assert requirement.specifier.contains(pinned(name)[package]), name


@pytest.mark.parametrize(
    "row", rows(VERSIONS, "what | range | oldest tested | newest tested"), ids=lambda row: row[0]
)
def test_ranges_and_their_ends_are_those_that_are_tested(row):
    name, said, *ends = row
    if name == "Python":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert said == project["requires-python"]
        assert ends == [pythons()["oldest"], pythons()["newest"]]
        return
    package = PACKAGES.get(name, name)
    assert frozenset(said.split(",")) in ranges(package)
    assert ends == [pinned(end)[package] for end in ("oldest", "newest")]


def test_the_sets_are_those_of_the_makefile():
    known = pythons() | dict.fromkeys(("tested", "core"), "`PYTHON`, 3.11")
    shown = {
        name: python
        for names, python, *_ in rows(VERSIONS, "set | Python | what it is | what runs in it")
        for name in re.findall(r"`([\w.-]+)`", names)
    }
    assert shown == known
    (usual,) = re.findall(r"^PYTHON \?= python(\S+)$", MAKEFILE, re.MULTILINE)
    assert usual == "3.11"


def test_the_pins_of_others_are_those_of_their_sets():
    said = re.findall(r"takes (?:rsl_rl )?([\d.]+\d)", VERSIONS)
    assert said == [pinned(name)["rsl-rl-lib"] for name in ("isaaclab-3", "mjlab")]


@pytest.mark.parametrize(
    "row", rows(README, "library | algorithms | actions | gloo (CPU) | nccl (CUDA) | jax")
)
def test_the_readme_has_what_libraries_declare(row):
    (name, said), algorithms, _, gloo, _, jax = row[0].split(), *row[1:]
    spec = discover().get(LibrarySpec, name)
    assert frozenset(said.split(",")) in ranges(PACKAGES.get(name, name))
    words = set(re.findall(r"\w+", algorithms.lower()))
    assert words >= set(spec.algorithms)
    of_others = {each for other in LIBRARIES for each in known_algorithms(other)}
    assert words & of_others == set(spec.algorithms)
    assert gloo == "tested"
    assert jax.startswith("tested" if "jax" in spec.frameworks else "refused:")


def known_algorithms(name):
    return discover().get(LibrarySpec, name).algorithms


def test_the_readme_has_every_library():
    named = [
        row[0].split()[0] for row in rows(README, "library | algorithms | actions | gloo (CPU)")
    ]
    assert sorted(named) == sorted(LIBRARIES)
