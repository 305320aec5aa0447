"""Runs the kits on plugins: on what `rltrain new` writes, right and patched to be wrong."""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
from typing import NamedTuple

# Some imports are unused here: an inner test run unloads the modules that it imports first, and a
# second copy of these would not recognize objects of the first.
import omegaconf  # noqa: F401
import pytest
from made_up_plugins import hidden_variables, plain_environment, site, stub

import rltrain.testing.fake.torch_group  # noqa: F401
import rltrain_torch.backends
import rltrain_torch.gradients
import rltrain_torch.policy  # noqa: F401
from rltrain.testing import FakeWorld
from rltrain_devkit.new import files_of

with contextlib.suppress(ImportError):  # the fake group's own tests run without jax too
    import jax  # noqa: F401

__all__ = ["hidden_variables", "judge", "plain_environment", "site", "stub"]


class Fault(NamedTuple):
    """One wrong line of a plugin: a row of a module's table, by the rule that it breaks."""

    kind: str
    """Of the plugin, where a module's table has several."""
    rule: str
    name: str
    old: str
    """A text of the correct plugin."""
    new: str
    says: str = "RULE: "
    """What the rule's message has."""

    def check(self, failed: dict[str, str]) -> None:
        """Check that the test of the rule has failed, and no other."""
        assert [*failed] == [f"test_{self.rule}"], failed
        assert self.says in failed[f"test_{self.rule}"]


def pytest_generate_tests(metafunc):
    """Give a test each row of its module's table: WRONG for `fault`, WRONG_JAX for `jax_fault`."""
    for name, table in ("fault", "WRONG"), ("jax_fault", "WRONG_JAX"):
        if name in metafunc.fixturenames:
            rules = getattr(metafunc.module, table).items()
            rows = [Fault(*rule.rpartition(" ")[::2], *row) for rule, rows in rules for row in rows]
            metafunc.parametrize(name, rows, ids=[":".join(row[:3]) for row in rows])


_NAMES = ("judged" + "".join(each) for each in itertools.product("abcdefghij", repeat=3))


class Judge:
    """Installs a plugin and runs a kit on it, as its author would."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path, self._run = pytester.path, pytester.inline_run
        self._monkeypatch = monkeypatch

    def __call__(self, kind: str, *patches: tuple[str, str]) -> dict[str, str]:
        """Judge what `rltrain new` writes; return the messages of the failed tests by name.

        Each patch is a text that one of the files has once, and what stands there instead, with
        the plugin's name for `$name`. The template's own tests are run where nothing is patched.
        """
        name = next(_NAMES)
        files = files_of(name, kind)
        for patch in patches:
            old, new = (text.replace("$name", name) for text in patch)
            (file,) = (file for file, text in files.items() if text.count(old) == 1)
            files[file] = files[file].replace(old, new)
        tests = files.pop("tests/test_conformance.py")
        (kit,) = re.findall(r"^class (\w+)", tests, re.M)
        modules = {file: text for file, text in files.items() if file.endswith(".py")}
        selected = f"::{kit}" if patches else ""
        return self._judged(name, f"rltrain_{name}.plugin", modules, tests, selected)

    @staticmethod
    def with_options(method: str) -> list[tuple[str, str]]:
        """Return patches by which a plugin has options, and its class takes them above a method."""
        provides = "@hookimpl\ndef rltrain_provides"
        options = "@dataclass(frozen=True)\nclass Options:\n    by: int = 1\n"
        takes = "    def __init__(self, options):\n        assert options.by == 2\n"
        return [
            (provides, f"from dataclasses import dataclass\n\n\n{options}\n\n{provides}"),
            ("summary=", 'options=f"{__name__}:Options", summary='),
            (method, f"{takes}\n{method}"),
        ]

    def source(self, plugin: str, tests: str, fault: Fault) -> dict[str, str]:
        """Judge a plugin of one module, which names itself `{__name__}` in import strings."""
        name = next(_NAMES)
        assert plugin.count(fault.old) == 1
        plugin = plugin.replace(fault.old, fault.new)
        return self._judged(name, f"rltrain_{name}", {f"rltrain_{name}.py": plugin}, tests)

    def _judged(
        self, name: str, point: str, modules: dict[str, str], tests: str, selected: str = ""
    ) -> dict[str, str]:
        info = f"{name}-1.0.dist-info"
        files = {
            **modules,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{info}/entry_points.txt": f"[rltrain]\n{name} = {point}\n",
            f"test_{name}.py": tests,
        }
        for file, text in files.items():
            path = self._path / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self._monkeypatch.syspath_prepend(self._path)
        self._monkeypatch.setenv("PYTHONPATH", str(self._path), prepend=":")
        words = ("-p", "no:cacheprovider", "--import-mode=importlib")
        outcome = self._run(f"test_{name}.py{selected}", *words)
        reports = [r for r in outcome.getreports("pytest_runtest_logreport") if r.when == "call"]
        assert reports, "the kit ran no test"
        for module in [m for m in sys.modules if m.startswith(f"rltrain_{name}")]:
            del sys.modules[module]
        return {
            report.nodeid.rpartition("::")[2]: report.longrepr.reprcrash.message
            for report in reports
            if report.failed
        }


@pytest.fixture
def judge(pytester, monkeypatch) -> Judge:
    return Judge(pytester, monkeypatch)


@pytest.fixture(scope="session")
def imported(tmp_path_factory):
    """Let a library be imported here: it cannot be in each of the kits' runs anew."""
    logs = str(tmp_path_factory.mktemp("logs"))
    FakeWorld(2).train(library="rl_games", num_envs=8, max_iterations=2, log_root=logs)
