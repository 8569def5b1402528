"""A real Chromium for pages, and what to ask of any of them."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--window-size=1200,900"
)
needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="chromium and chromedriver are not installed"
)


@contextlib.contextmanager
def chromium_in(folder: Path) -> Iterator[webdriver.Chrome]:
    """Start a browser whose profile lies in a folder; it logs what it fetches and complains of."""
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in (*FLAGS.split(), f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


@contextlib.contextmanager
def wide(page: webdriver.Chrome, width: int) -> Iterator[None]:
    """Show the page on a screen of this width."""
    screen = {"width": width, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        page.refresh()
        yield
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@contextlib.contextmanager
def scheme(page: webdriver.Chrome, name: str) -> Iterator[None]:
    """Show the page as a reader of light or dark screens sees it."""
    features = [{"name": "prefers-color-scheme", "value": name}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def luminance(page: webdriver.Chrome, selector: str, what: str) -> float:
    colour = page.execute_script(
        f"return getComputedStyle(document.querySelector('{selector}')).{what}"
    )
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(page: webdriver.Chrome, ink: str, ground: str) -> float:
    """Return the contrast of an element's text with another's ground, as WCAG 2.2 defines it."""
    pair = luminance(page, ink, "color"), luminance(page, ground, "backgroundColor")
    return (max(pair) + 0.05) / (min(pair) + 0.05)


def fetched(page: webdriver.Chrome) -> list[str]:
    """Return the addresses that pages have asked for since this was last called."""
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    urls = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
    return [url for url in urls if not url.startswith("chrome")]  # the browser's own first page
