"""A plugin says what users of another program type, and what it is here."""

from __future__ import annotations

import pytest

from rltrain.cli.main import main, read_run
from rltrain.plugins.registry import discover

DIALECT = """
from rltrain.specs import Dialect, refusals
from rltrain.errors import UsageError
from rltrain.hookspecs import hookimpl
from rltrain.specs import CommandSpec, WriterSpec

def translate(words):
    if "--pocket" in words:
        raise UsageError("--pocket: needs a size, as in --pocket=9.")
    return [word.replace("--pocket=", "--num-envs=") for word in words]

class Unfold:
    __doc__ = "Unfold a run."

    def add_arguments(self, parser):
        parser.add_argument("run")

    def run(self, arguments, rest):
        return 0

@hookimpl
def rltrain_provides():
    unfold = CommandSpec(name="unfold", factory=f"{__name__}:Unfold", takes="options")
    return [WriterSpec(name="pocket", factory="x:Y"), unfold]

@hookimpl
def rltrain_dialect():
    return Dialect(
        program="PocketRL",
        commands={"watch": "rltrain play RUN"},
        trains={"learn": ("--max-iterations", "3", "--default-library", "stub")},
        translate=translate,
        refuses=refusals([("fold", "paper only.", "Leave it out.")]),
        refuses_of_policies=refusals([("fold", "it is folded.", "Unfold it.")]),
        train_flags={"--pocket-name": lambda value: [f"--run-name={value}"]},
        ignored={"--lint -l": "not used"},
    )
"""


RUN = "learn --task=Stub-v0 --framework=numpy --grad-sync=plain --backend=stub --dry-run --lint"


@pytest.fixture
def pocket(site, stub):
    site.install("rltrain-pocket", DIALECT, point="pocket")


def test_words_of_another_program_are_translated_and_set_options(pocket):
    words = ["learn", "--pocket=9", "--lint", "a", "--pocket-name", "b"]
    found = read_run(words)
    assert found.pop("agent") == found.pop("env") == {}
    of_pocket = {"num_envs": "9", "run_name": "b"}
    assert found == {**of_pocket, "max_iterations": "3", "library": "stub"}
    assert read_run([*words, "--library", "other"])["library"] == "other"


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (f"{RUN} a", 0, "--lint a: not used"),
        ("--fold 1", 2, "--fold: paper only. Leave it out."),
        ("unfold RUN --fold", 2, "--fold: it is folded. Unfold it."),
        ("--pocket", 2, "--pocket: needs a size, as in --pocket=9."),
        ("watch", 2, "watch: is a command of PocketRL. Type rltrain play RUN."),
    ],
)
def test_what_is_refused_or_changes_nothing_says_so(pocket, capsys, words, status, says):
    assert main(words.split()) == status
    assert capsys.readouterr().err == f"rltrain: {says}\n"


def programs():
    return [each.program for each in discover().dialects()]


def test_it_counts_where_what_the_plugin_adapts_is_not_installed(site, monkeypatch):
    needs = ("no-such-simulator>=2; extra == 'library'",)
    site.install("rltrain-pocket", DIALECT, point="pocket", requires=needs)
    assert "PocketRL" in programs()
    monkeypatch.setenv("RLTRAIN_PLUGINS", "rltrain-stub")
    assert "PocketRL" not in programs()


def test_a_dialect_that_is_none_breaks_its_plugin_alone(site):
    source = DIALECT.replace("return Dialect(", "return dict(")
    site.install("rltrain-pocket", source, point="pocket")
    other = DIALECT.replace("PocketRL", "OtherRL").replace('name="pocket"', 'name="other"')
    site.install("rltrain-other", other, point="other")
    assert "PocketRL" not in programs()
    assert "OtherRL" in programs()
