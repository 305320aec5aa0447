"""A run folder is data, whoever wrote it: what it says is taken only if it can do no harm.

Each option of each installed plugin, and of the run, is planted with hostile values, and read by
all that reads run folders. A new option is covered by itself: unless it is in `TEXTS`, no text is
ever taken for it.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing

import pytest
import yaml
from made_up_runs import begun_run
from messages import check_said, says

from rltrain.cli.train import read_options
from rltrain.config.checks import flag
from rltrain.config.options import Unset
from rltrain.errors import UsageError
from rltrain.files.dotted import set_dotted, texts
from rltrain.options.run import RunOptions
from rltrain.plan.files import with_options_of_run
from rltrain.plan.resolve import make_plan
from rltrain.plugins.options import dataclass_of
from rltrain.plugins.registry import discover
from rltrain.policies.trained import find_trained, plan_policy
from rltrain.storage.run_options import is_word

HOSTILE = {
    "a command": "touch planted",
    "a program": "/bin/sh -c 'touch planted'",
    "a path": "/etc/passwd",
    "a path outside": "../../outside",
    "a module": "os:system",
    "a dotted name": "planted.module.Class",
    "code": "__import__('os').system('touch planted')",
    "a url": "http://collector.example:8080/x",
    "an interpolation": "${oc.env:HOME}",
    "two lines": "name\n#SBATCH --wrap=sh",
    "an escape sequence": "\x1b]0;planted\x07",
}

UNPRINTABLE = ("two lines", "an escape sequence")

TEXTS = {
    *("library", "algorithm", "suite", "framework", "checkpoint_interval"),
    *("nproc_per_node", "hang_timeout"),
    *("gpu_ids", "device", "backend", "launcher", "cluster", "grad_sync", "nnodes"),
    *("on_nonfinite", "run_name", "show_ranks", "writers"),
    *("observers", "no_plugins"),
    *("slurm.time", "slurm.partition", "slurm.account", "slurm.qos", "slurm.mem"),
    *("wandb.project", "wandb.entity", "wandb.group", "wandb.name", "wandb.tags", "wandb.mode"),
    *("wandb.checkpoints", "mlflow.experiment", "mlflow.run_name", "mlflow.tags"),
    "mlflow.checkpoints",
}
"""Options that take a label or a word, which is only compared, shown or recorded."""

NOT_OF_A_FOLDER = ("trust", "auto_resume", "cluster", "log_root")
"""Options that are never those of a run folder, without a word: it says nothing of them."""


def is_number(hint):
    """Whether no text fits a type: then a wrong one is refused where types are checked."""
    parts = typing.get_args(hint)
    plain = (bool, int, float, type(None), Unset)  # None until the plan has chosen.
    return all(is_number(part) for part in parts if part is not ...) if parts else hint in plain


def options_of_plugins():
    specs = [spec for record in discover().records for spec in record.specs if spec.options]
    for spec in specs:
        cls = dataclass_of(spec)
        for name, hint in typing.get_type_hints(cls).items():
            yield f"{spec.name}.{name}", hint


def options_of_the_run():
    hints = typing.get_type_hints(RunOptions)
    apart = {"task", "checkpoint", "agent", "env", "plugins", "resume", "agent_config"}
    return [(name, hints[name]) for name in hints if name not in apart]


ALL = [*options_of_the_run(), *options_of_plugins()]


@pytest.fixture
def begun(stub, tmp_path):
    """A run folder with a checkpoint; `plant` changes what its files say."""
    return begun_run(1, **stub.OPTIONS, log_root=str(tmp_path / "logs"))


def plant(run, key, value, file="config.yaml"):
    options = yaml.safe_load((run / file).read_text())
    if "." in key and file == "config.yaml":
        section, _, name = key.partition(".")
        options.setdefault(section, {})[name] = value
    else:
        set_dotted(options, key, value)
    (run / file).write_text(yaml.safe_dump(options))


def resumed(**given):
    """The options of a run that goes on with another one, and what is told of them."""
    told = []
    return with_options_of_run(given, told.append)[0], told


def readers(run):
    """All that reads the options of a run folder: --resume; play, evaluate, export; --config."""
    return {
        "resume": lambda given: with_options_of_run({"resume": str(run), **given})[0],
        "policy": lambda given: dict(find_trained(str(run), None, given).options),
        "config": lambda given: read_options({"config": str(run / "config.yaml"), **given}, []),
    }


def values(options):
    return {text for key, value in options.items() for _, text in texts({key: value})}


def shapes(value, hint):
    """A value as it is, and in a list or a mapping where the option takes one."""
    yield value
    if "list" in str(hint) or "tuple" in str(hint):
        yield [value]
        yield ["fine", value]


@pytest.mark.slow
@pytest.mark.parametrize(("key", "hint"), ALL, ids=[key for key, _ in ALL])
def test_no_option_takes_a_hostile_value(begun, capsys, key, hint):
    tried = 0
    before = (begun / "config.yaml").read_text()
    for (what, value), (which, read) in itertools.product(HOSTILE.items(), readers(begun).items()):
        for planted in shapes(value, hint):
            (begun / "config.yaml").write_text(before)
            plant(begun, key, planted)
            tried += 1
            if what == "an interpolation":
                with pytest.raises(UsageError, match=r"\$\{oc.env:HOME\}.*add --trust"):
                    read({})
                continue
            capsys.readouterr()
            found = read({})
            told = capsys.readouterr().err.splitlines()
            may = (key in TEXTS and what not in UNPRINTABLE) or is_number(hint)
            assert may or value not in values(found)
            if value not in values(found) and which != "policy" and key not in NOT_OF_A_FOLDER:
                (line,) = told
                assert (key if "." in key else flag(key)) in line
                assert line.isprintable()
    assert tried >= 3 * len(HOSTILE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("plugins", {"mpi": {"mpiexec": "sh planted"}}),
        ("mpi.mpiexec", "sh planted"),
        ("master-addr", "planted"),
        ("mpi", {"mpiexec": ["sh planted"]}),
        ("unknown", {"command": "sh planted"}),
    ],
)
def test_no_other_spelling_is_taken_either(begun, key, value):
    options = yaml.safe_load((begun / "config.yaml").read_text())
    (begun / "config.yaml").write_text(yaml.safe_dump({**options, key: value}))
    for read in readers(begun).values():
        assert not any("planted" in text for text in values(read({})))
    (line,) = resumed(resume=str(begun))[1]
    assert "planted" in line


def test_what_the_user_gives_is_not_missed_and_with_trust_everything_is_taken(begun, monkeypatch):
    plant(begun, "master_addr", "planted.example")
    plant(begun, "mpi.mpiexec", "sh planted")
    given = {"master_addr": "mine", "mpi.mpiexec": "mpiexec", "resume": str(begun)}
    found, told = resumed(**given)
    assert told == []
    assert (found["master_addr"], found["mpi.mpiexec"]) == ("mine", "mpiexec")
    monkeypatch.setenv("PLANTED", "from the environment")
    plant(begun, "mpi.mpiexec", "sh ${oc.env:PLANTED}")
    found, told = resumed(resume=str(begun), trust=True)
    assert told == []
    assert (found["master_addr"], found["trust"]) == ("planted.example", True)
    assert found["mpi.mpiexec"] == "sh from the environment"
    assert find_trained(str(begun), None, {"trust": True}).options["trust"]


@pytest.mark.parametrize("trusted", [False, True])
def test_what_was_hidden_in_a_value_must_be_given_again(begun, trusted):
    """A resumed run would send the word that stands for a secret."""
    plant(begun, "wandb.entity", "me:(hidden)")
    found, told = resumed(resume=str(begun), trust=trusted)
    assert "wandb.entity" not in found
    check_said("".join(told))


def test_the_plan_says_what_it_does_not_take_and_why(begun, capsys):
    plant(begun, "master_addr", "planted.example")
    plant(begun, "run_name", "a\x1b[31m")
    make_plan({"resume": str(begun)}, {})
    check_said(capsys.readouterr().err)


@pytest.mark.parametrize("task", ["planted_module:Task-v0", "planted.module:Task-v0"])
def test_a_task_that_imports_a_module_must_be_typed(begun, task):
    plant(begun, "task", task)
    for read in readers(begun).values():
        with says(UsageError):
            read({})
    assert with_options_of_run({"resume": str(begun), "task": "Stub-v0"})[0]["task"] == "Stub-v0"


def test_trust_is_of_the_user_alone_and_the_options_of_the_library_the_folders_own(begun, tmp_path):
    (tmp_path / "other.yaml").write_text("planted: true\n")
    plant(begun, "trust", True)
    plant(begun, "agent_config", str(tmp_path / "other.yaml"))
    for read in readers(begun).values():
        found = RunOptions.from_mapping(read({}))
        assert (found.trust, found.agent_config) == (False, str(begun / "agent.yaml"))


@pytest.mark.parametrize("value", HOSTILE.values())
@pytest.mark.parametrize("section", ["env", "agent"])
def test_options_of_the_task_are_refused(begun, section, value):
    plant(begun, f"{section}.name", value)
    for which, read in readers(begun).items():
        if section == "agent" and which == "policy":
            continue  # play and the like read only agent.yaml.
        with says(UsageError) as caught:
            read({})
        assert "name" in str(caught.value)
        assert str(caught.value).isprintable()
        if "${" not in value and which != "config":  # There they are words.
            assert read({section: {"name": "mine"}})[section]["name"] == "mine"


@pytest.mark.parametrize("name", ["config.yaml", "agent.yaml"])
def test_a_file_that_is_a_link_out_of_the_folder_is_not_read(begun, tmp_path, name):
    outside = tmp_path / name
    (begun / name).rename(outside)
    (begun / name).symlink_to(outside)
    way = {"resume": str(begun)}
    assert make_plan({**way, "trust": True}, {}).config.task == "Stub-v0"
    with says(UsageError):
        make_plan(way, {})
    with says(UsageError):
        plan_policy(find_trained(str(begun), None, {}))


def test_checkpoints_outside_of_the_folder_are_passed_over(begun, tmp_path, capsys):
    (begun / "checkpoints").rename(tmp_path / "elsewhere")
    (begun / "checkpoints").symlink_to(tmp_path / "elsewhere")
    with says(UsageError):
        make_plan({"resume": str(begun)}, {})
    check_said(capsys.readouterr().err)
    with says(UsageError):
        find_trained(str(begun), None, {})
    assert find_trained(str(begun), None, {"trust": True}).checkpoint.path.name == "1.txt"


@pytest.mark.parametrize("name", ["../agent.yaml", "/etc/passwd", "../../../../x", "."])
def test_the_index_names_files_beside_it_only(begun, name):
    (begun / "checkpoints.json").write_text(
        f'[{{"name": "{name}", "iteration": 1, "episode_return": null}}]'
    )
    # The index is damaged, then: the files beside it count.
    own = begun / "checkpoints" / "1.txt"
    assert make_plan({"resume": str(begun)}, {}).config.checkpoint == str(own)
    assert find_trained(str(begun), None, {}).checkpoint.path == own


UNDECLARED = """
from dataclasses import dataclass, field
from typing import Literal
from rltrain import hookimpl
from rltrain.options import naming
from rltrain.specs import WriterSpec

