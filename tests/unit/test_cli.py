"""The command line: an error is one line, with exit status 2."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys

import pytest
from helpers import python, rltrain_command
from messages import check_said, says

from rltrain import __version__
from rltrain.cli.main import command_of, main
from rltrain.cli.parser import parse
from rltrain.config.checks import flag
from rltrain.config.declare import option_of
from rltrain.errors import UsageError
from rltrain.options.run import RunOptions

HEAVY = ("torch", "numpy", "jax", "gymnasium", "omegaconf", "rich", "skrl", "rl_games", "rsl_rl")

STUB = ["--library=stub", "--task=Stub-v0", "--framework=numpy", "--grad-sync=plain"]
STUB += ["--backend=stub"]


@pytest.fixture
def dry(cli):
    def run(*words: str) -> str:
        status, out, err = cli(*STUB, *words, "--dry-run")
        assert (status, err) == (0, "")
        return out

    return run


ML_FRAMEWORK = ("--ml_framework jax", "--ml-framework=jax")
WRONG = [
    ("--num-env 4", "Unknown argument '--num-env'. Did you mean '--num-envs'?"),
    ("--libary=stub", "Unknown argument '--libary'. Did you mean '--library'?"),
    ("--gamma 0.9", "'--gamma'. Write the library's options as agent.key=value, the task's as"),
    ("-q", "Unknown argument '-q'. Write the library's options as"),
    ("--checkpoint bst", "--checkpoint bst: there is no such file. Did you mean 'best'?"),
    ("trian", "Unknown command 'trian'. Did you mean 'train'?"),
    ("plugin", "Did you mean 'plugins'?"),
    ("plugins --jsn", "Did you mean '--json'? See rltrain plugins --help."),
    ("train stray", "Write the library's options as agent.key=value"),
    ("plugins stray", "No ready plugin has the name 'stray'."),
    ("stray.key=1", "stray: no plugin of this run has this name."),
    ("--num-envs 0", "--num-envs 0: must be at least 1."),
    ("--num-envs", "argument --num-envs: expected one argument"),
    ("--num-envs many", "--num-envs many: must be a whole number."),
    ("--gpu-ids 0 0", "--gpu-ids 0 0: must be indices from 0, without repeats"),
    ("--library stubb", "Unknown library 'stubb'. Did you mean 'stub'?"),
    ("agent.learn.rat=1", "Did you mean 'agent.learn.rate'?"),
    ("+learn.rate=1", "+learn.rate=1: write an override as agent.key=value"),
    ("--agent-config none.yaml", "--agent-config none.yaml: there is no such file."),
    ("--config none.yaml", "--config none.yaml: there is no such file."),
    ("--config broken.yaml", "--config broken.yaml: does not parse as YAML"),
    ("--config unknown.yaml", "Unknown option 'num_env'. Did you mean 'num_envs'?"),
    ("--config flat.yaml", "--config flat.yaml: agent: must be a mapping, not 3."),
    ("--log-root broken.yaml", "--log-root broken.yaml: cannot be written"),
    ("--config agent.yaml", "--config agent.yaml: is a file of stub, not of a run. Give --agent-"),
    ("num_envs=many", "--num-envs many: must be a whole number."),  # As `wandb agent` types it.
    ("--dry-run nothing=42", "Unknown argument 'nothing'."),
    ("--dry-run 64", "Unknown argument '64'."),
    ("--dry-run yes", "Unknown argument 'yes'."),
    ("agent.learn.rate = 3e-4", "Unknown argument 'agent.learn.rate'."),
    ("--task mine.py:Bot-v0", "--task mine.py:Bot-v0: write mine:Bot-v0, the module and not"),
    (
        "--task a/mine.py",
        "write mine:NAME, the module and not its file, and start in the folder of",
    ),
    ("agent.resume=True", "agent.resume=True: not read here. Give --resume."),
    (f"--task {'x' * 3000}", "x" * 70 + "..."),  # An endless word is cut.
    # Isaac Lab's flag for the framework.
    *((words, "--framework jax: stub runs on numpy only.") for words in ML_FRAMEWORK),
]


@pytest.mark.parametrize(("line", "message"), WRONG, ids=[line[:40] for line, _ in WRONG])
def test_what_is_wrong_is_reported_in_one_message(cli, tmp_path, line, message):
    work = tmp_path / "work"
    (work / "broken.yaml").write_text("a: [1\n")
    (work / "unknown.yaml").write_text("num_env: 1\n")
    (work / "flat.yaml").write_text("agent: 3\n")
    (work / "agent.yaml").write_text("{learn: {iterations: 3}, model: {units: [8]}}")
    words = line.split()
    stub = [] if words[0] in ("trian", "plugin", "plugins", "train") else STUB
    before = set(work.iterdir())
    # The last value wins: each line removes or adds one of the stub's options.
    status, out, err = cli(*stub, *words)
    assert (status, out) == (2, "")
    assert err.startswith("rltrain: ")
    assert message in err
    assert "Traceback" not in err
    assert len(err) < 2000
    assert set(work.iterdir()) == before


@pytest.mark.parametrize("line", ["--num-envs 0", "--library stubb", "agent.x=[1", "--gpu-id 0"])
def test_a_process_ends_with_status_2_and_no_traceback(stub, line):
    done = rltrain_command(*line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("rltrain: ")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_run_that_fails_shows_where_and_leaves_status_1(stub):
    done = rltrain_command(*STUB, "agent.fail=ValueError", "--writer", "notes")
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("ValueError: as asked")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("--num_envs=7", "7 a rank, 7 in all"),
        ("--num_envs 7", "7 a rank, 7 in all"),
        ("--num-envs 7", "7 a rank, 7 in all"),
        ("--log_root=my_logs", "my_logs"),  # Dashes are in names, not in values.
        ("--seed -1", "chosen on rank 0"),
        ("--target-return -200", "a mean return of -200"),
        (
            "--distributed --nnodes 2 --node-rank 1 --cluster none --nproc-per-node 1",
            "; node 1 of 2, meeting at 127.0.0.1:29500\n",
        ),
    ],
)
def test_the_plan_shows_what_was_typed(dry, words, shown):
    assert shown in dry(*words.split())


def test_an_override_after_a_list_of_ids_is_not_an_id(cli, monkeypatch):
    monkeypatch.setenv("STUB_GPUS", "2")
    words = ["--task", "Stub-v0", "--framework", "numpy", "--grad-sync", "plain"]
    words += ["--library", "stub", "--gpu-ids", "0", "1", "agent.learn.rate=0.5", "--dry-run"]
    status, out, err = cli(*words)
    assert (status, err) == (0, "")
    assert "2 on this node, started by stub_launcher" in out
    assert "rate: 0.5" in out


def test_train_is_the_default_command(dry, cli):
    assert cli("train", *STUB, "--dry-run")[1] == dry()
    name, loaded, rest = command_of([])
    assert (name, loaded.spec.name, rest) == (None, "train", [])


def test_a_launcher_of_nodes_starts_the_run_elsewhere(cli, stub, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["rltrain", *STUB])
    words = ("--launcher", "scheduler", "--nproc-per-node", "2", "scheduler.queue=long")
    status, _out, err = cli(*STUB, *words)
    assert (status, err) == (0, "")
    # On the node, its own launcher starts the ranks.
    assert stub.EVENTS == [("queue", "long"), ("scheduled", 1, 2, "cpu"), ("launch", 2)]


def test_more_ranks_than_cores_are_mentioned(cli, monkeypatch):
    monkeypatch.setattr("rltrain.ranks.machine.available_cores", lambda: 2)
    words = (*STUB, "--distributed", "--nproc-per-node")
    assert "starting 2 rank(s) on this node, backend" in (out := cli(*words, "2")[1])
    assert "share" not in out
    assert "; 3 ranks share 2 cores\n" in cli(*words, "3")[1]


def test_a_run_goes_on_where_runs_of_its_name_ended(cli, stub, tmp_path):
    words = (*STUB, "--auto-resume", "--run-name", "mine")
    assert cli(*words)[0] == 0
    status, out, _err = cli(*words)
    assert status == 0
    check_said(out)
    assert cli(*words, "--run-name", "other")[0] == 0
    told = "--auto-resume: add --run-name NAME. Runs with the same name resume each other."
    assert cli(*STUB, "--auto-resume") == (2, "", f"rltrain: {told}\n")


def test_a_file_of_the_run_is_merged_with_flags_and_overrides(dry, tmp_path):
    (tmp_path / "work" / "run.yaml").write_text(
        "num-envs: 3\nmax_iterations: 8\nseed: 1\nenv: {gravity: 1.5}\n"
        "agent: {learn: {rate: 3e-4, steps: 6}, +more.deep: x}\n"
    )
    out = dry("--config", "run.yaml", "--seed", "2", "agent.learn.steps=7")
    assert "3 a rank" in out
    assert "iterations    8" in out
    assert "seed          2" in out
    for line in ("gravity: 1.5", "rate: 0.0003", "steps: 7", "deep: x"):
        assert line in out


@pytest.mark.parametrize(
    ("words", "meeting"), [(["--master-addr", "b"], "b:4"), (["--master-port", "5"], "a:5")]
)
def test_a_flag_wins_over_the_same_option_in_a_file(dry, tmp_path, words, meeting):
    file = tmp_path / "work" / "run.yaml"
    file.write_text("master_addr: a\nmaster_port: 4\n")
    nodes = ("--distributed", "--nproc-per-node", "1", "--nnodes", "2", "--node-rank", "1")
    assert f"meeting at {meeting}" in dry("--config", "run.yaml", *nodes, *words)


def test_a_dry_run_prints_the_plan_and_starts_nothing(dry, stub, tmp_path):
    out = dry("--distributed", "--nproc-per-node", "3", "--total-envs", "6")
    assert "3 on this node, started by stub_launcher" in out
    assert "2 a rank, 6 in all" in out
    assert "Nothing was started" in out
    assert stub.EVENTS == []
    assert list((tmp_path / "work").iterdir()) == []


def test_the_config_that_a_run_wrote_repeats_it(cli, stub, tmp_path):
    words = ["--writer", "notes", "--seed", "7", "--num-envs", "3", "env.gravity=2"]
    assert cli(*STUB, *words, "agent.learn.steps=5", "+agent.own=[a, 1]")[0] == 0
    (written,) = (tmp_path / "work").glob("logs/stub/Stub-v0/*/config.yaml")
    first, frames = stub.RECORDS[0].config, stub.RECORDS[-1].frames
    stub.RECORDS.clear()
    assert cli("--config", str(written), "--run-name", "again")[0] == 0
    again = stub.RECORDS[0].config
    changed = {name for name in first if first[name] != again[name]}
    assert changed == {"agent_config", "given", "run_name"}
    assert stub.RECORDS[-1].frames == frames


def test_a_run_trains_and_its_config_has_no_writers_where_none_are_given(cli, stub, tmp_path):
    status, _out, err = cli(*STUB, "--writer", "notes", "--log-root", "out")
    assert (status, err) == (0, "")
    assert [type(record).__name__ for record in stub.RECORDS][-1] == "RunEnded"
    assert len(list((tmp_path / "work").glob("out/stub/Stub-v0/*/manifest.json"))) == 1
    (tmp_path / "work" / "run.yaml").write_text("writers: []\n")
    assert cli(*STUB, "--config", "run.yaml")[0] == 0
    (written,) = (tmp_path / "work").glob("logs/stub/Stub-v0/*/config.yaml")
    assert "writers: []" in written.read_text()


def help_of(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_the_first_help_lists_the_commands(cli, words):
    assert cli("--version") == (0, f"rltrain {__version__}\n", "")
    status, out, _ = cli(*words)
    named = {line.split()[0] for line in out.splitlines() if re.match("  [a-z]+  ", line)}
    assert (status, named >= {"train", "plugins"}) == (0, True)


@pytest.mark.parametrize("command", [[], ["train"], ["plugins"]])
def test_all_help_names_every_flag(capsys, command):
    out = help_of(capsys, *command, "--help-all")
    assert ("--json" if command == ["plugins"] else "--master-port") in out


def test_help_leaves_out_what_few_need_and_says_so(capsys):
    out = help_of(capsys, "train", "--help")
    usual = "library algorithm task checkpoint resume num-envs max-iterations seed distributed"
    for name in f"{usual} nproc-per-node gpu-ids device run-name config observer".split():
        assert f"\n  --{name}" in out
    assert "--master-port" not in out
    assert "More flags: rltrain train --help-all." in out
    assert len(out.splitlines()) < 80
    assert "More flags" not in help_of(capsys, "plugins", "--help")
    assert help_of(capsys, "help", "plugins") == help_of(capsys, "plugins", "--help")


SWITCHES = [
    field.name for field in dataclasses.fields(RunOptions) if option_of(field).kind == "switch"
]


def read(name, *words):
    return parse(command_of([name])[1], name, list(words))


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_takes_true_or_false(name):
    typed = flag(name)

    def parsed(*words):
        return vars(read("train", "--seed", "1", *words, "--keep", "2")[0]).get(name)

    assert parsed() is None
    assert parsed(typed) is parsed(typed, "True") is parsed(f"{typed}=true") is True
    assert parsed(typed, "False") is parsed(f"{typed}=False") is parsed(flag(f"no_{name}")) is False
    with says(UsageError):
        parsed(f"{typed}=yes")


def test_switches_of_a_command_take_them_too_and_no_word_that_follows():
    assert read("plugins", "--json", "True")[0].json is True
    assert read("plugins", "--json=False")[0].json is False
    assert read("plugins", "--json", "word")[0].name == "word"


def test_plugins_are_listed_with_what_is_wrong(cli, site, monkeypatch):
    site.install("odd-one", "import no_such_module")
    site.install("unwanted", "raise ValueError('imported')")
    status, out, _err = cli("plugins", "--no-plugin", "unwanted")
    assert status == 0
    rows = {line.split()[1]: line for line in out.splitlines() if not line.startswith(" ")}
    assert rows["notes"].split()[:5] == ["writer", "notes", "1.0", "rltrain-stub", "ready"]
    assert "broken" in rows["odd-one"]
    assert "blocked" in rows["unwanted"]
    assert "    ModuleNotFoundError: No module named 'no_such_module'" in out
    status, out, _err = cli("plugins", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    assert status == 0
    assert rows["notes"]["kind"] == "writer"
    assert (rows["odd-one"]["kind"], rows["odd-one"]["status"]) == ("-", "broken")
    fields = {"kind", "name", "version", "distribution", "status", "reason", "supports"}
    assert set(rows["notes"]) == fields
    monkeypatch.setenv("RLTRAIN_PLUGINS", "")  # None is ready.
    status, out, _err = cli("plugins")
    assert (status, "not in RLTRAIN_PLUGINS" in out) == (0, True)


@pytest.mark.parametrize("line", ["--help", "plugins", "plugins --json", "--num-env 3"])
def test_the_command_line_imports_nothing_heavy(line):
    code = (
        "import sys, contextlib, io\n"
        "from rltrain.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    main({line.split()!r})\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    assert python(code).stdout.strip() == "[]"


def test_a_closed_pipe_is_not_an_error(stub):
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "rltrain", "plugins"]
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert "Traceback" not in done.stderr


def test_a_request_is_told_although_something_made_another_error_of_it():
    """C++ code that calls Python, such as matplotlib's, does."""
    script = """
import os, signal, sys, time
from rltrain.cli import main
from rltrain.ranks.guarded import guarded
def run(words):
    try: os.kill(os.getpid(), signal.SIGTERM); time.sleep(50)
    except BaseException: raise ValueError("invalid matrix") from None
sys.modules[main.__module__]._run = run
mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
sys.exit(guarded(lambda: main(["plugins"]), mask))
"""
    done = python(script, check=False)
    assert (done.returncode, done.stderr) == (143, "rltrain: ended by SIGTERM.\n")
