"""The page in a real browser (headless Chromium): what a visitor does, from upload to blind vote. On the toy stack;
with ``TTS_DEMO_PAGE_STACK=nano`` on the bundled weights."""

from __future__ import annotations

import json
import os
import re
import threading
import zipfile

import pytest
from pages import arrived, browser, choose, lanes, needs_chromium, newcomer, open_tab, speak, upload, visit  # noqa: F401 (fixtures)
from toy import ToyStack, served, voice_file

from tts_demo import voices as bundle
from tts_demo.config import UserError
from tts_demo.methods import METHODS
from tts_demo.stacks import load_stack
from tts_demo.ui.run.transcriber import Transcriber

pytestmark = needs_chromium

TEXT = "Seven jazzy words."
KEY = "document.activeElement.dataset.key"


@pytest.fixture(scope="module")
def stack():
    name = os.environ.get("TTS_DEMO_PAGE_STACK")
    return load_stack(name, "cpu", "float32") if name else ToyStack()


@pytest.fixture(scope="module")
def address(stack, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:  # a page that ships no voices and no runs: every test brings its own
        patch.setattr(bundle, "ASSETS", tmp_path_factory.mktemp("assets"))
        patch.setattr(Transcriber, "available", False)  # no recogniser beside the runs
        with served(stack, max_seconds=30) as (url, _):
            yield url


def ready(page, tmp_path, text=TEXT):
    upload(page, voice_file(tmp_path))
    page.fill("#text", text)


def test_every_method_speaks_beside_the_baseline(visit, tmp_path):
    page = visit()
    ready(page, tmp_path)
    others = [n for n in METHODS if n != "baseline"]
    page.click("#add-lane")
    page.click("#add-lane")
    assert not page.query_selector("#add-lane")  # three settings beside the baseline, no more
    others += others[-1:] * (-len(others) % 3)  # the last time one method twice
    for names in (others[i : i + 3] for i in range(0, len(others), 3)):
        for i, name in enumerate(names):
            choose(page, name, i)
        speak(page)
        shown = lanes(page)
        assert [lane["method"] for lane in shown] == ["baseline", *names]
        assert all(0 < lane["seconds"] <= 2 and lane["made"]["text"] == TEXT for lane in shown)
        assert all(lane["speed"]["rounds"] == 5 for lane in shown)
        said = page.inner_text(".headline .shared")  # once for all of them
        assert all(word in said for word in (TEXT, "your own voice", "seed 1"))
        for lane in shown[1:]:
            card = page.inner_text(f"[data-id='{lane['id']}']")
            for word in (METHODS[lane["method"]].title, "Everything, RTF", "Language model, RTF", "Words misheard"):
                assert word in card
            page.click(f"[data-id='{lane['id']}'] .diagnostics summary")
            more = page.inner_text(f"[data-id='{lane['id']}'] .diagnostics")
            assert re.search(r"as fast|times (faster|slower)", card) and "in 5 rounds" in more and "passes" in more
    assert page.evaluate("TTSD.board.lost()") == 0
    assert page.locator(".lane .map").count() == 4


def test_lanes_can_be_pinned_removed_and_laid_beside_new_ones(visit, tmp_path):
    page = visit()
    ready(page, tmp_path)
    speak(page)
    first = lanes(page)
    page.click(f"[data-id='{first[1]['id']}'] .diagnostics summary")
    page.click(f"[data-id='{first[1]['id']}'] button:has-text('Pin')")
    page.click(f"[data-id='{first[0]['id']}'] button[aria-label^='Remove']")
    page.fill("#text", "Other words now.")
    assert [lane["made"]["text"] for lane in lanes(page)] == [TEXT]  # what was typed since does not touch it
    speak(page)
    shown = lanes(page)
    assert [lane["made"]["text"] for lane in shown] == ["Other words now."] * 2 + [TEXT]
    assert "earlier run" in page.inner_text(f"[data-id='{first[1]['id']}']")
    open_tab(page, "Earlier runs")
    page.click(".take:last-child button:has-text('Lay beside')")
    assert [lane["id"] for lane in lanes(page)][-1] == first[0]["id"]
    assert page.evaluate(KEY) == f"show {first[0]['take']}"  # the focus goes to what stood next
    page.reload()
    arrived(page)
    assert [lane["id"] for lane in lanes(page)] == [*(lane["id"] for lane in shown), first[0]["id"]]
    assert page.input_value("#text") == "Other words now."  # the form is kept as well
    page.click(f"[data-id='{first[1]['id']}'] .play")  # and they can be heard
    page.wait_for_function("TTSD.deck.playing")
    open_tab(page, "Earlier runs")
    page.click("button:has-text('Use its settings') >> nth=1")
    assert page.input_value("#text") == TEXT
    page.click("text=Bring back what I typed")
    assert page.input_value("#text") == "Other words now."
    for button in ("Show this run", "Forget"):
        page.click(f"button:has-text('{button}') >> nth=0")
        assert page.evaluate(KEY)
        said = page.inner_text("#status")
        assert ("kept in this browser" if lanes(page) else "The board is empty") in said


def test_pinned_lanes_that_find_no_room_are_told(visit, tmp_path):
    page = visit("?max_seconds=1")
    ready(page, tmp_path)
    page.click("#add-lane")
    page.click("#add-lane")
    for word in ("4 results", "2 pinned results have made room"):
        speak(page)
        for i in range(4):
            if word == "4 results":
                page.click(f".lane >> nth={i} >> .diagnostics summary")
                page.click(f".lane >> nth={i} >> button[aria-label^='Pin']")
    assert word in page.inner_text("#board") and len(lanes(page)) == 6


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
        assert not [url for url in calls if "heartbeat" not in url and not url.endswith("/health")]
        page.context.close()


def test_sound_starts_soon_and_the_map_shows_the_right_text(visit, stack, tmp_path):
    page = visit()
    ready(page, tmp_path)
    speak(page)
    base, other = (lane["id"] for lane in lanes(page))
    heard, first = page.evaluate("id => [TTSD.deck.tracks[id].heard, TTSD.deck.tracks[id].first]", base)
    assert 0 <= heard - first < 1.5
    canvas = page.locator(f"[data-id='{other}'] .scroller canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 8)
    tip = page.inner_text(f"[data-id='{other}'] .map .tip")
    labels = stack.tokenize(TEXT)[1]
    assert re.match(rf"{labels[0]}( in “Seven”)? · 0\.\d\d s · weight 0\.\d+", tip), tip
    page.mouse.click(box["x"] + box["width"] / 3, box["y"] + 40)
    assert page.evaluate("TTSD.deck.lane") == other and page.evaluate("TTSD.deck.playing")
    there = page.evaluate("([a, b]) => TTSD.deck.map(a, b, TTSD.deck.position())", [other, base])
    page.click(f"[data-id='{base}'] .swap")
    assert page.evaluate("TTSD.deck.lane") == base and abs(page.evaluate("TTSD.deck.position()") - there) < 0.5
    for zoom in ("2", "4"):
        page.click(f".zoom button:has-text('×{zoom}')")
    wide = page.evaluate("[...document.querySelectorAll('.scroller')].map(s => s.scrollWidth / s.clientWidth)")
    assert all(w > 3.5 for w in wide)
    page.evaluate("document.querySelectorAll('.scroller')[0].scrollLeft = 120")
    page.wait_for_function("document.querySelectorAll('.scroller')[1].scrollLeft === 120")  # maps scroll together
    assert page.locator(".gutter").first.bounding_box()["x"] >= page.locator(".lane").first.bounding_box()["x"]
    table = page.inner_text("#figures")
    for word in (
        "Passes of the model",
        "(LM-RTF)",
        "KV cache at",
        "lower is better",
        f"{stack.name} stack",
        "of its baseline",
    ):
        assert word in table
    with page.expect_download() as download:
        page.click("#zip")
    saved = tmp_path / "lanes.zip"
    download.value.save_as(saved)
    with zipfile.ZipFile(saved) as z:
        assert z.testzip() is None and json.loads(z.read("0-baseline/metrics.json"))["text"] == TEXT
    with page.expect_download() as download:
        page.click(f"[data-id='{base}'] button:has-text('Save audio')")
    assert download.value.suggested_filename == "baseline-seed1.wav"


def test_playing_waits_as_long_as_it_must_and_no_longer(visit):
    """Pieces as the engine sends them, arriving at ``pace`` seconds per second of audio: none is late."""
    page = visit()
    for pace in (0.1, 0.5, 0.8, 1.2, 3.0):
        have, last, left = 0.24, 0.24, 6.0
        wait = max(0.0, page.evaluate("a => TTSD.bufferWait(...a)", [have, last, pace, left]))
        arrives, played, size, late = 0.0, have, last, []
        while left > 1e-6:
            size = min(2.5, 2 * size, left)
            arrives, left = arrives + size * pace, left - size
            late.append(arrives - played - wait)
            played += size
        assert max(late) <= 1e-6 and (wait == 0 or max(late) > -1e-6), pace
        assert wait < 0.5 if pace < 0.4 else True


def test_stop_and_bad_voices(visit, tmp_path, stack, monkeypatch):
    monkeypatch.setattr(stack, "pause", 0.05, raising=False)  # the run lasts, so that there is something to stop
    page = visit("?max_seconds=30")
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"RIFF no audio")
    page.set_input_files("#voice-file", str(bad))
    page.wait_for_selector("#voice-note.bad")
    assert page.inner_text("#voice-note").count(".") <= 2
    page.set_input_files("#voice-file", str(voice_file(tmp_path)))  # a new one always replaces
    page.wait_for_selector("#voice-note:has-text('of speech')")
    page.fill("#text", "A long text that goes on and on. " * 8)
    page.click("#run")  # the consent tick is missing
    page.wait_for_selector("#status .status.error:has-text('your own voice')")
    page.check("#consent")
    page.focus("#run")
    page.keyboard.press("Enter")
    page.wait_for_function("Object.values(TTSD.deck.tracks).some(t => t.length && !t.complete)")
    assert page.is_disabled("#run") and page.inner_text("#run") == "Running…"
    assert page.evaluate("document.activeElement.id") == "stop"
    page.keyboard.press("Escape")
    page.wait_for_selector("#status .status.stopped")
    page.wait_for_selector("#run:enabled:has-text('Speak')")
    assert page.is_disabled("#stop") and page.evaluate("document.activeElement.id") == "run"
    page.wait_for_function("TTSD.board.lanes().every(TTSD.count.done)")
    first = lanes(page)[0]
    assert 0 < first["seconds"] < 30 and not page.evaluate("TTSD.deck.playing")
    assert "Stopped before the end" in page.inner_text(f"[data-id='{first['id']}'] .warnings")


def test_a_run_refused_once_begun_leaves_what_stood_there(visit, tmp_path):
    page = visit()
    ready(page, tmp_path)
    speak(page)
    there = [lane["id"] for lane in lanes(page)]
    page.fill("#text", ".")  # passes the form, and holds no sentence
    page.click("#run")
    page.wait_for_selector("#status .status.error")
    page.wait_for_function("TTSD.board.lanes().every(TTSD.count.done)")
    assert [lane["id"] for lane in lanes(page)] == there


def test_text_is_never_lost(visit):
    page = visit()
    mine = "My own words, typed by hand. "
    page.fill("#text", mine)
    for _ in range(12):
        page.keyboard.press("Tab")
    assert page.input_value("#text") == mine  # tabbing past the examples takes nothing
    page.click(".examples button >> nth=0")
    page.click(".examples button >> nth=0")
    assert page.input_value("#text") != mine
    page.click("text=Bring back what I typed")
    assert page.input_value("#text") == mine
    long = "word " * 200
    page.fill("#text", long)
    assert page.input_value("#text") == long and "too many" in page.inner_text("#over")
    page.click("#run")
    page.wait_for_selector("#status .status.error:has-text('shorten')")
    assert page.input_value("#text") == long
    page.fill("#text", "\N{GRINNING FACE}" * 3)
    assert page.inner_text("#count").startswith("3 of")  # as the server counts
    page.fill("#text", "One here. Two there.")
    page.wait_for_selector("#preview summary:has-text('2 sentences')")


def test_presets_follow_the_dials_and_arrows_move_the_focused_slider(visit):
    page = visit()
    choose(page, "tldr")
    on = "[...document.querySelectorAll('.presets [aria-pressed=true]')].map(b => b.textContent)"
    page.click(".presets button:has-text('Saves most')")
    assert page.evaluate(on) == ["Saves most"] and page.input_value("#dial-patch_size") == "8"
    slider = page.locator(".editor input[type=range]").first
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert page.input_value("#dial-patch_size") == "7"
    assert page.evaluate(on) == [] and "Custom" in page.inner_text(".presets")
    page.fill("#dial-patch_size", "4")
    page.locator("#dial-patch_size").blur()
    assert page.evaluate(on) == ["Balanced"]
    page.focus(".presets button >> nth=0")
    page.keyboard.press("Enter")
    assert page.evaluate(KEY) == "Saves most"
    for typed, used in (("99", 8), ("", 8), ("3.6", 4), ("0", 1)):  # the box says what is used
        page.fill("#dial-patch_size", typed)
        page.locator("#dial-patch_size").blur()
        assert page.input_value("#dial-patch_size") == str(used) == slider.input_value()
        assert page.evaluate("TTSD.form.value().lanes[0].options.patch_size") == used
    for press, then in (("#add-lane", "pick 1"), ("[data-key='remove 1']", "add"), ("[data-key='remove 0']", "add")):
        page.focus(press)
        page.keyboard.press("Enter")
        assert page.evaluate(KEY) == then


def test_keyboard_alone_runs_a_blind_test(visit, tmp_path):
    page = visit("?max_seconds=4")
    ready(page, tmp_path)
    page.focus("#text")
    page.keyboard.press("Control+Enter")
    speak(page, press=False)
    open_tab(page, "Blind test")
    page.get_by_role("button", name="Start a blind test").focus()
    page.keyboard.press("Enter")
    for round_number in (1, 2):
        page.evaluate("document.activeElement.blur()")
        assert page.is_disabled(".votes button >> nth=0") and not page.is_visible("#board")
        for key in ("1", "2"):
            page.keyboard.press(key)
            page.wait_for_function(
                "k => document.querySelectorAll('.ab .bar')[k]?.style.width === '100%'", arg=int(key) - 1, polling=100
            )
        page.keyboard.press("b")
        page.wait_for_selector(".reveal:has-text('A was')")
        votes = page.evaluate("JSON.parse(localStorage.getItem('tts-demo-blind-votes'))")
        assert len(votes) == round_number and votes[-1]["won"] == votes[-1]["B"]
        if round_number == 1:
            page.click("text=Next round")
    assert "95 % interval" in page.inner_text(".tally") and page.is_visible("#board")
    page.get_by_role("button", name="Next round").press("Enter")
    assert not page.is_visible("#board") and page.evaluate("document.activeElement.textContent").startswith("A")
    open_tab(page, "Figures")
    page.wait_for_selector("#board", state="visible")
    assert page.is_visible("#status")
    open_tab(page, "Blind test")
    assert "ended when you left" in page.inner_text(".reveal") and page.is_visible("#board")


def test_a_link_brings_the_settings_back(visit):
    page = visit()
    choose(page, "dcar")
    page.fill("#text", "Linked words & more?")
    page.click("#more summary")
    page.fill("#seed", "77")
    page.locator("#seed").blur()
    page.click("#link")
    page.wait_for_function("location.search.includes('seed=77')")
    other = visit(page.evaluate("location.search"))
    other.wait_for_function("document.querySelector('#text').value === 'Linked words & more?'")
    assert other.evaluate("TTSD.form.value().lanes") == page.evaluate("TTSD.form.value().lanes")
    assert other.evaluate("TTSD.form.value().seed") == 77
    other.fill("#text", "Typed later.")
    other.reload()
    arrived(other)
    assert other.input_value("#text") == "Typed later." and other.evaluate("TTSD.form.value().seed") == 77
    for link, words in (("?voice=Zed", "“Zed”, which is not here"), ("?voice=", "own voice, which a link cannot")):
        visit(link).wait_for_selector(f"#voice-note.bad:has-text('{words}')")
    bad = visit("?lane=nope")
    bad.wait_for_selector("#status .status.error:has-text('nope')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width, height", [(1440, 900), (1024, 768), (390, 844)])
def test_the_page_fits_every_screen(visit, tmp_path, width, height, scheme):
    page = visit(viewport={"width": width, "height": height}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    box = page.locator("#run").bounding_box()
    assert box["y"] + box["height"] <= height  # Speak is within the first screen
    ready(page, tmp_path)
    speak(page)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if width < 760:  # lanes are swiped
        assert page.evaluate("(e => e.scrollWidth > e.clientWidth)(document.querySelector('.lanes'))")
        page.evaluate("document.querySelector('.lanes').scrollTo(9999, 0)")
        page.wait_for_function("document.querySelectorAll('.lane')[1].getBoundingClientRect().left < 70")
    for tab in ("Figures", "Blind test", "Earlier runs", "How it works"):
        open_tab(page, tab)
        assert page.evaluate("document.documentElement.scrollWidth") == width, tab
    ink = page.evaluate("TTSD.cssColour('--ink')")
    assert ink == {"light": "#1c2430", "dark": "#e8ebf0"}[scheme]


def test_two_visitors_see_only_their_own(visit, tmp_path):
    ann, bob = visit(), visit()
    ready(ann, tmp_path, "Only for Ann.")
    speak(ann)
    assert "Only for Ann" not in bob.content() and bob.evaluate("TTSD.board.ids()") == []
    bob.reload()
    arrived(bob)
    assert "Only for Ann" not in bob.content()


BROKEN = {
    "form": {"text": 5, "lanes": "tldr", "seed": 2**60, "temperature": "warm", "max_seconds": None, "voice": ["x"]},
    "board": {"shown": "x", "pinned": 5},
    "blind-votes": "many",
    "toured": "yes",
}


@pytest.mark.parametrize("entries", [BROKEN, {"form": 5, "board": []}, {"form": {"lanes": [None, {"method": []}]}}])
def test_broken_entries_in_the_browsers_storage_are_dropped(browser, address, entries):
    page = newcomer(browser, address)
    kept = {f"tts-demo-{key}": json.dumps(value) for key, value in entries.items()}
    page.add_init_script(f"for (const [k, v] of Object.entries({json.dumps(kept)})) localStorage.setItem(k, v);")
    page.add_init_script("localStorage.setItem('tts-demo-preview', '{not json');")
    page.goto(f"{address}?max_seconds=1")
    arrived(page)
    page.wait_for_selector("#text")
    assert page.input_value("#text") and page.input_value("#seed") == "1"
    assert page.said == []
    page.context.close()
