"""Runs the kits on plugins given as source text, as their authors would."""

from __future__ import annotations

import contextlib
import itertools
import sys
import textwrap
from collections.abc import Callable

# Some imports are unused here: an inner test run unloads the modules that it imports first, and a
# second copy of these would not recognize objects of the first.
import omegaconf  # noqa: F401
import pytest
from made_up_plugins import hidden_variables, plain_environment, site, stub

import rltrain.testing.fake.torch_group  # noqa: F401
import rltrain_torch.backends
import rltrain_torch.gradients  # noqa: F401

with contextlib.suppress(ImportError):  # the fake group's own tests run without jax too
    import jax  # noqa: F401

__all__ = ["hidden_variables", "judge", "plain_environment", "site", "stub"]

_NUMBER = itertools.count()


@pytest.fixture
def judge(pytester, monkeypatch) -> Callable[[str, str], dict[str, str]]:
    """Return a function that installs a plugin and runs a kit on it.

    It takes the source of the plugin's module, which names itself `{__name__}` in import strings,
    and the source of its author's test file; it returns the messages of the failed tests by name.
    """

    def run(plugin: str, tests: str) -> dict[str, str]:
        name = f"judged_{next(_NUMBER)}"
        info = pytester.path / f"{name}-1.0.dist-info"
        info.mkdir()
        (pytester.path / f"{name}.py").write_text(textwrap.dedent(plugin))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[rltrain]\n{name} = {name}\n")
        (pytester.path / f"test_{name}.py").write_text(textwrap.dedent(tests))
        monkeypatch.syspath_prepend(pytester.path)
        monkeypatch.setenv("PYTHONPATH", str(pytester.path), prepend=":")
        outcome = pytester.inline_run(
            f"test_{name}.py", "-p", "no:cacheprovider", "--import-mode=importlib"
        )
        reports = [r for r in outcome.getreports("pytest_runtest_logreport") if r.when == "call"]
        assert reports, "the kit ran no test"
        for module in [m for m in sys.modules if m.startswith(name)]:
            del sys.modules[module]
        return {
            report.nodeid.rpartition("::")[2]: report.longrepr.reprcrash.message
            for report in reports
            if report.failed
        }

    return run
