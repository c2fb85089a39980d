"""The page in a real browser on the bundled weights: every method speaks a sentence, and shows what it looked at."""

from __future__ import annotations

import json
import zipfile

import pytest
import soundfile
from pages import browser, choose, needs_chromium, speak, upload, visit  # noqa: F401 (fixtures)
from toy import served

from tts_demo import checkpoints
from tts_demo.methods import METHODS
from tts_demo.stacks import load_stack
from tts_demo.text import sentences as text
from tts_demo.ui.page import voices

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not checkpoints.available(checkpoints.resolve("nano"), "lm"), reason="no bundled weights"),
]
TEXT = "The old ship left the harbour."


@pytest.fixture(scope="module")
def address():
    with served(load_stack("nano", "cpu", "float32"), max_seconds=30) as (url, _):
        yield url


def test_every_method_speaks_and_shows_its_attention(visit, tmp_path):
    page = visit("?max_seconds=4")
    recording = tmp_path / "mine.wav"  # a bundled voice under another name and without its first sample: an upload
    samples, rate = soundfile.read(voices.examples()[0].path, dtype="int16")
    soundfile.write(recording, samples[1:], rate)
    page.locator("#voice button[aria-label='Clear']").click()  # the page comes with a voice
    upload(page, recording)
    page.fill("#text textarea", TEXT)
    letters = set(text.encode(TEXT)[1])
    for name in [*(n for n in METHODS if n != "baseline"), "baseline"]:
        choose(page, name)
        speak(page)
        side = "baseline" if name == "baseline" else "method"
        assert 0.5 < page.evaluate(f"TTSD.deck.tracks.{side}.seconds") <= 4, name
        panel = page.locator(f".panel-inside.{side} canvas").first
        panel.scroll_into_view_if_needed()
        box = panel.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 40)
        label = page.inner_text(f".panel-inside.{side} .tip").split(" · ")[0].split(" in “")[0]
        assert label in letters, (name, label)
    page.get_by_role("tab", name="Runs").click()
    with page.expect_download() as download:
        page.click("#zip")
    download.value.save_as(tmp_path / "run.zip")
    with zipfile.ZipFile(tmp_path / "run.zip") as z:
        assert z.testzip() is None
        told = [json.loads(z.read(n)) for n in z.namelist() if n.endswith("metrics.json")]
    assert told and all(record["text"] == TEXT for record in told)


def test_stop_ends_a_long_run(visit, tmp_path):
    page = visit("?max_seconds=30")
    page.fill(
        "#text textarea",
        "A long sentence that goes on and on, and says very little while it does so, again and again. " * 4,
    )
    choose(page, "baseline")
    page.click("#run")
    page.wait_for_selector("#player-baseline .player[data-state=chunk]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#status .status.stopped")
    assert 0 < page.evaluate("TTSD.deck.tracks.baseline.seconds") < 30
