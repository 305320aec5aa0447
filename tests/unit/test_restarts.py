"""Ranks that start again after a failure: from which checkpoint, how often, and what is told."""

from __future__ import annotations

import json
import shutil

import pytest
from made_up_runs import made_state
from messages import check_said, says

from rltrain.errors import RankFailed, UsageError
from rltrain.run.restarts import STORY, restarts_here, with_restarts
from rltrain.storage.checkpoint import save_with_state
from rltrain.storage.run_folder import RunFolder
from rltrain.testing import make_config
from rltrain.types import TrainResult

DONE = TrainResult(9, 0, None, None, run_dir="here")


def killed(iteration=None):
    text = "Rank 1 was killed by SIGKILL.\n\nThe end of its log"
    return RankFailed(text, rank=1, iteration=iteration)


def raised(text, iteration=None, **more):
    message = f"Rank 0 failed.\n\nTraceback\n{text}"
    headline = f"Rank 0 failed with {text}"
    return RankFailed(message, rank=0, headline=headline, iteration=iteration, **more)


def save(folder, iteration):
    state = made_state(iteration)
    return save_with_state(folder, f"{iteration}.txt", lambda path: path.write_text("x"), state)


class Attempts:
    """What a launcher does, attempt by attempt: an error, after these checkpoints; or the end."""

    def __init__(self, path, *plan):
        self.folder, self.plan, self.configs = RunFolder(path), list(plan), []

    def __call__(self, config, notes):
        self.configs.append(config)
        saved, error = self.plan.pop(0)
        if saved is not None:
            self.folder.path.mkdir(exist_ok=True)
            notes.set_run_dir(self.folder.path)
            for iteration in saved:
                save(self.folder, iteration)
        if error is not None:
            raise error
        return DONE

    def run(self, restarts, iterations=None, **options):
        config = make_config(distributed=True, max_restarts=restarts, **options)
        return with_restarts(config, iterations, self)

    @property
    def story(self):
        return json.loads((self.folder.path / STORY).read_text())


def test_ranks_go_on_from_the_newest_checkpoint_in_the_same_folder(tmp_path, capsys):
    attempts = Attempts(tmp_path / "run", ([2, 4], killed(5)), ([6], raised("X: y")), ([], None))
    assert attempts.run(3) == DONE
    run = str(tmp_path / "run")
    assert [config.run_dir for config in attempts.configs] == [None, run, run]
    saved = [None, f"{run}/checkpoints/4.txt", f"{run}/checkpoints/6.txt"]
    assert [config.checkpoint for config in attempts.configs] == saved
    check_said(capsys.readouterr().out)
    first, second = attempts.story
    assert first.pop("time").startswith("20")
    then = "continuing from checkpoints/4.txt (iteration 4)"
    of_rank = {"rank": 1, "iteration": 5, "log": "logs/rank_1.log"}
    assert first == {**of_rank, "error": "Rank 1 was killed by SIGKILL", "then": then}
    check_said(second["error"])


