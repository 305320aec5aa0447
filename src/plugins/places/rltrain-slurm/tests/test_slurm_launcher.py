"""What is asked of SLURM, and what is made of its answers. Real jobs: tests/integration."""

from __future__ import annotations

import logging.handlers
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pytest
from messages import check_said, says
from submitit.core.job_environment import SignalHandler
from submitit.core.utils import DelayedSubmission, JobPaths
from submitit.slurm.slurm import SlurmJobEnvironment

from rltrain.config import Placement
from rltrain.errors import RankFailed, UsageError
from rltrain.plan.resolve import make_plan
from rltrain.plan.table import plan_table
from rltrain.types import TrainResult
from rltrain_slurm.following import Job, follow
from rltrain_slurm.job import NodeOfJob
from rltrain_slurm.launcher import SlurmLauncher, job_parameters
from rltrain_slurm.plugin import SlurmOptions, minutes, sbatch_flags

FINISHED = TrainResult(3, 0, None, None, run_dir="")


def finish(options) -> TrainResult:
    return FINISHED


RUN = {"library": "rsl_rl", "launcher": "slurm", "nnodes": 2, "writers": ["console"]}


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("4:00:00", 240),
        ("0:00:30", 1),
        ("30:00", 30),
        ("1-12:00:00", 36 * 60),
        ("2-0", 48 * 60),
        ("1-6:30", 30 * 60 + 30),
        ("14400", None),
        ("0:00", None),
        ("4h", None),
        ("", None),
    ],
)
def test_time_limits_are_those_of_sbatch(time, expected):
    assert minutes(time) == expected


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"time": 14400},
        {"time": "1:00", "grace": 700},
        {"time": "1:00", "grace": 60},
        {"time": "1:00", "sbatch": ["--array=1-3"]},
        {"time": "1:00", "sbatch": ["--export=NONE"]},
        {"time": "1:00", "cpus_per_rank": 0},
        {"time": "1:00", "sbatch": ["-C a"]},
        {"time": "1:00", "queue": "a"},
    ],
)
def test_wrong_options_are_refused_before_anything_is_submitted(options):
    with says(UsageError):
        make_plan({**RUN, "nproc_per_node": 2, "slurm": options}, {})


@pytest.mark.parametrize("option", [{"master_addr": "a"}, {"node_rank": 1}, {"cluster": "slurm"}])
def test_what_slurm_decides_cannot_be_set(option):
    with says(UsageError):
        make_plan({**RUN, "nproc_per_node": 2, "slurm.time": "1:00", **option}, {})


def test_a_job_on_gpus_is_planned_where_there_are_none():
    plan = make_plan({**RUN, "nproc_per_node": 4, "device": "cuda", "slurm.time": "4:00:00"}, {})
    assert "4 on each of 2 nodes, which slurm starts" in plan_table(plan)
    options = SlurmOptions(time="4:00:00", cpus_per_rank=8, sbatch=["--constraint=a100"])
    asked = job_parameters(plan.config, options)
    assert (asked["nodes"], asked["ntasks_per_node"], asked["gpus_per_node"]) == (2, 1, 4)
    assert (asked["cpus_per_task"], asked["time"]) == (32, 240)
    assert asked["additional_parameters"] == {"requeue": True, "constraint": "a100"}


def test_seconds_of_grace_leave_time_to_train():
    times = {"1:00": 10, "2:00": 30, "10:00": 120, "4:00:00": 120}
    assert {time: SlurmOptions(time=time).seconds_of_grace for time in times} == times


def test_a_job_on_the_cpu_asks_for_no_gpu():
    asked = job_parameters(Placement(backend="gloo", nproc_per_node=2), SlurmOptions(time="1:00"))
    assert "gpus_per_node" not in asked


def test_flags_without_a_value_are_switches():
    assert sbatch_flags(["--exclusive", "--mail-user=a=b"]) == {
        "exclusive": True,
        "mail-user": "a=b",
    }


