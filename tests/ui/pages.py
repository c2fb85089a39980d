"""A visitor's hands and eyes on the page: fixtures and moves that the browser tests share. A test file that imports the
fixtures brings its own ``address``."""

from __future__ import annotations

import shutil

import pytest

from tts_demo.methods import METHODS

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; CI installs it")
KNOWN = ("Method not implemented.",)  # Gradio's own EventSource stub says so on every page load


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as p:
        chromium = p.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        )
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, address):
    """Open the page as a new visitor. Afterwards: nothing in the console, nothing fetched from elsewhere."""
    pages = []

    def go(query="?max_seconds=2", **options):
        context = (
            browser.new_context(viewport={"width": 1440, "height": 900}, **options)
            if "viewport" not in options
            else browser.new_context(**options)
        )
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.said, page.fetched = [], []
        page.on(
            "console",
            lambda m: page.said.append(m.text) if m.type in ("error", "warning") and m.text not in KNOWN else None,
        )
        page.on("pageerror", lambda e: page.said.append(str(e)))
        page.on(
            "request",
            lambda r: page.fetched.append(r.url) if not r.url.startswith((address, "data:", "blob:")) else None,
        )
        pages.append(page)
        page.goto(address + query)
        page.wait_for_function("window.TTSD && document.querySelectorAll('.card.player').length === 2")
        page.wait_for_selector("#count:has-text('characters')")  # the last thing a page load fills in
        return page

    yield go
    for page in pages:
        assert page.said == [] and page.fetched == []
        page.context.close()


def upload(page, path):
    page.set_input_files("#voice input[type=file]", str(path))
    page.wait_for_selector("#voice-note:has-text('of speech')")
    page.check("#consent input")


def speak(page, press=True):
    if press:  # of a run begun otherwise, the end may already stand there
        page.evaluate("document.querySelector('#status .status').classList.remove('done', 'stopped')")
        page.click("#run")
    page.wait_for_selector("#status .status.done, #status .status.stopped, #status .status.error")
    assert "error" not in page.get_attribute("#status .status", "class"), page.inner_text("#status")


def choose(page, name):
    page.click(f"#method label:has(input[value='{name}'])")
    page.wait_for_function(
        "name => document.querySelector('#card').textContent.includes(name)", arg=METHODS[name].cached[:20]
    )


def write_number(page, selector, value):
    """Type a number where a fold has just opened. Gradio draws the field first and gives it the page's value up to some
    50 ms later, over whatever a script (no person is that fast) has written by then: write until it stays."""
    for _ in range(20):
        page.fill(selector, value)
        page.locator(selector).blur()
        page.wait_for_timeout(250)
        if page.input_value(selector) == value:
            return
    raise AssertionError(f"{selector} does not keep {value}")
