"""How a failing rank reports to its launcher what happened."""

from __future__ import annotations

import signal

import pytest
from messages import check_said

from rltrain.errors import RankFailed, UsageError
from rltrain.ranks.folders import Notes
from rltrain.ranks.guarded import NO_GUARD, UNGUARDED
from rltrain.ranks.pulse import PulseWriter, pulse_file
from rltrain.ranks.reports import (
    LOG_LINES,
    Report,
    failure,
    log_path,
    make_report,
    read_reports,
    write_report,
)
from rltrain.ranks.signals import ask_to_end, ended_by_signal


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def leave_report(folder, rank, error=None, **changes):
    report = make_report(rank, raised(error or ValueError("as asked")))
    write_report(folder, Report(**{**vars(report), **changes}))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("wrong"), "error"),
        (UsageError("wrong"), "usage"),
        (RuntimeError("[gloo/...] Connection closed by peer [127.0.0.1]:1"), "peer_lost"),
        (ConnectionResetError("Connection reset by peer"), "peer_lost"),
        (ValueError("UNKNOWN: Gloo all-reduce failed: Connection reset by peer"), "peer_lost"),
        (ValueError("UNKNOWN: Gloo all-reduce failed: shapes differ"), "error"),
        (RuntimeError("shapes differ"), "error"),
        # Its wording alone does not make a user's error the consequence of another error.
        (ValueError("Connection reset by peer"), "error"),
        (KeyboardInterrupt(), "error"),
    ],
)
def test_an_error_is_distinguished_from_its_consequences(error, kind):
    assert make_report(3, raised(error)).kind == kind


def test_a_report_has_the_message_and_the_traceback():
    report = make_report(3, raised(ValueError("as asked")))
    assert (report.rank, report.message) == (3, "as asked")
    assert report.traceback.startswith("Traceback")
    assert "raise error" in report.traceback
    assert report.traceback.endswith("ValueError: as asked\n")
    assert make_report(0, raised(AssertionError())).message == "AssertionError"


def test_reports_are_read_as_written_and_in_order_of_cause(tmp_path):
    leave_report(tmp_path, 0, kind="peer_lost", time=1.0)
    leave_report(tmp_path, 1, time=3.0)
    leave_report(tmp_path, 2, time=2.0, message="first, with ünïcode")
    reports = read_reports(tmp_path)
    assert [report.rank for report in reports] == [2, 1, 0]
    assert reports[0].message == "first, with ünïcode"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_peer_that_left_with_status_0_is_named(tmp_path):
    leave_report(tmp_path, 0, RuntimeError("Connection closed by peer"))
    check_said(str(failure(tmp_path, 0, 1)))
    writer = PulseWriter()
    writer.share(pulse_file(tmp_path, 1))
    writer.done(3)
    check_said(str(failure(tmp_path, 0, 1)))
    leave_pulse(tmp_path, 1, "barrier")
    check_said(str(failure(tmp_path, 0, 1)))


def leave_pulse(folder, rank, *calls):
    writer = PulseWriter()
    writer.share(pulse_file(folder, rank))
    for call in calls:
        writer.enter(call)


def test_ranks_that_gloo_ends_in_different_collectives_are_named(tmp_path):
    log_path(tmp_path, 1).write_text("Fatal Python error: Aborted\n\nthe line\n" + "x\n" * 50)
    leave_pulse(tmp_path, 0, "all_reduce(sum) [7]")
    leave_pulse(tmp_path, 1, "barrier")
    text = str(failure(tmp_path, 1, -signal.SIGABRT))
    assert "the line" in text
    assert text.endswith("rank 0: all_reduce(sum) [7]\n  rank 1: barrier")
    leave_pulse(tmp_path, 1, "all_reduce(sum) [7]")
    assert "rank 0" not in str(failure(tmp_path, 1, -signal.SIGABRT))
    leave_pulse(tmp_path, 1, "broadcast", "barrier")  # Its second one: it is only ahead.
    assert "rank 0" not in str(failure(tmp_path, 1, -signal.SIGABRT))


def test_the_first_real_error_becomes_the_runs_error(tmp_path):
    leave_report(tmp_path, 0, RuntimeError("Connection closed by peer"), time=1.0)
    leave_report(tmp_path, 1, ValueError("the cause"), time=2.0)
    error = failure(tmp_path, 0, 1)
    assert isinstance(error, RankFailed)
    assert (error.rank, error.exit_code) == (1, 1)
    check_said(str(error))
    assert failure(tmp_path, 2, -15).rank == 1  # It explains a rank without a report.


