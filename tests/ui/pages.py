"""A visitor's hands and eyes on the page: fixtures and moves that the browser tests share. A test file that imports the
fixtures brings its own ``address``."""

from __future__ import annotations

import shutil

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine; CI installs it")
SCRIPTS = "async () => { window.TTSD = await import(document.querySelector('script[src$=\"main.js\"]').src); }"
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
        page = newcomer(browser, address, **options)
        pages.append(page)
        page.goto(address + query)
        arrived(page)
        return page

    yield go
    for page in pages:
        assert page.said == [] and page.fetched == []
        page.context.close()


def newcomer(browser, address, **options):
    """A page of somebody who was never here. ``said``: what its console says; ``fetched``: from elsewhere."""
    page = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options}).new_page()
    page.set_default_timeout(180_000)  # a busy machine
    page.said, page.fetched = [], []
    page.on(
        "console",
        lambda m: page.said.append(m.text) if m.type in ("error", "warning") and m.text not in KNOWN else None,
    )
    page.on("pageerror", lambda e: page.said.append(str(e)))
    page.on(
        "request", lambda r: page.fetched.append(r.url) if not r.url.startswith((address, "data:", "blob:")) else None
    )
    return page


def arrived(page):
    """The form is drawn and the link's settings and the recorded take, if any, have come."""
    page.wait_for_selector("#count:has-text('characters')")
    page.evaluate(SCRIPTS)
    page.wait_for_function("TTSD.form.value() && document.querySelector('#board .board')")
    page.wait_for_selector("#status .status.done, #status .status.error, #status .status.idle")
    page.wait_for_timeout(600)


def upload(page, path):
    page.set_input_files("#voice-file", str(path))
    page.wait_for_selector("#voice-note:has-text('of speech')")
    page.check("#consent")
    drawn = "getComputedStyle(document.querySelector('#consent')).appearance"
    assert page.evaluate(drawn) == "auto"  # else a tick is not seen


def speak(page, press=True):
    if press:  # of a run begun otherwise, the end may already stand there
        page.evaluate("document.querySelector('#status .status').classList.remove('done', 'stopped')")
        page.click("#run")
    page.wait_for_selector("#status .status.done, #status .status.stopped, #status .status.error")
    assert "error" not in page.get_attribute("#status .status", "class"), page.inner_text("#status")
    page.wait_for_function("!TTSD.board.busy()", timeout=180_000)  # what follows in the background is done too


def choose(page, name, lane=0):
    """Give a lane another method."""
    page.click(f".lane-tab .pick[data-lane='{lane}']")
    page.click(f"#method-{name}")
    page.wait_for_function("([n, i]) => TTSD.form.value().lanes[i].method === n", arg=[name, lane])


def lanes(page):
    """The lanes on the board, without their sound and pictures."""
    keep = "id take title method options dials made seconds figures speed warnings conditions recorded".split()
    return page.evaluate("keep => TTSD.board.lanes().map(l => Object.fromEntries(keep.map(k => [k, l[k]])))", keep)


def open_tab(page, name):
    """A tab, which may stand behind the three dots of a narrow page."""
    tab = page.get_by_role("tab", name=name).first
    if not tab.is_visible():
        page.locator("#views .overflow-menu > button").click()
    page.get_by_role("tab", name=name).first.click() if tab.is_visible() else page.get_by_text(name).last.click()
