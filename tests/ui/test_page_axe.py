"""axe-core finds no serious violation on any tab, in both themes, on a wide page and a phone. Its script is fetched
from npm into a temporary folder; where there is no npm the test is skipped."""

from __future__ import annotations

import shutil
import subprocess
import tarfile

import pytest
from pages import arrived, browser, needs_chromium, open_tab, visit  # noqa: F401 (fixtures)
from toy import ToyStack, served

pytestmark = [needs_chromium, pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")]
TABS = ("Figures", "Blind test", "Earlier runs", "How it works")


@pytest.fixture(scope="module")
def address():
    with served(ToyStack(), max_seconds=30) as (url, _):
        yield url


@pytest.fixture(scope="module")
def axe(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("axe")
    fetched = subprocess.run(["npm", "pack", "axe-core@4"], cwd=folder, capture_output=True, text=True, timeout=120)
    if fetched.returncode:
        pytest.skip("axe-core could not be fetched from npm")
    with tarfile.open(next(folder.glob("*.tgz"))) as package:
        return package.extractfile("package/axe.min.js").read().decode()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width, height", [(1440, 900), (390, 844)])
def test_no_serious_violation_on_any_tab(visit, axe, width, height, scheme):
    page = visit(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.wait_for_selector(".lane .map")  # the recorded run that ships with the page
    page.evaluate(axe)
    page.click("#tour-next")  # the first tab with the guided tour over it
    for tab in TABS:
        open_tab(page, tab)
        found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        grave = [(v["id"], v["nodes"][0]["target"]) for v in found if v["impact"] in ("serious", "critical")]
        assert not grave, (tab, grave)
        if page.is_visible("#tour-skip"):
            page.click("#tour-skip")
