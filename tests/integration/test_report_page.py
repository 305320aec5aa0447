"""The page of `rltrain report` in a real browser."""

from __future__ import annotations

import base64
import io
import json

import pytest
from browsers import open_browser
from made_up_runs import make_run

from rltrain.cli.main import main

pytestmark = pytest.mark.slow

WIDTHS = (360, 1600)
PARTS = """
const size = element => {
  const box = element.getBoundingClientRect();
  return [box.width, box.height];
};
return {
  drawn: [...document.querySelectorAll('svg')].filter(svg => svg.checkVisibility()).map(size),
  video: document.querySelector('video').videoWidth,
  paper: getComputedStyle(document.body).backgroundColor,
  ink: getComputedStyle(document.querySelector('svg text')).fill,
  width: document.documentElement.scrollWidth,
  room: document.documentElement.clientWidth,
};
"""


@pytest.fixture
def browser(tmp_path):
    """A browser that notes its console and its requests."""
    with open_browser(tmp_path / "profile") as opened:
        yield opened


def video(path):
    """Return the bytes of a video of two frames."""
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    writer = imageio_ffmpeg.write_frames(str(path), (64, 48))
    writer.send(None)
    for shade in (0, 255):
        writer.send(bytes([shade]) * (64 * 48 * 3))
    writer.close()
    return path.read_bytes()


def requests(browser):
    """Return the addresses that the browser has asked for; data in the page is no request."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in urls if not url.startswith("data:")]


def resized(browser, width, scheme):
    """Give the page this width, and its reader a light or dark theme."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


@pytest.mark.timeout(180)
def test_the_page_works_without_a_network_at_any_width_light_and_dark(tmp_path, browser):
    media = (("clip.mp4", video(tmp_path / "clip.mp4")),)
    runs = [
        make_run(tmp_path / "a", seed=1, media=media, warning="A rank with a " + "long" * 60),
        make_run(tmp_path / "b", seed=2, success=True),
        make_run(tmp_path / "c", library="skrl", value="Loss / Policy loss", ranks=3),
    ]
    assert main(["report", *map(str, runs), "--output", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").as_uri()
    seen = {}
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            resized(browser, width, scheme)
            browser.get(page)
            found = seen[width, scheme] = browser.execute_script(PARTS)
            assert len(found["drawn"]) >= 10
            assert all(side > 100 for size in found["drawn"] for side in size)
            assert found["video"] == 64
            assert found["width"] <= found["room"], "the page scrolls sideways"
    assert browser.get_log("browser") == []
    assert set(requests(browser)) == {page}
    light, dark = seen[360, "light"], seen[360, "dark"]
    assert light["paper"] != dark["paper"]
    assert light["ink"] != dark["ink"]


def shades(table):
    """Return how far the colors at a table's left and right edge are from those of its middle."""
    import matplotlib.image

    png = io.BytesIO(base64.b64decode(table.screenshot_as_base64))
    row = matplotlib.image.imread(png)[2, :, :3]  # Above the text of the first row.
    paper = row[len(row) // 2]
    return [float(abs(row[at] - paper).max()) for at in (1, -2)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_wide_table_has_a_shade_at_the_edge_beyond_which_it_goes_on(tmp_path, browser, scheme):
    run = make_run(tmp_path / "a")
    assert main(["report", str(run), "--output", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").as_uri()
    resized(browser, 400, scheme)
    browser.get(page)
    table = browser.find_element("css selector", ".scroll")
    left, right = shades(table)
    assert (left < 0.02, right > 0.1) == (True, True)
    browser.execute_script("arguments[0].scrollLeft = 1e6", table)
    left, right = shades(table)
    assert (left > 0.1, right < 0.02) == (True, True)
    resized(browser, 1600, scheme)
    assert max(shades(table)) < 0.02


def test_a_reader_points_at_the_values_of_a_picture(tmp_path, browser):
    run = make_run(tmp_path / "a")
    assert main(["report", str(run), "--output", str(tmp_path / "out")]) == 0
    browser.get((tmp_path / "out" / "report.html").as_uri())
    pointed_at = """
const curve = document.querySelector('svg');
curve.scrollIntoView({behavior: 'instant', block: 'center'});
const box = curve.getBoundingClientRect();
return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2).textContent;
"""
    assert "\nrl_games (n=1): " in browser.execute_script(pointed_at)
