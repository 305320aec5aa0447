"""A real browser without a window, and without requests of its own."""

from __future__ import annotations

import contextlib
import shutil

import pytest

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
IN_SOFTWARE = ("--enable-unsafe-swiftshader", "--use-gl=angle", "--use-angle=swiftshader")
"""Flags for WebGL without a GPU."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def open_browser(profile, *flags):
    """Open a browser that notes its console and its requests; skip the test if there is none.

    Args:
        profile: a folder that does not exist yet.
        flags: further ones.
    """
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install selenium")
    from selenium.webdriver.chrome.service import Service

    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no chromium with its chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, *flags, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    try:
        opened.set_page_load_timeout(60)
        opened.get("about:blank")
        opened.get_log("performance")  # Of the browser's own first page.
        yield opened
    finally:
        opened.quit()
