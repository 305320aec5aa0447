"""The tab key: what a shell offers for the word at the cursor, and that nothing runs for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from in_bash import BIN, completer
from made_up_plugins import Site

CASES = {
    "rltrain ta": {"tasks"},
    "rltrain help plu": {"plugins"},
    "rltrain --ta": {"--task", "--target-return"},
    "rltrain --library st": {"stub"},
    "rltrain --library=st": {"stub"},
    "rltrain Stub-v0 --library st": {"stub"},
    "rltrain --library stub --algorithm p": {"ppo"},
    "rltrain --writer con": {"console"},
    "rltrain --no-plugin st": {"stub"},
    "rltrain plugins st": {"stub"},
    "rltrain --resume la": {"latest"},
    "rltrain --config b": {"b.yaml", "below/"},
    "rltrain --num-envs b": set(),
    "rltrain nonsense --li": set(),
}


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """What bash offers where the stub is installed beside the core."""
    site = Site(tmp_path_factory.mktemp("site"))
    site.install("rltrain-stub", point="stub", module="stub_plugin")
    paths = [str(site.path), str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    here = tmp_path_factory.mktemp("here")
    return completer(here, PYTHONPATH=os.pathsep.join(filter(None, paths)))


@pytest.mark.parametrize("line", CASES)
def test_bash_offers_what_fits(complete, line):
    assert complete(line) == CASES[line]


@pytest.mark.parametrize("before", ["", "train ", "--task ", "tasks "])
def test_tasks_are_offered_where_one_is_taken(complete, before):
    assert complete(f"rltrain {before}StubO", RLTRAIN_PLUGINS="stub") == {"StubOpen-v0"}


def test_the_first_word_is_a_command(complete):
    offered = complete("rltrain ")
    assert {"train", "tasks", "plugins", "help"} <= offered
    assert not any("-" in each for each in offered), "neither flags nor tasks"


def test_runs_are_offered_where_one_is_taken(complete):
    runs = {f"logs/rl_games/T/{name}" for name in ("one", "two")}
    assert complete("rltrain --resume ") == {"latest", *runs}


def run(code, tmp_path, **environ):
    return subprocess.run(
        [sys.executable, "-c", code],
        **{"cwd": tmp_path, "env": {**os.environ, **environ}, "timeout": 60},
        **{"capture_output": True, "text": True, "check": False},
    )


def test_without_a_shell_that_asks_nothing_of_it_is_imported(tmp_path):
    code = (
        "import sys; from rltrain.cli.main import main; main(['help', 'checkpoint']); "
        "sys.exit({'argcomplete', 'rltrain.cli.completion'} & set(sys.modules) != set())"
    )
    assert run(code, tmp_path).returncode == 0


def test_a_shell_that_asks_where_argcomplete_is_missing_starts_no_run(tmp_path):
    code = (
        "import sys; sys.modules['argcomplete'] = None; sys.argv = ['rltrain']; "
        "from rltrain.cli.main import main; sys.exit(main())"
    )
    found = run(code, tmp_path, _ARGCOMPLETE="1", COMP_LINE="rltrain ", COMP_POINT="8")
    assert (found.returncode, found.stdout, found.stderr) == (1, "", "")
    assert list(tmp_path.iterdir()) == []


def test_help_says_how_the_shell_is_told():
    assert shutil.which("register-python-argcomplete", path=BIN)
    found = run("from rltrain.cli.main import main; main(['--help'])", Path.cwd())
    assert 'eval "$(register-python-argcomplete rltrain)"' in found.stdout
