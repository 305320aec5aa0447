"""The kits of writers, observers, clusters, commands and launchers, which need few lines each.

The template passes, and each wrong plugin fails the test of its fault alone.
"""

from __future__ import annotations

import os

import pytest

from rltrain_devkit import LauncherConformance

ITERABLE = "from collections.abc import Iterable"
MAPPING = "from collections.abc import Mapping"

LINE = "        line = {"

FIRST = 'environ.get(FIRST, "127.0.0.1")'
SET = f"{FIRST}; __import__('os').environ['MASTER_ADDR'] = 'found'"
NUMBERS = """numbers = [environ.get(name, '') for name in NAMES]
    if not all(map(str.isdecimal, numbers)): return None
    nodes, node = map(int, numbers)"""
UNNAMED = """    from rltrain.errors import UsageError
    if not environ.get(FIRST): raise UsageError("where is node 0?")
    first = """

FLAG = "parser.add_argument("

FREE = 'with socket.create_server(("127.0.0.1", 0)) as free:'
OPEN = 'free = socket.create_server(("127.0.0.1", 0))\n            if True:'
FAILS = "raise failure(reports, rank, ranks[rank].exitcode or 1)"
ERROR = FAILS.replace("raise", "error =")
IF = "\n                if"
HIDDEN = f"{ERROR}{IF} 'ValueError' in str(error): error = type(error)('no')"
HIDDEN += f"{IF} error: raise error"
GONE = FAILS.replace("failure", "RuntimeError('gone') if ranks[rank].exitcode == 3 else failure")
OTHER = f"{ERROR}; raise RuntimeError(str(error)) if ranks[rank].exitcode == 2 else error"
RECEIVED = "result: TrainResult = receiver.recv()"
ONE = "import dataclasses; result = dataclasses.replace(receiver.recv(), iterations=1)"
ALIVE = "in filter(BaseProcess.is_alive, ranks):"
LEFT = ALIVE.replace("in ", "in () if 'raises' in repr(work) else ")

WRONG = {
    "writer declaring_is_light": [("numpy", ITERABLE, f"import numpy; {ITERABLE}")],
    "writer a_whole_run_is_taken": [
        ("no media", LINE, f"        if type(record).__name__ == 'Media': 1 / 0\n{LINE}"),
    ],
    "writer an_unknown_record_is_passed_over": [
        ("knows all", LINE, f"        assert 'Later' not in type(record).__name__\n{LINE}"),
    ],
    "writer strange_numbers_are_taken": [
        ("no NaN", "json.dumps(line)", "json.dumps(line, allow_nan=False)"),
    ],
    "writer a_run_that_never_began_is_taken": [("begins", "if self._path is None:", "if False:")],
    "writer files_are_below_the_run_folder": [
        ("where it is", "Path(record.run_dir, self._file)", "Path(self._file)"),
    ],
    "observer declaring_is_light": [("torch", ITERABLE, f"import torch; {ITERABLE}")],
    "observer it_changes_nothing": [
        ("draws", "return averaged", "import torch; torch.rand(1); return averaged"),
    ],
    "cluster declaring_is_light": [("numpy", MAPPING, f"import numpy; {MAPPING}")],
    "cluster a_process_finds_its_place": [
        ("miscounts", "node_rank=node", "node_rank=node + 1"),
        ("names no variables", "variables=NAMES", "variables=()"),
    ],
    "cluster it_is_a_pure_function": [
        ("reads the process's variables", FIRST, f"__import__('os').{FIRST}"),
        ("changes the process's variables", FIRST, SET),
    ],
    "cluster it_guesses_nothing_from_other_variables": [
        ("guesses", FIRST, f'environ.get("MASTER_ADDR") or {FIRST}'),
    ],
    "cluster incomplete_variables_are_understood": [
        ("no number is no node", "nodes, node = read_numbers(environ, *NAMES)", NUMBERS),
        ("raises a KeyError", FIRST, "environ[FIRST]"),
        ("does not show the variable", "    first = ", UNNAMED),
    ],
    "cluster a_process_alone_has_no_place": [("one node", "nodes == 1", "nodes == 0")],
    "command declaring_is_light": [("numpy", ITERABLE, f"import numpy; {ITERABLE}")],
    "command its_help_is_light_and_whole": [
        ("numpy", FLAG, f"import numpy; {FLAG}"),
        ("explains no flag", ', help="folder of runs (logs)"', ""),
    ],
    "command help_ends_with_0": [("formats percent", '"folder of runs (logs)"', '"100%d"')],
    "command an_unknown_flag_is_refused": [
        ("takes any", FLAG, f"parser.refuse = lambda *_: None; {FLAG}"),
    ],
    "command it_works": [("returns 3", "return 0", "return 3")],
    "command a_mistake_is_refused": [
        ("has tracebacks", "raise UsageError(", "raise KeyError("),
        ("names no input", 'f"--log-root {arguments.log_root}: ', 'f"'),
    ],
    "launcher declaring_is_light": [("numpy", ITERABLE, f"import numpy; {ITERABLE}")],
    "launcher every_rank_knows_its_place": [("gives no free port", FREE, OPEN)],
    "launcher rank_0s_result_is_returned": [("another", RECEIVED, ONE)],
    "launcher a_rank_that_raises_ends_the_run": [("hides the error", FAILS, HIDDEN)],
    "launcher a_rank_that_dies_ends_the_run": [("does not say who", FAILS, GONE)],
    "launcher what_a_rank_refuses_is_a_usage_error": [("raises another", FAILS, OTHER)],
    "launcher no_rank_is_left": [("leaves ranks", ALIVE, LEFT)],
    "launcher a_signal_ends_the_ranks": [
        ("ends well", "raise ended_by_signal(number)", "os._exit(0)"),
    ],
    "launcher a_rank_that_hangs_is_named": [("does not look", "check()  #", "pass  #")],
    "launcher sigterm_saves_a_checkpoint": [
        ("at once", "if not ask_to_end(reports, number):", "if True:"),
    ],
}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("imported")]


class TestProcesses(LauncherConformance):
    launcher = "processes"


@pytest.mark.parametrize("kind", ["writer", "observer", "cluster", "command", "launcher"])
def test_a_correct_plugin_passes(judge, kind):
    assert judge(kind) == {}


def test_a_wrong_plugin_fails_the_test_that_names_its_fault(judge, fault):
    failed = judge(fault.kind, (fault.old, fault.new))
    if fault.kind == "command":  # A class that is too heavy is so wherever it is imported.
        failed = {rule: failed[rule] for rule in [*failed][:1]} | {
            rule: says for rule, says in failed.items() if "help_is_light" not in rule
        }
    fault.check(failed)
    assert "MASTER_ADDR" not in os.environ, "another test would take this process for a rank"


def test_an_observer_is_given_its_options(judge):
    patches = judge.with_options("    @hookimpl(wrapper=True)\n")
    given = "    observer =", '    options = {"$name": {"by": 2}}\n    observer ='
    assert judge("observer", *patches, given) == {}


def test_an_observer_that_does_not_return_what_it_wraps_fails(judge):
    failed = judge("observer", ("return timed", "return None"))
    assert "test_every_rank_trains_to_the_end" in failed
