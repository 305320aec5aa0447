"""The tab key offers what plugins add: their commands, names, tasks and runs."""

from __future__ import annotations

import pytest
from in_bash import completer

CASES = {
    "rltrain ev": {"evaluate"},
    "rltrain help doc": {"doctor"},
    "rltrain evaluate latest --epi": {"--episodes"},
    "rltrain play latest --viewer na": {"native"},
    "rltrain --library r": {"rl_games", "rsl_rl"},
    "rltrain scale --ranks 1 2 --library sk": {"skrl"},
    "rltrain rltrain/CartPole-v1 --library rs": {"rsl_rl"},
    "rltrain --library rl_games --algorithm p": {"ppo"},
    "rltrain new mine --kind la": {"launcher"},
}


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    return completer(tmp_path_factory.mktemp("here"))


@pytest.mark.parametrize("line", CASES)
def test_bash_offers_what_fits(complete, line):
    assert complete(line) == CASES[line]


@pytest.mark.parametrize("before", ["", "train ", "--task ", "tasks ", "evaluate --task "])
def test_tasks_are_offered_where_one_is_taken(complete, before):
    # EnvPool is left out, which takes seconds to import.
    only = {"RLTRAIN_PLUGINS": "gymnasium,play"}
    assert complete(f"rltrain {before}rltrain/CartPole-", **only) == {"rltrain/CartPole-v1"}


def test_the_first_word_is_a_command(complete):
    assert {"train", "evaluate", "report", "help"} <= complete("rltrain ")


@pytest.mark.parametrize("line", ["rltrain evaluate ", "rltrain report one "])
def test_runs_are_offered_where_one_is_taken(complete, line):
    runs = {f"logs/rl_games/T/{name}" for name in ("one", "two")}
    assert complete(line) == {"latest", *runs}


def test_runs_are_looked_for_below_the_log_root_of_the_line(complete):
    assert complete("rltrain evaluate --log-root elsewhere ") == {"latest"}
