"""The kits of writers and observers: a correct one passes, each wrong one fails its test."""

from __future__ import annotations

import pytest

from rltrain.testing import FakeWorld

WRITER = """
from pathlib import Path
from rltrain import hookimpl
from rltrain.records import RunStarted, Scalars
from rltrain.specs import WriterSpec


@hookimpl
def rltrain_provides():
    return [WriterSpec(name="judged", factory=f"{__name__}:Writer")]


class Writer:
    path = None

    @hookimpl
    def rltrain_write(self, record):
        if isinstance(record, RunStarted):
            self.path = Path(record.run_dir, "numbers.txt")
        if isinstance(record, Scalars):
            self.write([f"{name}={value:.3f}" for name, value in record.values.items()])

    def write(self, lines):
        with self.path.open("a") as file:
            file.write(" ".join(lines))

    @hookimpl
    def rltrain_shutdown(self):
        if self.path is not None:
            self.path.with_suffix(".done").touch()
"""

OF_WRITER = """
from rltrain_devkit import WriterConformance


class TestJudged(WriterConformance):
    writer = "judged"
"""

WRONG_WRITERS = {
    "imports numpy": ("from pathlib import Path", "import numpy", "test_declaring_is_light"),
    "takes no media": (
        "if isinstance(record, Scalars):",
        "if type(record).__name__ == 'Media': 1 / 0\n        if isinstance(record, Scalars):",
        "test_a_whole_run_is_taken",
    ),
    "knows all records": (
        "if isinstance(record, Scalars):",
        "assert 'Later' not in type(record).__name__\n        if isinstance(record, Scalars):",
        "test_an_unknown_record_is_passed_over",
    ),
    "counts": ("{value:.3f}", "{int(value)}", "test_strange_numbers_are_taken"),
    "believes that runs begin": (
        "if self.path is not None:",
        "if True:",
        "test_a_run_that_never_began_is_taken",
    ),
    "writes where it is": (
        'Path(record.run_dir, "numbers.txt")',
        'Path("numbers.txt")',
        "test_files_are_below_the_run_folder",
    ),
}

OBSERVER = """
from rltrain import hookimpl
from rltrain.specs import ObserverSpec


@hookimpl
def rltrain_provides():
    return [ObserverSpec(name="judged", factory=f"{__name__}:Observer")]


class Observer:
    @hookimpl(wrapper=True)
    def rltrain_gradient_sync(self):
        sync = yield
        return lambda gradients: self.count(sync(gradients))

    def count(self, averages):
        self.calls = getattr(self, "calls", 0) + 1
        return averages
"""

OF_OBSERVER = """
from rltrain_devkit import ObserverConformance


class TestJudged(ObserverConformance):
    observer = "judged"
    options = {"library": "rsl_rl"}
"""

WRONG_OBSERVERS = {
    "imports torch": (
        "from rltrain import hookimpl",
        "import torch\nfrom rltrain import hookimpl",
        "test_declaring_is_light",
    ),
    "draws a number": (
        "return averages",
        "import torch; torch.rand(1); return averages",
        "test_it_changes_nothing",
    ),
}


pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory):
    """Let a library be imported here: it cannot be in each of the kits' runs anew."""
    logs = str(tmp_path_factory.mktemp("logs"))
    FakeWorld(2).train(library="rsl_rl", num_envs=8, max_iterations=2, log_root=logs)


def test_a_correct_writer_passes(judge):
    assert judge(WRITER, OF_WRITER) == {}


@pytest.mark.parametrize("fault", WRONG_WRITERS)
def test_a_wrong_writer_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG_WRITERS[fault]
    assert WRITER.count(old) == 1
    source = WRITER.replace(old, new)
    failed = judge(f"from pathlib import Path\n{source}" if "numpy" in new else source, OF_WRITER)
    assert list(failed) == [expected]


def test_a_correct_observer_passes(judge):
    assert judge(OBSERVER, OF_OBSERVER) == {}


@pytest.mark.parametrize("fault", WRONG_OBSERVERS)
def test_a_wrong_observer_fails_the_test_that_names_its_fault(judge, fault):
    old, new, expected = WRONG_OBSERVERS[fault]
    assert OBSERVER.count(old) == 1
    assert list(judge(OBSERVER.replace(old, new), OF_OBSERVER)) == [expected]


OPTIONS = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    by: int = 1


class Observer:
    def __init__(self, options):
        assert options.by == 2

"""


def test_an_observer_is_given_its_options(judge):
    plugin = OBSERVER.replace('Observer")', 'Observer", options=f"{__name__}:Options")')
    tests = OF_OBSERVER.replace('"rsl_rl"}', '"rsl_rl", "judged": {"by": 2}}')
    assert judge(plugin.replace("class Observer:\n", OPTIONS), tests) == {}


def test_an_observer_that_does_not_return_what_it_wraps_fails(judge):
    wrong = OBSERVER.replace("return lambda gradients: self.count(sync(gradients))", "return None")
    assert "test_every_rank_trains_to_the_end" in judge(wrong, OF_OBSERVER)
