"""The page in a real browser (headless Chromium): what a visitor does, from upload to blind vote. On the toy stack;
with ``TTS_DEMO_PAGE_STACK=nano`` on the bundled weights."""

from __future__ import annotations

import json
import os
import re
import threading
import zipfile

import pytest
from pages import browser, choose, needs_chromium, speak, upload, visit, write_number  # noqa: F401 (fixtures)
from toy import ToyStack, served, voice_file

from tts_demo.config import UserError
from tts_demo.methods import METHODS
from tts_demo.stacks import load_stack
from tts_demo.ui.page import voices

pytestmark = needs_chromium

TEXT = "Seven jazzy words."


@pytest.fixture(scope="module")
def stack():
    name = os.environ.get("TTS_DEMO_PAGE_STACK")
    return load_stack(name, "cpu", "float32") if name else ToyStack()


@pytest.fixture(scope="module")
def address(stack, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:  # a page that ships no voices and no runs: every test brings its own
        patch.setattr(voices, "examples", lambda *_: [])
        patch.setattr(voices, "ASSETS", tmp_path_factory.mktemp("assets"))
        with served(stack, max_seconds=30) as (url, _):
            yield url


def test_every_method_speaks_beside_the_baseline(visit, tmp_path):
    page = visit()
    upload(page, voice_file(tmp_path))
    page.fill("#text textarea", TEXT)
    for name in [*(n for n in METHODS if n != "baseline"), "baseline"]:
        choose(page, name)
        speak(page)
        lengths = page.evaluate("[TTSD.deck.tracks.baseline.seconds, TTSD.deck.tracks.method.seconds]")
        assert 0 < lengths[0] <= 2 and (lengths[1] > 0) == (name != "baseline"), name
        if name != "baseline":
            assert METHODS[name].title in page.inner_text("#player-method h3")
    assert page.locator(".inside-grid .panel-inside").count() == 1  # the last run was the baseline alone
    health = page.evaluate("Object.values(TTSD.deck.tracks).map(t => t.lost)")
    assert health == [0, 0]


@pytest.mark.parametrize("fails", [False, True])
def test_who_comes_while_the_model_loads_is_told_when_it_is_there(browser, fails):
    go_on = threading.Event()

    def load():
        go_on.wait(60)
        if fails:
            raise UserError("The weights are gone.")
        return ToyStack()

    with served(load) as (url, _):
        page = browser.new_context().new_page()
        page.goto(url)
        page.wait_for_selector("#mast:has-text('loading the model')")
        go_on.set()
        page.wait_for_selector("#status:has-text('weights are gone')" if fails else "#mast:has-text(' cores')")
        assert ("recorded runs only" in page.inner_text("#mast")) == fails
        page.wait_for_timeout(3000)  # the clock is off now, or ticks would go on for as long as the page is open
        calls = []
        page.on("request", lambda r: calls.append(r.url))
        page.wait_for_timeout(2500)
        assert not [url for url in calls if "heartbeat" not in url]
        page.context.close()


def test_sound_starts_soon_and_the_inside_shows_the_right_text(visit, stack, tmp_path):
    page = visit()
    upload(page, voice_file(tmp_path))
    page.fill("#text textarea", TEXT)
    speak(page)
    (wait,) = page.evaluate("[TTSD.deck.soundAt - TTSD.deck.tracks[TTSD.deck.side].first]")
    assert wait < 0.5 or page.evaluate("TTSD.deck.side") == "method"  # the method waits its turn behind the baseline
    page.locator(".panel-inside.method canvas").scroll_into_view_if_needed()
    box = page.locator(".panel-inside.method canvas").bounding_box()
    page.mouse.move(box["x"] + 90, box["y"] + 8)
    tip = page.inner_text(".panel-inside.method .tip")
    labels = stack.tokenize(TEXT)[1]
    assert re.match(rf"{labels[0]}( in “Seven”)? · 0\.\d\d s · weight 0\.\d+", tip), tip
    page.mouse.move(box["x"] + 90, box["y"] + 6 + 150)
    # the lowest rows are the last labels
    assert page.inner_text(".panel-inside.method .tip").split(" ")[0] in labels[-3:]
    page.mouse.click(box["x"] + 200, box["y"] + 40)
    assert page.evaluate("TTSD.deck.side") == "method" and page.evaluate("TTSD.deck.playing")
    assert page.evaluate("TTSD.deck.position()") > 0.1
    before = page.evaluate("[TTSD.deck.side, TTSD.deck.map('method', TTSD.deck.position())]")
    page.click("#player-method .swap")
    assert (
        page.evaluate("TTSD.deck.side") == "baseline" and abs(page.evaluate("TTSD.deck.position()") - before[1]) < 0.5
    )
    page.get_by_role("tab", name="Numbers").click()
    table = page.inner_text("#table")
    for word in ("Real-time factor, all", "KV cache, highest", "lower is better", f"{stack.name} stack", "seed 1"):
        assert word in table
    with page.expect_download() as download:
        page.get_by_role("tab", name="Runs").click()
        page.click("#zip")
    saved = tmp_path / "run.zip"
    download.value.save_as(saved)
    with zipfile.ZipFile(saved) as z:
        assert z.testzip() is None and json.loads(z.read("method/metrics.json"))["text"] == TEXT


def test_no_gap_while_faster_than_four_fifths_of_real_time(visit):
    """Pieces as the engine sends them, on a clock of our own, so that a busy machine tells no lies."""
    page = visit()
    play = """rtf => {
        const clock = performance.now; let t = 5000, made = 0; performance.now = () => t;
        const pcm = n => btoa("\\0".repeat(2 * n)), send = m => TTSD.deck.receive("baseline", { run: "r", sr: 16000,
        ...m }); TTSD.deck.halted = true; send({ kind: "start", seq: 1 }); [0.24, 0.48, 0.96, 1, 1, 1, 1].forEach((s, i)
        => { t += 1000 * rtf * s; send({ kind: "chunk", seq: i + 2, pcm: pcm(16000 * s), stats: { rtf } }); }); const k
        = TTSD.deck.tracks.baseline; performance.now = clock; return [k.underruns, k.heard - k.first, k.seconds,
        k.lost];
    }"""
    for rtf in (0.1, 0.4, 0.6, 0.7, 0.79):
        gaps, wait, seconds, lost = page.evaluate(play, rtf)
        assert gaps == 0 and wait < 0.5 and abs(seconds - 5.68) < 0.01 and lost == 0, rtf
    assert page.evaluate(play, 1.5)[0] > 2  # slower than real time must show


def test_stop_and_bad_voices(visit, tmp_path):
    page = visit("?max_seconds=30")
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"RIFF no audio")
    page.set_input_files("#voice input[type=file]", str(bad))
    page.wait_for_selector("#voice-note:has-text('not audio')")
    page.set_input_files("#voice input[type=file]", str(voice_file(tmp_path)))
    page.wait_for_selector("#voice-note:has-text('of speech')")
    page.click("#run")  # the consent tick is missing
    page.wait_for_selector("#status .status.error:has-text('your own voice')")
    page.check("#consent input")
    page.click("#run")
    page.wait_for_selector("#player-baseline .player[data-state=chunk]")
    page.keyboard.press("Escape")
    page.wait_for_selector("#status .status.stopped")
    assert 0 < page.evaluate("TTSD.deck.tracks.baseline.seconds") < 30 and not page.evaluate("TTSD.deck.playing")
    page.said.clear()  # refusals are shown by Gradio as errors; they are not faults of the page