def test_a_failure_has_a_headline_and_says_whether_ranks_may_start_again(tmp_path):
    leave_report(tmp_path, 1, ValueError("of shape\n(3, 4)"))
    error = failure(tmp_path, 1, 1)
    check_said(error.headline)
    assert error.may_restart
    check_said(failure(tmp_path / "none", 0, -9).headline)
    leave_report(tmp_path, 1, RankFailed("never again", may_restart=False))
    assert not failure(tmp_path, 1, 1).may_restart
    leave_report(tmp_path, 1, UsageError("--num-envs 3: must be even."))
    error = failure(tmp_path, 1, 2)  # It is one of the run.
    assert (str(error), error.exit_code) == ("--num-envs 3: must be even.", 2)
    assert isinstance(error, UsageError)
    assert not UsageError("refused").may_restart
    assert not ended_by_signal(signal.SIGTERM).may_restart


def test_a_failure_has_the_iterations_that_its_rank_has_done(tmp_path):
    assert failure(tmp_path, 1, -9).iteration is None
    for rank in (0, 1):
        writer = PulseWriter()
        writer.share(pulse_file(tmp_path, rank))
        writer.done(5 - rank)
    assert failure(tmp_path, 1, -9).iteration == 4
    assert failure(tmp_path, None, 1).iteration == 5


def test_ranks_that_were_asked_to_end_do_not_start_again(tmp_path, capsys):
    leave_report(tmp_path, 1)
    Notes(tmp_path).set_training()
    assert ask_to_end(tmp_path, signal.SIGINT)
    assert not failure(tmp_path, 1, 1).may_restart


def test_only_a_log_in_the_run_folder_is_named(tmp_path):
    reports, logs = tmp_path / "reports", tmp_path / "run"
    reports.mkdir()
    logs.mkdir()
    leave_report(reports, 0)
    log_path(reports, 0).write_text("early")
    assert "Its log" not in str(failure(reports, 0, 1))
    log_path(reports, 0).unlink()
    (logs / "rank_0.log").write_text("late")
    log_path(reports, 0).symlink_to(logs / "rank_0.log")
    check_said(str(failure(reports, 0, 1)))


@pytest.mark.parametrize("code", [-9, -11, -35, 7])
def test_a_rank_without_a_report_is_described_by_its_exit(tmp_path, code):
    # The others' reports only say that it is gone.
    leave_report(tmp_path, 0, RuntimeError("Connection closed by peer"))
    error = failure(tmp_path, 1, code)
    assert isinstance(error, RankFailed)
    assert error.rank == 1
    check_said(str(error))


def test_a_rank_that_could_not_import_an_unguarded_script_says_so(tmp_path):
    error = failure(tmp_path, 0, UNGUARDED)
    assert isinstance(error, UsageError)
    assert str(error) == NO_GUARD
    log_path(tmp_path, 0).touch()  # It began to work: the status is its task's.
    check_said(failure(tmp_path, 0, UNGUARDED).headline)


def test_a_rank_without_a_report_is_shown_by_the_end_of_its_log(tmp_path):
    log_path(tmp_path, 1).write_bytes(b"".join(b"line %d\n" % i for i in range(100)) + b"\xff end")
    message = str(failure(tmp_path, 1, -11))
    assert "line 99" in message
    assert "end" in message.splitlines()[-1]
    assert len(message.splitlines()) <= LOG_LINES + 2
    log = log_path(tmp_path, 1)
    log.write_text("")
    assert str(failure(tmp_path, 1, -11)).endswith("(it is empty)")
    log.write_text("a network\n" * 20)
    cause = "Rank 1 exited with code 0 without an exception. Its work was not done."
    assert str(failure(tmp_path, 1, 0)).endswith(f"a network\n\n{cause}")
    assert str(failure(tmp_path, 1, -signal.SIGSEGV)).endswith("a network")
    log.with_name("rank_1.log.1").write_text("x" * 100_000 + "\nbefore\n")  # It was rotated.
    log.write_text("after\n")
    assert str(failure(tmp_path, 1, -11)).splitlines()[-2:] == ["before", "after"]


@pytest.mark.parametrize(("code", "status"), [(3, 3), (-9, 137), (-15, 143), (0, 1), (1, 1)])
def test_the_runs_exit_code_is_the_ranks(tmp_path, code, status):
    assert failure(tmp_path, 1, code).exit_code == status


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 75)])
def test_a_signal_to_the_launcher_is_reported_and_ctrl_c_stays_an_interrupt(number, code):
    ended = ended_by_signal(number)
    assert (isinstance(ended, RankFailed), ended.exit_code) == (True, code)
    assert number.name in str(ended)
    assert isinstance(ended_by_signal(signal.SIGINT), KeyboardInterrupt)


@pytest.mark.parametrize(
    ("error", "status"),
    [(SystemExit(3), 3), (SystemExit(0), 1), (SystemExit("text"), 1), (ValueError("x"), 1)],
    ids=repr,
)
def test_a_rank_that_exits_gives_the_run_its_status(tmp_path, error, status):
    leave_report(tmp_path, 1, error)
    assert failure(tmp_path, 1, status).exit_code == status
