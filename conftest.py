"""Fixtures shared by the tests of the core and those in the plugins' folders."""

from __future__ import annotations

import functools
import gc
import hashlib
import os
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest

from rltrain import hookimpl
from rltrain.records import Scalars


def pytest_addoption(parser):
    group = parser.getgroup("rltrain")
    group.addoption(
        "--sample",
        metavar="SEED:SHARE[:FOLDER]",
        help="of the tests marked `sample`, and of those in the folder, run this share, drawn by "
        "the seed",
    )
    group.addoption(
        "--cases",
        metavar="SEED:SHARE",
        help="of the cases of each test, and of the scenarios, run this share, and at least one, "
        "drawn by the seed",
    )
    group.addoption(
        "--per-file",
        metavar="SEED:SHARE",
        help="of the tests of each file, with all their cases that are drawn, run this share, and "
        "at least one, drawn by the seed",
    )
    group.addoption(
        "--complete",
        action="store_true",
        help="nothing may be missing on this machine: a test that skips for a reason that is not "
        "in tests/skips.txt fails",
    )


def pytest_configure(config):
    """Share a jax compilation cache between all processes of a test run; most compile the same."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # Otherwise it is a worker, or CI's.
        folder = tempfile.TemporaryDirectory(prefix="rltrain-compiled-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"
    gc.disable()


@functools.cache
def of_seconds():
    """Return the tests that take 0.3 s or more; see tests/seconds.py."""
    lines = (Path(__file__).parent / "tests" / "seconds.txt").read_text().splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


def pytest_itemcollected(item):
    if item.nodeid.partition("[")[0] in of_seconds():
        item.add_marker("seconds")
    if "[" in item.name and not hasattr(item, "callspec"):  # A kit's rule for a variant.
        item.add_marker("long")


def pytest_collection_finish():
    """Never look for garbage in what the imports of all libraries made: a million objects."""
    gc.freeze()
    gc.enable()


def place(seed, test):
    """Return where in [0, 1) a seed places a test: anywhere alike, whatever else there is."""
    digest = hashlib.sha256(f"{seed} {test}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def drawn(seed, share, tests):
    """Return the drawn ones of some tests, given by their names."""
    return {test for test in tests if place(seed, test) < float(share)}


def drawn_cases(seed, share, cases):
    """Return the drawn ones of some cases, and of each test the first.

    Args:
        seed: any.
        share: in [0, 1].
        cases: the test of each case, by the case's name.
    """
    placed = sorted(cases, key=lambda case: place(seed, case), reverse=True)
    first = {cases[case]: case for case in placed}
    return drawn(seed, share, cases) | set(first.values())


@pytest.hookimpl(trylast=True)  # After `-m`.
def pytest_collection_modifyitems(config, items):
    """Draw the sample, and keep its names for the summary."""
    asked = [config.option.sample, config.option.cases, config.option.per_file]
    alike, chosen = [], set()
    if config.option.sample:
        seed, share, *folder = config.option.sample.split(":")
        inside = tuple(f"{name}/" for name in folder)
        alike = [
            item.nodeid
            for item in items
            if item.get_closest_marker("sample") or item.nodeid.startswith(inside)
        ]
        chosen = drawn(seed, share, alike)
    if config.option.cases:
        cases = {item.nodeid: _test_of(item) for item in items if item.nodeid not in set(alike)}
        cases = {case: test for case, test in cases.items() if test}
        chosen |= drawn_cases(*config.option.cases.split(":"), cases)
        alike += cases
    left = set(alike) - chosen
    if config.option.per_file:
        tests = {item.nodeid: item.nodeid.partition("[")[0] for item in items if _in_files(item)}
        files = {test: test.partition("::")[0] for test in tests.values()}
        kept = drawn_cases(*config.option.per_file.split(":"), files)
        left |= {case for case, test in tests.items() if test not in kept}
        alike += [case for case in tests if case not in set(alike)]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left])
    items[:] = [item for item in items if item.nodeid not in left]
    what = " ".join(filter(None, asked))
    config.stash[SAMPLE] = (what, [name for name in alike if name not in left], len(alike))
    if hasattr(config, "workeroutput"):
        config.workeroutput["sample"] = config.stash[SAMPLE]


def _in_files(item):
    """Return whether an item is one of its file's tests to draw; scenarios are drawn as such."""
    return not item.get_closest_marker("scenario")


