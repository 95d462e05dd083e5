"""A real browser that tests look at pages with: Debian's chromium and its driver."""

import os
import shutil
import time
from pathlib import Path

import pytest
from flows import WAIT_S

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --window-size=1366,900 "
    "--disable-background-networking --disable-component-update --disable-sync"
)


def started_browser(folder):
    """A browser whose files are in a folder; the test is skipped without one."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), f"--user-data-dir={folder}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    browser.set_script_timeout(WAIT_S)
    return browser


def until(browser, script, *arguments):
    """Wait until a script returns something; return it."""
    end = time.monotonic() + 60
    while not (found := browser.execute_script(script, *arguments)):
        assert time.monotonic() < end, browser.execute_script("return document.body.innerText")
        time.sleep(0.05)
    return found


def choose(browser, query):
    """Click on a query of the list, and wait for its details."""
    until(
        browser,
        """for (const row of document.querySelectorAll("#queries tbody tr")) {
             if (row.dataset.query === arguments[0]) { row.click(); return true; } }""",
        query,
    )
    until(
        browser,
        """return document.querySelector("#queries tr.chosen")?.dataset.query === arguments[0]
             && document.getElementById("chosen") !== null""",
        query,
    )


def fields(browser, place):
    """The fields of a part of the page: raw values and texts, by name."""
    return browser.execute_script(
        """return Object.fromEntries([...document.querySelectorAll(arguments[0] + " [data-field]")]
             .map((one) => [one.dataset.field, [one.dataset.value ?? null, one.textContent]]))""",
        place,
    )


def leave(browser):
    """Leave the page before its server ends; return the errors in its console."""
    browser.get("about:blank")
    return [one for one in browser.get_log("browser") if one["level"] == "SEVERE"]


def picture(browser, name, width=1366):
    """Take a picture of the whole page, if pictures are wanted."""
    folder = os.environ.get("PENSTOCK_PICTURES")
    if folder:
        height = browser.execute_script(
            "return document.documentElement.scrollHeight + outerHeight - innerHeight"
        )
        browser.set_window_size(width, min(height, 2_000))
        time.sleep(0.5)
        browser.save_screenshot(str(Path(folder, f"{name}.png")))
        browser.set_window_size(1366, 900)
