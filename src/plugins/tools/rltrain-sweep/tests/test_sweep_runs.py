"""Studies whose trials are real runs: what is killed goes on, and nothing runs twice."""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
import yaml
from helpers import rltrain_command, wait_for

from rltrain_sweep.space import shown
from rltrain_sweep.study import Study

pytestmark = pytest.mark.slow

RUN = ["--library", "rl_games", "--device", "cpu", "--num-envs", "8", "--writer", "console"]
SPACE = ["agent.params.config.learning_rate=log(1e-4,1e-2)", "env.pole_length=choice(0.5,1)"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def started(*words):
    """Start a worker in a session of its own."""
    command = [sys.executable, "-m", "rltrain", "sweep", *words]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, start_new_session=True, **quiet)


def processes_of(study):
    lines = [" ".join(each.info["cmdline"] or []) for each in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(study) in line]


def names_of(study):
    """Return how many run folders each name has."""
    folders = (study / "runs").glob("*/*/*")
    return collections.Counter(each.name.split("_", 2)[2].split("_")[0] for each in folders)


def iterations_of(study, name):
    return [[each.iteration for each in run.scalars] for run in study.runs_of(name)]


def test_two_workers_that_are_killed_twice_lose_no_trial_and_run_none_twice(tmp_path):
    path = tmp_path / "st"
    two = ["--distributed", "--nproc-per-node", "2", "--max-iterations", "12", "--trials", "6"]
    begin = ["--study", str(path), *RUN, *two, *SPACE, "--pruner", "median(n_startup_trials=2)"]
    first = started(*begin)
    for _ in range(2):
        wait_for(lambda: (path / "study.yaml").exists(), 60)
        second = started("work", str(path))
        before = sum(names_of(path).values())
        wait_for(lambda count=before: sum(names_of(path).values()) >= count + 2, 120)
        time.sleep(2)
        for worker in (first, second):
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        wait_for(lambda: not processes_of(path), 60)
        first = started("work", str(path))
    assert first.wait(timeout=400) == 0

    study = Study(path)
    found = study.found()
    assert [each.number for each in found] == list(range(6))
    assert {each.state for each in found} <= {"complete", "pruned"}
    assert set(names_of(path)) == {each.name for each in found}
    for each in found:
        done = iterations_of(study, each.name)
        flat = [iteration for run in done for iteration in run]
        assert flat == sorted(flat), "a run that was killed goes on, from what it saved"
        assert each.state == "pruned" or flat[-1] == 12
        given = yaml.safe_load((path / "trials" / f"{each.name}.yaml").read_text())
        assert given["env"]["pole_length"] == each.values["env.pole_length"]
    assert not processes_of(path)


def test_ctrl_c_saves_what_runs_and_the_same_command_goes_on(tmp_path):
    most = ["--max-iterations", "40", "--frames", "5000"]
    begin = ["--study", "st", "--trials", "1", *RUN, *most, *SPACE]
    worker = started(*begin)
    runs = tmp_path / "st" / "runs"
    wait_for(lambda: any("scalars" in x.read_text() for x in runs.glob("*/*/*/metrics.jsonl")), 120)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(timeout=60) == 130
    study = Study(tmp_path / "st")
    assert study.found()[0].state == "running"
    again = rltrain_command("sweep", *begin, timeout=200)
    assert again.returncode == 0, again.stderr
    first, second = iterations_of(study, "trial-0000")
    assert [*first, *second] == list(range(1, second[-1] + 1))
    assert 20 <= second[-1] < 40, "5000 frames are 20 iterations of 8 environments and 32 steps"
    last = study.runs_of("trial-0000")[-1].scalars[18 - len(first)]
    assert (last.iteration, last.episode_return) == (19, study.found()[0].value)


def test_a_population_in_turns_writes_what_members_at_once_do_even_if_one_is_killed(tmp_path):
    more = ["--population", "4", "--generation", "3", "--max-iterations", "6", "--keep", "1"]
    turns = ["--study", "turns", *RUN, *more, *SPACE]
    assert rltrain_command("sweep", *turns, timeout=400).returncode == 0
    once = ["--study", "once", "--parallel", "4", *RUN, *more, *SPACE]
    worker = started(*once)
    wait_for(lambda: len(names_of(tmp_path / "once")) >= 2, 120)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
    again = rltrain_command("sweep", *once, timeout=400)
    assert again.returncode == 0, again.stderr
    files = sorted((tmp_path / "turns" / "population").iterdir())
    assert len(files) == 8
    for file in files:
        other = tmp_path / "once" / "population" / file.name
        assert file.read_bytes() == other.read_bytes(), file.name


def test_a_trial_of_several_seeds_is_evaluated_and_a_failed_one_ends_nothing(tmp_path):
    space = ["agent.params.config.mini_epochs=choice(2,1.5)", "--sampler", "grid"]
    study = ["--study", "st", "--trials", "2", "--seeds", "2", "--objective", "evaluate.iqm"]
    done = rltrain_command("sweep", *study, *RUN, "--max-iterations", "3", *space, timeout=300)
    assert done.returncode == 0, done.stderr
    found = {shown(each.values): each for each in Study(tmp_path / "st").found()}
    right, wrong = found["mini_epochs=2"], found["mini_epochs=1.5"]
    assert (right.state, wrong.state) == ("complete", "failed")
    assert "'float' object cannot be interpreted as an integer" in done.stderr
    assert names_of(tmp_path / "st")[f"{right.name}-seed-43"] == 1
    again = rltrain_command("--library", "rl_games", "--agent-config", "st/best.yaml", "--dry-run")
    assert "mini_epochs: 2" in again.stdout
    assert (tmp_path / "st" / "report" / "report.html").is_file()
