"""`rltrain play` as a user sees it: videos, a page in a browser, MuJoCo's window."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess

import numpy as np
import pytest
from browsers import IN_SOFTWARE, open_browser
from helpers import free_port, wait_for

from rltrain.cli import main

RED, BROWN = (200, 70, 50), (204, 153, 102)
"""The pole of the cart-pole; the legs of Gymnasium's Ant, in the light."""
CART_POLE = ("--task", "rltrain/CartPoleContinuous-v1", "--agent", "zero")
ANT = ("--task", "Ant-v5", "--agent", "random", "--num-envs", "2")


def frames(path):
    reader = pytest.importorskip("imageio_ffmpeg").read_frames(str(path))
    next(reader)
    return sum(1 for _ in reader)


def test_a_video_needs_no_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("imageio_ffmpeg", reason="videos need the extra rltrain[video]")
    monkeypatch.chdir(tmp_path)
    words = ["play", *CART_POLE, "--video", "--video-length", "5"]
    assert main(words) == 0
    assert main([*words, "--steps", "3"]) == 0
    assert "video videos/play-zero.mp4\n" in capsys.readouterr().out
    assert frames("videos/play-zero.mp4") == 5
    assert frames("videos/play-zero-2.mp4") == 3


def seen(picture, color) -> int:
    return int((abs(picture.astype(int) - color).max(-1) < 30).sum())


def line(process, start) -> str:
    """Return the rest of the next line of a command that starts so."""
    for text in process.stdout:
        if text.startswith(start):
            return text.removeprefix(start).strip()
    raise AssertionError(f"it ended without a line {start!r}: {process.stderr.read()}")


def interrupted(command, process) -> str:
    """Press Ctrl-C; return what the command still prints."""
    os.kill(process.pid, signal.SIGINT)
    run = command.finish(process, timeout=60)
    assert (run.returncode, "Traceback" in run.stderr) == (0, False), run.stderr
    assert re.search(r"^\d+ steps, \d+ episode", run.stdout, re.MULTILINE)
    return run.stdout


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("words", "color"), [(CART_POLE, RED), (ANT, BROWN)], ids=["frames", "3d"])
def test_the_page_shows_the_environments(command, tmp_path, words, color):
    pytest.importorskip("mjviser", reason="pages need the extra rltrain[viewer]")
    image = pytest.importorskip("PIL.Image")
    port = free_port()
    process = command.start("play", *words, "--viewer", "viser", "--port", str(port))
    url = line(process, "watch it in ")
    assert url == f"http://127.0.0.1:{port}"
    with open_browser(tmp_path / "profile", *IN_SOFTWARE) as browser:

        def look():
            picture = image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
            return seen(np.asarray(picture), color)

        def click(name):
            (button,) = browser.find_elements("xpath", f"//button[normalize-space()='{name}']")
            button.click()

        def says(text):
            return text in browser.find_element("tag name", "body").text

        browser.get(url)
        wait_for(lambda: look() > 200, 90, every=0.5)
        click("Pause")
        wait_for(lambda: says("paused"), 30, every=0.5)
        click("Reset")
        wait_for(lambda: says("return 0.00"), 30, every=0.5)
        click("Step")
        wait_for(lambda: says("length 1\n"), 30, every=0.5)
        errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert errors == []
    interrupted(command, process)


@pytest.fixture
def display():
    """A virtual display, as DISPLAY names it."""
    if shutil.which("Xvfb") is None:
        pytest.skip("no Xvfb: apt-get install xvfb")
    reading, writing = os.pipe()
    process = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1100x750x24"],
        pass_fds=[writing],
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    with open(reading) as printed:
        yield f":{printed.readline().strip()}"
    process.terminate()
    process.wait(timeout=10)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_window_shows_the_environments(command, display):
    grab = pytest.importorskip("PIL.ImageGrab").grab
    process = command.start("play", *ANT, DISPLAY=display)
    assert line(process, "watch it in ").startswith("a window; keys: space (pause)")
    shown = lambda: seen(np.asarray(grab(xdisplay=display).convert("RGB")), BROWN)  # noqa: E731
    wait_for(lambda: shown() > 200, 90, every=0.5)
    interrupted(command, process)


@pytest.mark.slow
def test_a_display_that_is_not_there_is_named(command):
    run = command("play", *ANT, "--viewer", "native", DISPLAY=":99")
    assert run.returncode != 0
    assert re.search("(?i)glfw", run.stdout + run.stderr)