def _test_of(item):
    """Return the test of which an item is a case; "" if it is the only one."""
    if item.get_closest_marker("scenario"):
        return "scenario"
    return item.nodeid.partition("[")[0] if "[" in item.name else ""


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the sample from a worker; all draw the same."""
    if sample := getattr(node, "workeroutput", {}).get("sample"):
        node.config.stash[SAMPLE] = sample


def pytest_terminal_summary(terminalreporter, config):
    what, names, count = config.stash.get(SAMPLE, ("", [], 0))
    if count:
        terminalreporter.section(f"sample {what}: {len(names)} of {count} tests")
        terminalreporter.write("".join(f"{name}\n" for name in names))


SAMPLE = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _found_complete(collector, (yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return _left_to_none(_found_complete(item, (yield)))


def _left_to_none(report):
    """Make a failure of a kit's rule that leaves its fault to another's report.

    No plugin here breaks a rule, so that there is no other report: the rule would test nothing.
    """
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if reason.endswith(("another test reports.", "other tests report.")):
            report.outcome, report.longrepr = "failed", f"no test reports it: {reason}"
    return report


def _found_complete(node, report):
    """With `--complete`, make a failure of a test, or file, that skips for an unlisted reason.

    Rules of a kit may be skipped: what they test does not exist.
    """
    if node.config.option.complete and report.skipped and isinstance(report.longrepr, tuple):
        path, _, reason = report.longrepr
        reason = reason.removeprefix("Skipped: ")
        if not (reason.startswith(listed_skips()) or path.endswith("kits/rules.py")):
            report.outcome, report.longrepr = "failed", f"--complete, and {path} says: {reason}"
    return report


@functools.cache
def listed_skips():
    """Return the beginnings of the reasons for which tests may skip everywhere."""
    lines = (Path(__file__).parent / "tests" / "skips.txt").read_text().splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


@pytest.fixture(autouse=True)
def _few_programs(request):
    """Release compiled programs: each jax program holds dozens of memory maps.

    Most Linux systems allow 65,530 of them per process, and LLVM ends the process silently when
    it gets no more: one file of tests that compile is enough for that.
    """
    yield
    if "jax" not in sys.modules or not request.node.get_closest_marker("long"):
        return
    with open("/proc/self/maps") as maps:
        crowded = sum(1 for _ in maps) > MANY_MAPS
    if crowded:
        sys.modules["jax"].clear_caches()
        gc.collect()


@pytest.fixture(autouse=True)
def _own_variables():
    """Undo what a test, or a library that it calls, sets: the next one may be taken for a rank."""
    with patch.dict(os.environ):
        yield


@pytest.fixture(autouse=True)
def _one_thread():
    """Limit torch to one thread: on tensors this small, more threads only wait."""
    torch = sys.modules.get("torch")
    if torch is None:  # Not every test needs it.
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


MANY_MAPS = 20_000


class LocalGradients:
    """An observer that keeps the inputs of a rank's gradient sync, as `given`."""

    def __init__(self) -> None:
        self.given: list = []

    @hookimpl(wrapper=True)
    def rltrain_gradient_sync(self):
        import torch

        sync = yield

        def observed(gradients):
            self.given.append(torch.cat([gradient.reshape(-1) for gradient in gradients]))
            return sync(gradients)

        return observed


@pytest.fixture
def local_gradients():
    """The class of an observer that keeps the inputs of a rank's gradient sync, as `given`."""
    return LocalGradients


class KeptScalars:
    """An observer that keeps what rank 0 records, by iteration, as `values`."""

    def __init__(self) -> None:
        self.values: list[dict] = []

    @hookimpl
    def rltrain_write(self, record):
        if isinstance(record, Scalars):
            self.values.append(record.values)


@pytest.fixture
def scalars():
    """The class of an observer that keeps what rank 0 records, by iteration, as `values`."""
    return KeptScalars
