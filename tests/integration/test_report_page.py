"""The page of `rltrain report` in a real browser."""

from __future__ import annotations

import json

import pytest
from browsers import open_browser
from made_up_runs import make_run

from rltrain.cli.main import main

pytestmark = pytest.mark.slow

WIDTHS = (360, 1600)
PARTS = """
const shown = [...document.images].filter(image => image.checkVisibility());
return {
  pictures: shown.map(image => [image.naturalWidth, image.clientWidth, image.clientHeight]),
  paper: getComputedStyle(document.body).backgroundColor,
  width: document.documentElement.scrollWidth,
  room: document.documentElement.clientWidth,
};
"""


@pytest.fixture
def browser(tmp_path):
    with open_browser(tmp_path / "profile") as opened:
        yield opened


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
    runs = [
        make_run(tmp_path / "a", seed=1, warning="A rank with a " + "long" * 60),
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
            assert len(found["pictures"]) >= 10
            assert all(side > 100 for size in found["pictures"] for side in size)
            assert found["width"] <= found["room"], "the page scrolls sideways"
    assert browser.get_log("browser") == []
    assert set(requests(browser)) == {page}
    assert seen[360, "light"]["paper"] != seen[360, "dark"]["paper"]