@pytest.mark.slow
def test_ranks_continue_in_the_same_folder_after_temporary_files_were_removed(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    attempts = Attempts(tmp_path / "run", ([2], killed(3)), (None, killed()), ([4], None))

    def attempt(config, notes):
        try:
            return attempts(config, notes)
        except RankFailed:
            shutil.rmtree(tmp_path / "tmp", ignore_errors=True)
            raise

    config = make_config(distributed=True, max_restarts=3)
    assert with_restarts(config, None, attempt) == DONE
    run = str(tmp_path / "run")
    assert [config.run_dir for config in attempts.configs] == [None, run, run]
    then = "continuing from checkpoints/2.txt (iteration 2)"
    assert [each["then"] for each in attempts.story] == [then, then]


def test_without_a_checkpoint_they_start_where_the_run_did(tmp_path, capsys):
    # The first attempt fails before it has a run folder.
    plan = ((None, killed()), ([], raised("X: y")), ([], None))
    attempts = Attempts(tmp_path / "run", *plan)
    attempts.run(2)
    assert [each.run_dir for each in attempts.configs] == [None, None, str(tmp_path / "run")]
    check_said(capsys.readouterr().out)
    assert len(attempts.story) == 2
    attempts.plan = [([], killed()), ([], None)]
    attempts.run(1, checkpoint="teacher.pt")
    assert attempts.configs[-1].checkpoint == "teacher.pt"


def test_a_damaged_checkpoint_is_passed_over(tmp_path, capsys):
    attempts = Attempts(tmp_path / "run", ([2, 4], killed()), ([], None))

    def damaging(config, notes):
        try:
            return attempts(config, notes)
        finally:
            (tmp_path / "run/checkpoints/4.txt").write_text("damaged")

    with_restarts(make_config(distributed=True, max_restarts=1), None, damaging)
    assert attempts.configs[1].checkpoint == str(tmp_path / "run/checkpoints/2.txt")
    assert "passing over" in capsys.readouterr().out


def test_what_a_killed_rank_was_writing_is_removed(tmp_path):
    attempts = Attempts(tmp_path, ([2], killed(2)), ([3], None))
    checkpoint = attempts.folder.checkpoints / ".partial-7-3.txt"
    clip = tmp_path / "videos" / ".partial-step_0.mp4"
    for path in (checkpoint / "3.txt", clip):
        path.parent.mkdir(parents=True)
        path.touch()
    attempts.run(1)
    assert list(tmp_path.rglob(".partial-*")) == []
    assert sorted(path.name for path in checkpoint.parent.glob("*.txt")) == ["2.txt", "3.txt"]


def test_a_seed_that_was_drawn_stays_and_nothing_is_looked_for_again(tmp_path):
    attempts = Attempts(tmp_path / "run", ([], killed()), ([], None))
    (tmp_path / "run").mkdir()
    (tmp_path / "run/manifest.json").write_text('{"config": {"seed": 77}}')
    attempts.run(1, seed=-1, auto_resume=True, run_name="mine")
    assert (attempts.configs[1].seed, attempts.configs[1].auto_resume) == (77, False)


def test_the_last_failure_ends_the_run(tmp_path):
    last = raised("Last: one")
    plan = (([1], killed()), ([2], raised("X: y")), ([3], last))
    attempts = Attempts(tmp_path / "run", *plan)
    with pytest.raises(RankFailed) as caught:
        attempts.run(2)
    assert caught.value is last
    assert str(last).endswith("Last: one")
    check_said(attempts.story[-1]["then"])


@pytest.mark.parametrize(
    ("first", "second", "ends"),
    [
        (([2], raised("X: y", 5)), ([4], raised("X: y", 5)), True),
        (([2], raised("X: y", 5)), ([], raised("X: y", 3)), True),
        (([], raised("X: y")), ([], raised("X: y")), True),
        (([2], raised("X: y", 5)), ([4], raised("X: y", 6)), False),
        (([2], raised("X: y", 5)), ([], raised("X: z", 5)), False),
        (([2], killed()), ([3], killed()), False),
        (([2], killed()), ([], killed()), False),
    ],
)
def test_a_failure_that_comes_back_ends_the_run_and_another_or_a_later_one_does_not(
    tmp_path, first, second, ends
):
    attempts = Attempts(tmp_path / "run", first, second, ([], None))
    if not ends:
        assert attempts.run(2) == DONE
        return
    with pytest.raises(RankFailed) as caught:
        attempts.run(9)
    check_said(str(caught.value))
    check_said(attempts.story[-1]["then"])


def test_some_errors_end_the_run_at_once(tmp_path):
    attempts = Attempts(tmp_path / "run", ([2], raised("X: y", may_restart=False)))
    with says(RankFailed):
        attempts.run(3)
    for error in (UsageError("refused"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            Attempts(tmp_path / "run", ([], error)).run(3)
    # All iterations are done: no rank could go on.
    attempts = Attempts(tmp_path / "run", ([9], killed()))
    with says(RankFailed):
        attempts.run(3, iterations=9)
    assert "last iteration" in attempts.story[-1]["then"]


def test_a_story_that_cannot_be_written_does_not_end_the_run(tmp_path, capsys, monkeypatch):
    def fail(self, name, write):
        raise OSError(28, "No space left on device")

    attempts = Attempts(tmp_path / "run", ([], killed()), ([], None))
    monkeypatch.setattr(RunFolder, "write_atomically", fail)
    assert attempts.run(1) == DONE
    check_said(capsys.readouterr().out)


def test_several_nodes_need_a_launcher_that_restarts():
    for more, here in (({}, True), ({"max_restarts": 0}, False), ({"nnodes": 2}, False)):
        config = make_config(**{"distributed": True, "max_restarts": 1, **more})
        assert restarts_here(config) is here


def test_kills_from_outside_use_up_all_restarts_with_a_pause_that_grows(
    tmp_path, monkeypatch, capsys
):
    pauses = []
    monkeypatch.setattr("rltrain.run.restarts.time.sleep", pauses.append)
    outside = RankFailed("Rank 1 was killed by SIGKILL.", rank=1, exit_code=137, iteration=2)
    attempts = Attempts(tmp_path / "run", *[([2], outside)] * 4)
    with pytest.raises(RankFailed):
        attempts.run(3)
    assert pauses == [0.0, 1.0, 2.0]
    check_said([each["then"] for each in attempts.story][-1])
    check_said(capsys.readouterr().out)
