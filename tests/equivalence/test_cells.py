"""Each cell of the page on policies: trained, loaded, played, evaluated, exported and filmed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cells import CELLS, TRAINED

import rltrain
from rltrain.cli import main
from rltrain.plugins.registry import discover
from rltrain.specs import LibrarySpec

FILMS = """
import contextlib, io, json, os, sys
os.environ["MUJOCO_GL"] = "egl"  # MuJoCo decides what draws when it is imported.
from rltrain.cli import main
for line in sys.stdin:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = main(json.loads(line))
    print(json.dumps([status, printed.getvalue()]), flush=True)
"""


def test_every_algorithm_has_a_cell():
    offered = {
        (spec.name, framework, algorithm)
        for spec in discover().all(LibrarySpec)
        if spec.name in {cell.library for cell in CELLS}
        for framework in spec.frameworks
        for algorithm in spec.algorithms
    }
    assert offered == {(cell.library, cell.framework, cell.algorithm) for cell in CELLS}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """Return a function that trains the teacher of a distillation."""

    def train(cell):
        options = {"library": "rsl_rl", "num_envs": TRAINED, "max_iterations": 1, "task": cell.task}
        folder = tmp_path_factory.mktemp("teacher")
        result = rltrain.train(
            **options, suite=cell.suite, env=cell.env, writers=(), log_root=str(folder)
        )
        return result.checkpoint

    return train


def done(capfd, *words):
    """Run a command, and return what it printed."""
    status = main([*map(str, words)])
    out, err = capfd.readouterr()
    assert status == 0, out + err
    return out


@pytest.fixture(scope="module")
def film_apart():
    """Return a function that films a run in a process of its own, which draws with EGL."""
    words = [sys.executable, "-c", FILMS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:

        def film(words):
            child.stdin.write(json.dumps(words) + "\n")
            child.stdin.flush()
            answer = child.stdout.readline()
            assert answer, "the process that films has ended"
            status, printed = json.loads(answer)
            if status == 2 and "could not be rendered" in printed:
                pytest.skip("all but the video was done: there is no OpenGL here (libegl1)")
            assert status == 0, printed

        try:
            yield film
        finally:
            child.kill()


@pytest.mark.slow
@pytest.mark.timeout(600)  # Playground compiles for minutes on a busy machine.
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_what_was_trained_is_put_to_use(cell, tmp_path, capfd, teacher, film_apart):
    registry = discover()
    for kind in (cell.library, cell.suite):
        record = next(record for record in registry.records if record.name == kind)
        if record.status != "ready":
            pytest.skip(f"{kind} is {record.status}: {record.reason}")
    distils = cell.algorithm == "distillation"
    names = ("library", "framework", "algorithm", "task", "suite", "env", "agent")
    trained = rltrain.train(
        **{name: getattr(cell, name) for name in names},
        num_envs=TRAINED,
        max_iterations=2,
        device="cpu",
        writers=(),
        log_root=str(tmp_path),
        checkpoint=teacher(cell) if distils else None,
    )
    run = trained.run_dir
    capfd.readouterr()

    # Playground compiles each number of environments.
    few, many = (TRAINED, TRAINED) if cell.suite == "playground" else (2, 8)
    played = done(capfd, "play", run, "--viewer", "none", "--steps", 21, "--num-envs", few)
    assert "episode" in played
    evaluated = done(capfd, "evaluate", run, "--episodes", 4, "--num-envs", few, "--json")
    assert len(json.loads(evaluated)[0]["each"]) == 4
    exported = done(capfd, "export", run, "--verify", 1000, "--num-envs", many)
    assert "greatest difference" in exported
    film = ["play", run, "--video", "--video-length", "10"]
    if not cell.draws:
        assert main(film) == 2
        assert "does not render its environments" in capfd.readouterr().err
        return
    if cell.needs_opengl:
        film_apart(film)
    else:
        done(capfd, *film)
    (video,) = Path(run, "videos").glob("*.mp4")
    assert video.stat().st_size > 1000