@dataclass(frozen=True)
class Options:
    undeclared: str = ""
    many: list[str] = field(default_factory=list)
    table: dict[str, str] = field(default_factory=dict)
    label: str = field(default="", metadata=naming("text"))
    number: int = 0
    either: float | None = None

@hookimpl
def rltrain_provides():
    return [WriterSpec(name="theirs", factory="x:X", options=f"{__name__}:Options")]
"""


def test_a_third_partys_option_is_taken_only_if_it_is_declared(site, begun):
    site.install("rltrain-theirs", UNDECLARED, point="theirs")
    planted = {"undeclared": "x", "many": ["x"], "table": {"x": "y"}, "label": "x"}
    for name, value in {**planted, "number": 3, "either": 0.5}.items():
        plant(begun, f"theirs.{name}", value)
    found, (line,) = resumed(resume=str(begun))
    taken = {key: value for key, value in found.items() if key.startswith("theirs.")}
    assert taken == {"theirs.label": "x", "theirs.number": 3, "theirs.either": 0.5}
    assert all(f"theirs.{name}" in line for name in ("undeclared", "many", "table"))


@pytest.mark.parametrize("order", [("Options", "Strict"), ("Strict", "Options")])
def test_of_two_plugins_of_a_name_the_stricter_one_counts(site, begun, order):
    strict = "\n@dataclass(frozen=True)\nclass Strict:\n    label: str = ''\n\n@hookimpl"
    provided = ", ".join(
        f"{kind}(name='theirs', factory='x:X', options=f'{{__name__}}:{cls}')"
        for kind, cls in zip(("WriterSpec", "ObserverSpec"), order, strict=True)
    )
    source = UNDECLARED.partition("    return [")[0].replace("\n@hookimpl", strict)
    source = source.replace("import WriterSpec", "import ObserverSpec, WriterSpec")
    site.install("rltrain-theirs", f"{source}    return [{provided}]\n", point="theirs")
    plant(begun, "theirs.label", "x")
    found, told = resumed(resume=str(begun))
    assert "theirs.label" not in found
    assert "theirs.label" in told[0]


def test_each_text_option_of_our_own_plugins_is_declared_and_what_may_be_code_is_no_word():
    words = ("__import__", "x.__class__", "a__b", "two words", "./path", "elu")
    assert [text for text in words if is_word(text)] == ["elu"]
    undeclared = [
        f"{spec.name}.{field.name}"
        for record in discover().records
        for spec in record.specs
        if spec.options and record.distribution.startswith("rltrain")
        for field in dataclasses.fields(dataclass_of(spec))
        if not is_number(typing.get_type_hints(dataclass_of(spec))[field.name])
        and "names" not in field.metadata
    ]
    assert undeclared == []
