"""The page in a real browser on the bundled weights: every method speaks a sentence, and shows what it looked at."""

from __future__ import annotations

import json
import re
import zipfile

import pytest
import soundfile
from pages import browser, choose, lanes, needs_chromium, speak, upload, visit  # noqa: F401 (fixtures)
from toy import served

from tts_demo import checkpoints
from tts_demo.methods import METHODS
from tts_demo.stacks import load_stack
from tts_demo.text import sentences as text
from tts_demo.ui import voices
from tts_demo.ui.page import handlers
from tts_demo.ui.run.transcriber import Transcriber

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not checkpoints.available(checkpoints.resolve("nano"), "lm"), reason="no bundled weights"),
]
TEXT = "The old ship left the harbour."


@pytest.fixture(scope="module")
def address():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transcriber, "available", False)  # no recogniser beside the runs
        patch.setattr(handlers, "MOST", 2)  # rounds: what they measure is not looked at
        with served(load_stack("nano", "cpu", "float32"), max_seconds=30) as (url, _):
            yield url


def test_every_method_speaks_and_shows_its_attention(visit, tmp_path):
    page = visit("?max_seconds=4")
    recording = tmp_path / "mine.wav"  # a bundled voice under another name and without its first sample: an upload
    samples, rate = soundfile.read(voices.examples()[0].path, dtype="int16")
    soundfile.write(recording, samples[1:], rate)
    upload(page, recording)
    page.fill("#text", TEXT)
    letters = set(text.encode(TEXT)[1])
    others = [n for n in METHODS if n != "baseline"]
    page.click("#add-lane")
    page.click("#add-lane")
    others += others[: -len(others) % 3]
    for names in (others[i : i + 3] for i in range(0, len(others), 3)):
        for i, name in enumerate(names):
            choose(page, name, i)
        speak(page)
        for lane in lanes(page):
            assert 0.5 < lane["seconds"] <= 4, lane["method"]
            canvas = page.locator(f"[data-id='{lane['id']}'] .scroller canvas")
            canvas.scroll_into_view_if_needed()
            box = canvas.bounding_box()
            page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 40)
            label = page.inner_text(f"[data-id='{lane['id']}'] .map .tip").split(" · ")[0].split(" in “")[0]
            assert label in letters, (lane["method"], label)
    with page.expect_download() as download:
        page.click("#zip")
    download.value.save_as(tmp_path / "run.zip")
    with zipfile.ZipFile(tmp_path / "run.zip") as z:
        assert z.testzip() is None
        told = [json.loads(z.read(n)) for n in z.namelist() if n.endswith("metrics.json")]
    assert len(told) == 4 and all(record["text"] == TEXT for record in told)


def test_speech_that_is_cut_names_the_words_that_may_be_missing(visit):
    page = visit("?max_seconds=2")
    page.fill("#text", "Take the second left after the bridge, where the bakery opens at seven.")
    speak(page)
    said = page.inner_text(".lane >> nth=0")
    assert re.search("Words may be missing: .*seven", said), said
    page.wait_for_selector("#preview summary:has-text('What will be said')")


def test_stop_ends_a_long_run(visit, tmp_path):
    page = visit("?max_seconds=30")
    page.fill(
        "#text", "A long sentence that goes on and on, and says very little while it does so, again and again. " * 4
    )
    page.click("#run")
    page.wait_for_function("Object.values(TTSD.deck.tracks).some(t => t.length && !t.complete)")
    page.keyboard.press("Escape")
    page.wait_for_selector("#status .status.stopped")
    assert 0 < lanes(page)[0]["seconds"] < 30
