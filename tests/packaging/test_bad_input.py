"""Whatever a user types or writes into a file: a plan, or one clear message; never a traceback.

Nothing is started: every line has --dry-run. HYPOTHESIS_PROFILE=long tries many more. Files of any
bytes, and the metadata of plugins, are targets of tests/integration/fuzz.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import multiprocessing.process
import os
import re
import subprocess

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rltrain.cli.main import main
from rltrain.config.checks import flag
from rltrain.config.declare import option_of
from rltrain.errors import UsageError
from rltrain.files.dotted import flatten, set_dotted
from rltrain.options.agent import default_options
from rltrain.options.run import RunOptions
from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec, SuiteSpec

REGISTRY = discover()
LIBRARIES = {name: REGISTRY.get(LibrarySpec, name) for name in ("rl_games", "rsl_rl", "skrl")}
SUITE = REGISTRY.get(SuiteSpec, "gymnasium")
TASK = SUITE.describe("rltrain/CartPole-v1", {})

settings.register_profile(
    "suite",
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "long", settings.get_profile("suite"), max_examples=3000, derandomize=False
)
PROFILE = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

ODD_WORDS = [
    *("", " ", "x", "0", "-1", "7", "1.5", "1e999", "inf", "nan", "true", "null", "~", "auto"),
    *("[]", "[1,2]", "[[1],{a: 2}]", "{}", "{a: 1}", "{a: {b: [1]}}", "a=b", "a:b", "a: b", "- a"),
    *("latest", "best", ".", "/", "../x", "a" * 3000, "9" * 5000, "é", "\ud800", "\0", "\n"),
    *("${x}", "${", "???", "&a [*a]", "*a", "---", "<<", "2020-01-01", "4:00:00"),
    "!!python/object/apply:os.system [ls]",
    *("--", "-", "--x", "agent.x=1", "+env.x=1", "relu", "cuda", "cpu", "torch", "PPO", "ppo"),
]
WORDS = st.sampled_from(ODD_WORDS) | st.text(max_size=6)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(ODD_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=4,
)


@pytest.fixture(scope="module", autouse=True)
def empty_folder(tmp_path_factory):
    """Words may name files."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("empty"))
    yield
    os.chdir(before)


def answer(words: list[str]) -> tuple[int, str]:
    """Return the exit status and message of a line that must start nothing."""

    def started(*_, **__):
        raise AssertionError("a process was started")

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("rltrain.placement.backend.preflight", lambda *_, **__: 0)
        patch.setattr("rltrain.run.start.start", started)
        patch.setattr(subprocess, "Popen", started)
        patch.setattr(multiprocessing.process.BaseProcess, "start", started)
        try:
            status = main(words)
        except SystemExit as ended:  # argparse, after --help
            status = ended.code or 0
    err.flush()
    return status, err.buffer.getvalue().decode()


def check(words: list[str], inputs: list[str]) -> None:
    """Check that a line gives a plan, or one message that names one of the inputs."""
    status, message = answer(words)
    assert status in (0, 2), (words, message)
    if status == 2:
        assert message.startswith("rltrain: "), message
        assert len(message) < 2500, message
        # Long words are cut, and what cannot be printed is escaped.
        if "" in inputs:
            return  # An empty word is in every message.
        names = [form.strip("'")[:40].lower() for each in inputs for form in (each, repr(each))]
        assert any(name in message.lower() for name in names if name), (inputs, message)


def words_in(data) -> list[str]:
    if isinstance(data, dict):
        return [word for pair in data.items() for each in pair for word in words_in(each)]
    if isinstance(data, list):
        return [word for each in data for word in words_in(each)]
    return [str(data)]


def keys_of(library: LibrarySpec, algorithm: str) -> list[str]:
    options, _ = default_options(library, SUITE, TASK, algorithm, "torch")
    known = library.schema.keys(options).items()
    leaves = {key for key, _ in flatten(options)}
    leaves |= {f"{section}.{key}".lstrip(".") for section, each in known for key in each.known}
    return sorted({key[:end] for key in leaves for end in (*_ends(key), len(key))})


def _ends(key: str) -> list[int]:
    return [match.start() for match in re.finditer(r"\.", key)]


CHOICES = [(name, algorithm) for name, each in LIBRARIES.items() for algorithm in each.algorithms]
KEYS = {choice: keys_of(LIBRARIES[choice[0]], choice[1]) for choice in CHOICES}


@st.composite
def overrides(draw) -> tuple[list[str], list[str]]:
    library, algorithm = draw(st.sampled_from(CHOICES))
    keys = draw(st.lists(st.sampled_from(KEYS[library, algorithm]), min_size=1, max_size=3))
    words = [f"{draw(st.sampled_from(['', '+']))}agent.{key}={draw(WORDS)}" for key in keys]
    task = draw(st.sampled_from(["rltrain/CartPole-v1", "rltrain/CartPoleContinuous-v1"]))
    start = ["--library", library, "--algorithm", algorithm, "--task", task]
    # A value may make the choice of the library or the task impossible.
    return [*start, "--dry-run", *words], [*keys, "agent.", library, algorithm, task]


@st.composite
def flags(draw) -> tuple[list[str], list[str]]:
    fields = [field for field in dataclasses.fields(RunOptions) if option_of(field).kind != "none"]
    chosen = draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3))
    words, inputs = [], []
    for field in chosen:
        values = draw(st.lists(WORDS, max_size=2))
        words += [flag(field.name), *values]
        inputs += [flag(field.name), *values, *(each.split("=")[0] for each in values)]
    return ["--dry-run", *words], inputs


@pytest.mark.slow
@PROFILE
@given(overrides())
def test_overrides(line):
    check(*line)


@pytest.mark.slow
@PROFILE
@given(st.sampled_from(CHOICES), st.data())
def test_files_of_a_library(tmp_path_factory, choice, data):
    options, _ = default_options(LIBRARIES[choice[0]], SUITE, TASK, choice[1], "torch")
    for key in data.draw(st.lists(st.sampled_from(KEYS[choice]), min_size=1, max_size=3)):
        with contextlib.suppress(UsageError):  # An earlier value is no mapping.
            set_dotted(options, key, data.draw(DATA))
    path = tmp_path_factory.mktemp("file") / "agent.yaml"
    path.write_text(yaml.safe_dump(options))
    words = ["--library", choice[0], "--algorithm", choice[1], "--task", TASK.name]
    check(
        [*words, "--agent-config", str(path), "--dry-run"], [str(path), "agent.", "params.", *words]
    )


@PROFILE
@given(flags())
def test_flags(line):
    check(*line)


@PROFILE
@given(st.lists(WORDS | st.sampled_from(["--task", "--library", "env.x=1", "tasks", "plugins"])))
def test_any_words(words):
    status, message = answer([*words, "--dry-run"])
    assert status in (0, 2), message
    assert len(message) < 2500


@PROFILE
@given(st.dictionaries(st.sampled_from([f.name for f in dataclasses.fields(RunOptions)]), DATA))
def test_config_files(tmp_path_factory, options):
    path = tmp_path_factory.mktemp("file") / "run.yaml"
    path.write_text(yaml.safe_dump(options))
    check(
        ["--config", str(path), "--dry-run"],
        [str(path), *(flag(name).strip("-") for name in options), *words_in(options)],
    )
