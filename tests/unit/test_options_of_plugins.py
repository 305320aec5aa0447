"""Options of plugins: NAME.key=value is checked in the plan and reaches the plugin."""

from __future__ import annotations

import dataclasses
import re
import sys
import types
from pathlib import Path

import pytest
from helpers import refusal
from messages import check_said, says

from rltrain.cli.main import main
from rltrain.cli.train import separate
from rltrain.errors import PluginError, UsageError
from rltrain.options import RunOptions
from rltrain.plugins.manager import RunPlugins
from rltrain.plugins.options import check_options, describe_options, make_options
from rltrain.specs import ObserverSpec, WriterSpec


@dataclasses.dataclass(frozen=True)
class CsvOptions:
    """Options of a writer."""

    flush: int = 1
    """Rows between two flushes."""
    name: str = "metrics.csv"
    """Name of the file."""
    columns: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self):
        if self.flush < 1:
            raise ValueError(f"flush={self.flush} must be at least 1.")


class CsvWriter:
    def __init__(self, options):
        self.options = options

    def rltrain_write(self, record): ...


@pytest.fixture(autouse=True)
def module(monkeypatch):
    from rltrain import hookimpl

    module = types.ModuleType("csv_of_a_test")
    module.Options, module.Writer = CsvOptions, CsvWriter
    CsvWriter.rltrain_write = hookimpl(CsvWriter.rltrain_write)
    module.Needs = dataclasses.make_dataclass("Needs", [("path", str)])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


CSV = WriterSpec(name="csv", factory="csv_of_a_test:Writer", options="csv_of_a_test:Options")
PLAIN = ObserverSpec(name="plain", factory="csv_of_a_test:Writer")


DOCS = Path(__file__).parents[2] / "docs"
DECLARED = [
    (page.name, block)
    for page in DOCS.glob("*.md")
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    if "@dataclass(frozen=True)\nclass " in block
]


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize(("page", "source"), DECLARED)
def test_the_options_of_the_pages_work(module, page, source, future):
    exec(compile(future + source, page, "exec", dont_inherit=True), module.__dict__)
    (cls,) = re.findall(r"^class (\w+):", source, re.M)
    spec = dataclasses.replace(CSV, options=f"{module.__name__}:{cls}")
    options = {each.key.removeprefix("csv."): each for each in describe_options(spec)}
    values = {name: "x" for name, each in options.items() if each.type == "str | None"}
    made = make_options(spec, {"csv": values})
    assert dataclasses.asdict(made) == {n: each.default for n, each in options.items()} | values
    assert {page for page, _ in DECLARED} == {"plugin-by-hand.md", "trust.md"}
    assert any("str | None" in source for _, source in DECLARED)


def test_what_post_init_raises_names_the_options(module):
    def fails(self):
        raise KeyError("token")

    module.Fails = dataclasses.make_dataclass("Fails", [], namespace={"__post_init__": fails})
    spec = dataclasses.replace(CSV, options="csv_of_a_test:Fails")
    with says(PluginError):
        make_options(spec, {})


def test_the_plugin_is_made_with_its_options_and_missing_ones_keep_their_defaults():
    assert make_options(CSV, {}) == CsvOptions()
    given = {"csv": {"flush": "10", "columns": ["a"]}, "other": {"flush": 3}}
    assert make_options(CSV, given) == CsvOptions(flush=10, columns=["a"])
    writer = RunPlugins().choose(CSV, {"csv": {"flush": 5}})
    assert writer.options == CsvOptions(flush=5)


@pytest.mark.parametrize(
    "given",
    [
        {"csv": {"flash": 1}},
        {"csv": {"flush": "often"}},
        {"csv": {"flush": 0}},
        {"plain": {"x": 1}},
        {"cvs": {"flush": 1}},
    ],
)
def test_wrong_options_are_named(given):
    check_said(refusal(check_options, [CSV, PLAIN], given))


def test_a_dataclass_needs_a_default_for_each_field():
    spec = dataclasses.replace(CSV, options="csv_of_a_test:Needs")
    with says(PluginError):
        make_options(spec, {})
    with says(PluginError):
        make_options(dataclasses.replace(CSV, options="csv_of_a_test:Writer"), {})
    with pytest.raises(AttributeError, match="has no attribute 'Gone'"):
        make_options(dataclasses.replace(CSV, options="csv_of_a_test:Gone"), {})


def test_options_are_listed_with_default_and_help():
    flush, name, columns = describe_options(CSV)
    assert (flush.key, flush.type, flush.default) == ("csv.flush", "int", 1)
    assert flush.help == "Rows between two flushes."
    assert (name.default, columns.default, columns.help) == ("metrics.csv", [], "")
    assert describe_options(PLAIN) == []


@pytest.mark.parametrize(
    "options",
    [
        {"csv": {"flush": 10}},
        {"csv.flush": 10},
        {"plugins": {"csv": {"flush": 10}}},
        {"plugins": {"csv": {"flush": 3}}, "csv.flush": 10},
    ],
)
def test_a_section_in_a_file_or_in_python_sets_a_plugins_options(options):
    assert RunOptions.from_mapping(options).plugins == {"csv": {"flush": 10}}
    # A flag's value may look like an override.
    words = ["--run-name", "lr.a=3", "--gpu-ids", "0", "1", "csv.flush=10", "--config=a.b=c"]
    assert separate(words) == ([*words[:5], words[6]], ["csv.flush=10"])


def test_the_command_line_wins_over_the_file(tmp_path, monkeypatch):
    import rltrain.plan.resolve
    import rltrain.run.start

    config = tmp_path / "run.yaml"
    config.write_text("tensorboard:\n  flush: 2\nseed: 3\n")
    seen = []

    def plan(options):
        seen.append(RunOptions.from_mapping(options).plugins)
        raise UsageError("seen")

    monkeypatch.setattr(rltrain.plan.resolve, "make_plan", plan)
    assert main(["--config", str(config)]) == 2
    assert main(["--config", str(config), "tensorboard.flush=7"]) == 2
    assert main(["+tensorboard.flush=7"]) == 2  # Refused before.
    assert seen == [{"tensorboard": {"flush": 2}}, {"tensorboard": {"flush": 7}}]
