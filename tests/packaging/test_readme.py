"""The README and the docs are correct: flags and pages exist, and examples work."""

from __future__ import annotations

import re
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from helpers import run

from rltrain.builtin.plugin import COMMANDS
from rltrain.cli import dialects
from rltrain.cli.parser import load, make_parser
from rltrain.plugins.registry import discover
from rltrain.specs import CommandSpec

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
PLUGINS = sorted(path.parent for path in ROOT.glob("src/**/pyproject.toml"))
README = PAGES[0].read_text()
BY_HAND = (ROOT / "docs" / "plugin-by-hand.md").read_text()
TRAINING = (ROOT / "docs" / "training.md").read_text()
OF_OTHERS = """
--ranks --ntasks-per-node --signal --constraint --resolution --strict --version --seeds
--rounds --random --iterations --node-latency --node-bandwidth --between-latency
--between-bandwidth --busy --help-all --no-deps --wheel-dir --upgrade --ways --on-cpu --seconds
--array --wrap --tiny --train --from --of --tests --rdzv-backend --rdzv-endpoint --rdzv-id
"""
"""Flags of torchrun, srun, pip, uv, mypy and benchmarks, and what is no field of a run."""


def blocks(language, page):
    found = re.findall(rf"^ *```{language}\n.*?^ *```", page, re.DOTALL | re.MULTILINE)
    lines = [textwrap.dedent(block).splitlines(keepends=True) for block in found]
    return ["".join(block[1:-1]) for block in lines]


@pytest.mark.parametrize(
    "page", [*PAGES, *(folder / "README.md" for folder in PLUGINS)], ids=lambda page: page.name
)
def test_every_flag_that_a_page_names_exists(page):
    known, commands = set(), (*COMMANDS, *discover().all(CommandSpec))
    for spec in commands:
        parser = make_parser(load(spec), spec.name)
        known |= {option for action in parser._actions for option in action.option_strings}
    known |= {flag for each in discover().dialects() for flag in each.train_flags}
    if page.name == "coming-from.md":
        known |= {
            *(flag for spec in commands for flag in dialects.refused(spec)),
            *(flag for each in discover().dialects() for flag in each.flags),
            *(flag for each in discover().dialects() for x in each.ignored for flag in x.split()),
            *("--env", "--checkpoint-file", "--motion-file"),
        }  # --env.scene.num-envs, as mjlab writes it.
    named = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", page.read_text()))
    # Flags take dashes or underscores.
    assert {name.replace("_", "-") for name in named} - known - {*OF_OTHERS.split()} == set()


def test_every_page_that_is_linked_exists():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), (page, target)


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_each_distribution_says_what_it_is_and_what_it_adapts(folder):
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    text = (folder / project["readme"]).read_text()
    assert text.startswith(f"# {folder.name}\n")
    assert "In rltrain's documentation:" in text
    is_plugin = "entry-points" in project  # And not what plugins share.
    adapts = is_plugin and folder.parent.name in ("libraries", "frameworks", "suites")
    assert ("Adapts" in project.get("urls", {})) >= adapts


def test_each_example_says_who_copies_it():
    page = (ROOT / "docs" / "publish-a-plugin.md").read_text()
    for folder in sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml")):
        assert f"| [`{folder.name}`](../examples/{folder.name}) |" in page
        assert "Copy it if" in (folder / "README.md").read_text(), folder


def test_the_readme_is_one_page():
    assert len(README.splitlines()) <= 120


def test_the_plugin_of_the_readme_is_the_one_that_is_made_by_hand():
    (declared,) = [block for block in blocks("python", README) if "hookimpl" in block]
    assert f"# my_writer/plugin.py\n{declared}" in blocks("python", BY_HAND)


@pytest.mark.slow
def test_the_five_steps_give_a_plugin_that_works(tmp_path):
    package = tmp_path / "my_writer"
    package.mkdir()
    (package / "__init__.py").touch()
    for block in blocks("python", BY_HAND):
        name = re.match(r"# my_writer/(\w+\.py)", block)
        if name:
            (package / name[1]).write_text(block)
    (published,) = [tomllib.loads(block) for block in blocks("toml", BY_HAND)]
    entry_points = published["project"]["entry-points"]["rltrain"]
    info = tmp_path / "rltrain_my_writer-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {published['project']['name']}\nVersion: 0.1\n"
    )
    (info / "entry_points.txt").write_text(
        "[rltrain]\n" + "\n".join(f"{name} = {value}" for name, value in entry_points.items())
    )
    words = ("--writer", "console", "csv", "--num-envs", "16", "--max-iterations", "3")
    module = (sys.executable, "-m", "rltrain")
    run(*module, *words, cwd=tmp_path, timeout=120, PYTHONPATH=str(tmp_path))
    (written,) = tmp_path.rglob("progress.csv")
    rows = [line.split(",") for line in written.read_text().splitlines()]
    assert [int(row[0]) for row in rows] == [512, 1024, 1536]


@pytest.mark.slow
def test_python_examples_run(tmp_path):
    shown = [block for page in (README, TRAINING, BY_HAND) for block in blocks("python", page)]
    examples = dict.fromkeys(block for block in shown if not block.startswith("# my_writer"))
    assert len(examples) == 5
    for number, example in enumerate(examples):
        script = tmp_path / f"example_{number}.py"
        script.write_text(example)
        run(sys.executable, script, cwd=tmp_path, timeout=200)