def test_keyboard_alone_runs_a_blind_test(visit, tmp_path):
    page = visit()
    upload(page, voice_file(tmp_path))
    page.focus("#text textarea")
    assert not page.query_selector("#status .status.done")
    page.keyboard.press("Control+Enter")
    speak(page, press=False)
    page.get_by_role("tab", name="Blind test").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Start a blind test").focus()
    page.keyboard.press("Enter")
    page.evaluate("document.activeElement.blur()")
    assert page.is_disabled(".votes button >> nth=0") and "blind-on" in page.get_attribute("body", "class")
    for key in ("1", "2"):
        page.keyboard.press(key)
        page.wait_for_function(
            "k => document.querySelectorAll('.ab .bar')[k]?.style.width === '100%'", arg=int(key) - 1, polling=100
        )
    assert page.is_enabled(".votes button >> nth=0"), page.evaluate(
        "[TTSD.deck.side, document.querySelector('#blind').innerHTML]"
    )
    page.keyboard.press("b")
    page.wait_for_selector(".reveal:has-text('A was')")
    (vote,) = page.evaluate("JSON.parse(localStorage.getItem('tts-demo-blind-votes'))")
    assert vote["won"] == {"baseline": "method", "method": "baseline"}[vote["first"]]
    assert "95 % interval" in page.inner_text(".tally")


def test_a_link_brings_the_settings_back(visit):
    name = next(n for n in METHODS if n != "baseline")
    page = visit()
    choose(page, name)
    page.fill("#text textarea", "Linked words & more?")
    page.get_by_role("button", name="Seed and sampling").click()
    write_number(page, "#seed input", "77")
    # A link holds what the page knows when it is pressed; a typed number reaches the page a moment later.
    page.wait_for_function(
        """() => {
        document.querySelector('button#link, #link button').click();
        return ['Linked', 'seed=77'].every(part => location.search.includes(part));
    }""",
        polling=300,
    )
    other = visit(page.evaluate("location.search"))
    other.wait_for_function("document.querySelector('#text textarea')?.value === 'Linked words & more?'")
    assert other.is_checked(f"#method input[value='{name}']")
    other.get_by_role("button", name="Seed and sampling").click()
    other.wait_for_function("document.querySelector('#seed input')?.value === '77'")
    bad = visit("?method=nope")
    bad.wait_for_selector("#status .status.error:has-text('nope')")


def test_narrow_and_dark(visit):
    page = visit(viewport={"width": 390, "height": 844}, color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    colours = page.evaluate("['--ink', '--card', '--method'].map(c => TTSD.colour(c))")
    assert colours == ["#e8ebf0", "#171c23", "#ff9a5c"]
    for tab in ("Numbers", "Blind test"):
        if page.get_by_role("tab", name=tab).first.is_visible():
            page.get_by_role("tab", name=tab).first.click()
            assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_two_visitors_see_only_their_own(visit, tmp_path):
    ann, bob = visit(), visit()
    upload(ann, voice_file(tmp_path))
    ann.fill("#text textarea", "Only for Ann.")
    speak(ann)
    assert "Only for Ann" not in bob.content() and bob.evaluate("TTSD.deck.tracks.baseline.length") == 0
    bob.reload()
    bob.wait_for_function("window.TTSD && document.querySelectorAll('.card.player').length === 2")
    assert "Only for Ann" not in bob.content() and bob.locator("#voice audio, #voice .waveform-container").count() == 0
