"""The tab key: what a shell offers for the word at the cursor, and that nothing runs for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import python
from made_up_runs import make_run

pytest.importorskip("argcomplete")

BIN = Path(sys.executable).parent
"""Of `rltrain` and `register-python-argcomplete`, as the shell finds them."""
IN_BASH = """
eval "$(register-python-argcomplete rltrain)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete rltrain
printf '%s\\n' "${COMPREPLY[@]}"
"""
CASES = {
    "rltrain ev": {"evaluate"},
    "rltrain help doc": {"doctor"},
    "rltrain --ta": {"--task", "--target-return"},
    "rltrain evaluate latest --epi": {"--episodes"},
    "rltrain play latest --viewer na": {"native"},
    "rltrain --library r": {"rl_games", "rsl_rl"},
    "rltrain --library=rs": {"rsl_rl"},
    "rltrain rltrain/CartPole-v1 --library rs": {"rsl_rl"},
    "rltrain --writer con": {"console"},
    "rltrain --resume la": {"latest"},
    "rltrain --config b": {"b.yaml", "below/"},
    "rltrain --num-envs b": set(),
    "rltrain nonsense --li": set(),
}


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """Return what bash offers for a line, in a folder with two runs and a file."""
    here = tmp_path_factory.mktemp("here")
    for name in ("one", "two"):
        make_run(here / "logs" / "rl_games" / "T" / name)
    (here / "b.yaml").touch()
    (here / "below").mkdir()
    paths = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environ = {**os.environ, "PATH": paths, "HOME": str(here)}

    def offered(line, **more):
        found = subprocess.run(
            [*("bash", "--norc", "-c", IN_BASH, "bash"), line],
            cwd=here,
            env={**environ, **more},
            timeout=60,
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stderr == ""
        return {each.strip() for each in found.stdout.splitlines()} - {""}

    return offered


@pytest.mark.slow
@pytest.mark.parametrize("line", CASES)
def test_bash_offers_what_fits(complete, line):
    assert complete(line) == CASES[line]


@pytest.mark.parametrize("before", ["", "train ", "--task ", "tasks ", "evaluate --task "])
def test_tasks_are_offered_where_one_is_taken(complete, before):
    # EnvPool is left out, which takes seconds to import.
    only = {"RLTRAIN_PLUGINS": "gymnasium,play,devkit"}
    assert complete(f"rltrain {before}rltrain/CartPole-", **only) == {"rltrain/CartPole-v1"}


def test_the_first_word_is_a_command(complete):
    offered = complete("rltrain ")
    assert {"train", "evaluate", "report", "help"} <= offered
    assert not any("-" in each for each in offered), "neither flags nor tasks"


@pytest.mark.parametrize("line", ["rltrain evaluate ", "rltrain report one ", "rltrain --resume "])
def test_runs_are_offered_where_one_is_taken(complete, line):
    runs = {f"logs/rl_games/T/{name}" for name in ("one", "two")}
    assert complete(line) == {"latest", *runs}


def test_runs_are_looked_for_below_the_log_root_of_the_line(complete):
    assert complete("rltrain evaluate --log-root elsewhere ") == {"latest"}


def test_without_a_shell_that_asks_nothing_of_it_is_imported():
    found = python("""
        import sys; from rltrain.cli.main import main; main(['--help'])
        sys.exit('argcomplete' in sys.modules)
    """)
    assert shutil.which("register-python-argcomplete", path=BIN)
    assert 'eval "$(register-python-argcomplete rltrain)"' in found.stdout


def test_a_shell_that_asks_where_argcomplete_is_missing_starts_no_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = """
        import sys; sys.modules['argcomplete'] = None; sys.argv = ['rltrain']
        from rltrain.cli.main import main; sys.exit(main())
    """
    asked = {"_ARGCOMPLETE": "1", "COMP_LINE": "rltrain ", "COMP_POINT": "8"}
    found = python(code, check=False, **asked)
    assert (found.returncode, found.stdout, found.stderr) == (1, "", "")
    assert list(tmp_path.iterdir()) == []
