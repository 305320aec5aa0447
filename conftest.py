"""Fixtures shared by the tests of the core and those in the plugins' folders."""

from __future__ import annotations

import functools
import gc
import os
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest

from rltrain import hookimpl
from rltrain.records import Scalars

TURN = os.environ.get("RLTRAIN_TEST_TURN")
"""In CI, the number of commits so far: it runs the slow tests in turns. Elsewhere all run."""

COMPLETE = "RLTRAIN_TEST_COMPLETE" in os.environ
"""In CI, nothing may be missing: a test that skips for a reason not in tests/skips.txt fails."""

TURNS = 10
"""Each slow test runs every this many commits, unless its mark says another number."""


def pytest_configure(config):
    """Share a jax compilation cache between all processes of a test run; most compile the same."""
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # Otherwise it is a worker, or CI's.
        folder = tempfile.TemporaryDirectory(prefix="rltrain-compiled-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"
    gc.disable()


def pytest_itemcollected(item):
    if "[" in item.name and not hasattr(item, "callspec"):  # A kit's rule for a variant.
        item.add_marker("slow")


def pytest_collection_finish():
    """Never look for garbage in what the imports of all libraries made: a million objects."""
    gc.freeze()
    gc.enable()


def commits_ago(test, turns, turn):
    """Return how many commits ago a test ran that runs every `turns` commits; 0 is now."""
    return (turn - zlib.crc32(test.encode())) % turns


@pytest.hookimpl(trylast=True)  # After `-m`.
def pytest_collection_modifyitems(config, items):
    """Leave out the slow tests whose turn it is not, and count them for the summary."""
    if TURN is None:
        return
    ago = {}
    for item in items:
        if mark := item.get_closest_marker("slow"):
            ago[item] = commits_ago(item.nodeid, mark.kwargs.get("turns", TURNS), int(TURN))
    config.stash[LEFT_OUT] = counts = dict(sorted(Counter(ago.values()).items()))
    config.hook.pytest_deselected(items=[item for item in items if ago.get(item)])
    items[:] = [item for item in items if not ago.get(item)]
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = list(counts.items())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the counts from a worker; all leave out the same."""
    if counts := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[LEFT_OUT] = dict(counts)


def pytest_terminal_summary(terminalreporter, config):
    for ago, count in config.stash.get(LEFT_OUT, {}).items():
        terminalreporter.write_line(
            f"{count:6} slow tests ran in this turn"
            if ago == 0
            else f"{count:6} slow tests were left out: last run {ago} commit{'s'[: ago > 1]} ago"
        )


def pytest_sessionfinish(session):
    """Where nothing may be missing, tests of which each was skipped have tested nothing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if COMPLETE and reporter and reporter.stats.get("skipped") and not reporter.stats.get("passed"):
        session.exitstatus = 1


LEFT_OUT = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """After a test, compare the messages that it met with those that are kept for it."""
    if (messages := sys.modules.get("messages")) is None:
        return (yield)
    messages.said.clear()
    returned = yield
    folders = item.funcargs.get("tmp_path_factory")
    messages.check_messages(item.nodeid, folders and folders.getbasetemp())
    return returned


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _found_complete((yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _left_to_none(_found_complete((yield)))


def _left_to_none(report):
    """Make a failure of a kit's rule that leaves its fault to another's report.

    No plugin here breaks a rule, so that there is no other report: the rule would test nothing.
    """
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if reason.endswith(("another test reports.", "other tests report.")):
            report.outcome, report.longrepr = "failed", f"no test reports it: {reason}"
    return report


def _found_complete(report):
    """Where nothing may be missing, make a failure of a test, or file, that skips all the same.

    Rules of a kit may be skipped: what they test does not exist.
    """
    if COMPLETE and report.skipped and isinstance(report.longrepr, tuple):
        path, _, reason = report.longrepr
        reason = reason.removeprefix("Skipped: ")
        if not (reason.startswith(listed_skips()) or path.endswith("kits/rules.py")):
            report.outcome, report.longrepr = (
                "failed",
                f"nothing may be missing, and {path} says: {reason}",
            )
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
    if "jax" not in sys.modules or not request.node.get_closest_marker("slow"):
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
    return KeptScalars