def test_all_attempts_of_a_job_have_one_name(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    asked = []
    NodeOfJob(lambda options: asked.append(options) or FINISHED, "mine")()
    assert asked == [{"run_name": "mine_slurm-12", "auto_resume": True}]
    NodeOfJob(lambda options: asked.append(options) or FINISHED, None)()
    assert asked[1]["run_name"] == "slurm-12"


def test_a_handled_signal_logs_nothing(monkeypatch):
    """If the next signal raises, as with torch elastic, `logging` would swallow its exception."""
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    log = logging.getLogger("submitit")
    monkeypatch.setattr(log, "level", log.level)
    logged = logging.handlers.BufferingHandler(100)
    monkeypatch.setattr(log, "handlers", [logged])
    handler = SignalHandler(None, None, DelayedSubmission(print))
    NodeOfJob(lambda options: handler.bypass(signal.SIGCONT, None) or FINISHED, None)()
    assert not logged.buffer


def test_a_failure_in_the_job_leaves_its_status_and_no_traceback(monkeypatch, capsys):
    monkeypatch.setenv("SLURM_JOB_ID", "12")

    def fail(options):
        raise RankFailed("Rank 3 failed.", exit_code=7)

    with pytest.raises(SystemExit) as ended:
        NodeOfJob(fail, None)()
    assert ended.value.code == 7
    check_said(capsys.readouterr().out)


@pytest.mark.parametrize(("command", "refused"), [("kill $$", False), ("exit 1", True)])
def test_scontrol_is_ended_with_the_job_that_it_queues_again(
    command, refused, tmp_path, monkeypatch
):
    """SLURM ends all processes of the job, sometimes before scontrol has its answer."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\n{command}\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_PROCID", "0")
    delayed = DelayedSubmission(NodeOfJob(print, None))
    delayed.set_timeout(60, 1)
    handler = SignalHandler(SlurmJobEnvironment(), JobPaths(tmp_path, "12"), delayed)
    with pytest.raises(subprocess.CalledProcessError if refused else SystemExit):
        announced(handler, NodeOfJob(lambda options: end_gracefully(), None))


def announced(handler: SignalHandler, node: Callable[[], TrainResult]) -> TrainResult:
    """Run a node as submitit does, with its handlers."""
    handlers = {signal.SIGTERM: handler.bypass, signal.SIGUSR2: handler.checkpoint_and_try_requeue}
    before = {number: signal.signal(number, each) for number, each in handlers.items()}
    try:
        return node()
    finally:
        for number, each in before.items():
            signal.signal(number, each)


def end_gracefully() -> TrainResult:
    """Do what a run does when SLURM announces the time limit."""
    os.kill(os.getpid(), signal.SIGUSR2)
    return replace(FINISHED, exit_code=75)


class Requeued(Exception):
    """The job was queued again."""


class OfTheTest(SlurmJobEnvironment):
    """Queues no job."""

    def _requeue(self, countdown: int) -> None:
        raise Requeued


def test_a_job_is_queued_again_after_the_run_has_ended_gracefully(monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_PROCID", "0")
    done = []

    def work(options):
        result = end_gracefully()
        done.append(options)
        return result

    delayed = DelayedSubmission(NodeOfJob(work, None, log_root=str(tmp_path)))
    delayed.set_timeout(60, 1000)
    handler = SignalHandler(OfTheTest(), JobPaths(tmp_path, "12"), delayed)
    with pytest.raises(Requeued):
        announced(handler, delayed.function)
    assert len(done) == 1
    node = delayed.function
    for _ in range(2):
        node = node.checkpoint().function
    with says(RankFailed):
        node.checkpoint()
    saved = tmp_path / "rsl_rl" / "Task" / "2026_slurm-12" / "checkpoints" / "model_1.pt"
    saved.parent.mkdir(parents=True)
    saved.touch()
    assert node.checkpoint().function.fruitless == 0


def test_a_run_that_was_done_all_the_same_is_not_queued_again(monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    node = NodeOfJob(lambda options: replace(end_gracefully(), exit_code=0), None)
    handler = SignalHandler(OfTheTest(), JobPaths(tmp_path, "12"), DelayedSubmission(node))

    def checked():
        result = node()
        # One that comes while the interpreter ends would end it with status 140.
        assert signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN
        return result

    assert announced(handler, checked).exit_code == 0


def test_without_slurm_there_is_one_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    placement = Placement(backend="gloo", nproc_per_node=2, log_root=str(tmp_path))
    with pytest.raises(UsageError, match='--launcher slurm: Could not detect "srun"'):
        SlurmLauncher(SlurmOptions(time="1:00")).launch(placement, lambda options: None)


@pytest.fixture
def scontrol(tmp_path, monkeypatch):
    """Make `scontrol` give these answers, one after the other, the last one for ever."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr("rltrain_slurm.following._OUTPUT", 0.01)

    def answer(*answers: str) -> Job:
        for number, text in enumerate(answers):
            (tmp_path / f"answer_{number}").write_text(text)
        program = tmp_path / "bin" / "scontrol"
        program.write_text(
            f"#!/bin/sh\ncd '{tmp_path}'\nn=$(cat n 2>/dev/null || echo 0)\n"
            f"[ $n -lt {len(answers) - 1} ] && echo $((n + 1)) > n\n"
            'if [ -s answer_$n ]; then cat answer_$n; else echo "Invalid job id specified" >&2; '
            "exit 1; fi\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return Job("12", tmp_path / "output")

    return answer


PENDING = "JobId=12 JobState=PENDING Reason=Resources NodeList=(null) ExitCode=0:0"
RUNNING = "JobId=12 JobState=RUNNING Reason=None NodeList=n[1-2] ExitCode=0:0"
DONE = "JobId=12 JobState=COMPLETED Reason=None NodeList=n[1-2] ExitCode=0:0"


def test_the_output_is_shown_whole_and_the_state_where_it_changes(scontrol, tmp_path, capsys):
    job = scontrol(PENDING, RUNNING, RUNNING, DONE)
    job.output.write_text("submitit INFO (2026) - Starting\niteration 1\nno end of lin")
    follow(job, cancel=False)
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("job")] == [
        "job 12: PENDING (Resources)",
        "job 12: RUNNING (n[1-2])",
        "job 12: COMPLETED",
    ]
    assert [line for line in shown if not line.startswith("job")] == ["iteration 1"]


@pytest.mark.parametrize(
    ("state", "exit_code", "status"),
    [
        ("FAILED", "7:0", 7),
        ("CANCELLED", "0:15", 143),
        ("TIMEOUT", "0:0", 1),
        ("OUT_OF_MEMORY", "0:125", 253),
    ],
)
def test_a_job_that_fails_has_its_exit_status(scontrol, state, exit_code, status):
    job = scontrol(RUNNING, f"JobId=12 JobState={state} Reason=None ExitCode={exit_code}")
    with says(RankFailed) as failed:
        follow(job, cancel=False)
    assert failed.value.exit_code == status


def test_a_job_that_slurm_has_forgotten_has_ended(scontrol, capsys):
    follow(scontrol(RUNNING, ""), cancel=False)
    assert capsys.readouterr().out.splitlines()[-1] == "job 12: ended"
