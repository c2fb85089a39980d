"""What the page promises, point by point: on a wide screen and a phone, one in each theme, or, with
TTS_DEMO_SCREENS=all, on a wide one, a narrow one and a phone in both. One visit a screen, on the toy stack, with the
voices and recorded runs that ship."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
from pages import arrived, browser, choose, lanes, needs_chromium, newcomer, open_tab, speak, upload  # noqa: F401 (fixtures)
from toy import ToyStack, served, voice_file

from tts_demo.measure import heads
from tts_demo.methods import METHODS
from tts_demo.ui import voices
from tts_demo.ui.page import handlers
from tts_demo.ui.run import published
from tts_demo.ui.run.transcriber import Transcriber

pytestmark = needs_chromium
SCREENS = [(w, h, scheme) for w, h in ((1440, 900), (1024, 768), (390, 844)) for scheme in ("light", "dark")]
if os.environ.get("TTS_DEMO_SCREENS") != "all":
    SCREENS = [SCREENS[0], SCREENS[-1]]
TEXT, FIRST = "Seven jazzy words went by. " * 6, voices.examples()[0].name
HEARD = "What a machine heard."
SCORE = {"heard": HEARD, "wer": 1.0, "wrong": 2, "words": 30, "misheard": ["jazzy as jersey", "words missing"]}
TYPES_MEANWHILE = """() => {
    const field = document.getElementById("prompt-text"), says = document.getElementById("transcribing");
    new MutationObserver((_, watch) => {
        if (says.textContent !== "Transcribing…") return;
        watch.disconnect();
        field.value = "Mine.";
        field.dispatchEvent(new Event("input", { bubbles: true }));
    }).observe(says, { childList: true });
}"""
SPEED = r"as fast|\d+\.\d\d times (?:faster|slower)"
VERDICTS = """all => all.map((speed) => {
    const { words, range, kind } = TTSD.count.model({ speed });
    return [words, range, kind];
})"""
SHOTS = os.environ.get("TTS_DEMO_SHOTS")  # a folder: pictures of every screen to look at


@pytest.fixture(scope="module")
def address():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handlers, "QUICK", 1e9)  # maps grow, however slow this machine is
        patch.setattr(handlers, "MOST", 2)
        patch.setattr(Transcriber, "available", True)
        patch.setattr(Transcriber, "transcribe", lambda self, voice: HEARD)
        patch.setattr(Transcriber, "score", lambda self, lane, voice: SCORE)
        with served(ToyStack(), max_seconds=30) as (url, _):
            yield url


@pytest.fixture(scope="module", params=SCREENS, ids=lambda s: f"{s[0]}-{s[2]}")
def page(request, browser, address):
    width, height, scheme = request.param
    page = newcomer(browser, address, viewport={"width": width, "height": height}, color_scheme=scheme)
    page.wide, page.name = width, f"{width}-{scheme}"
    page.goto(f"{address}?max_seconds=3")
    arrived(page)
    yield page
    fits(page)
    assert page.said == [] and page.fetched == []
    page.context.close()


@pytest.fixture(scope="module")
def spoken(page):
    """Two settings beside the baseline have spoken. ``grown``: steps of every map that was drawn while they did."""
    if page.is_visible("#tour-skip"):
        page.click("#tour-skip")
    page.fill("#text", TEXT)
    page.click("#add-lane")
    choose(page, "ssd", 1)
    page.evaluate(
        "() => { window.grown = []; TTSD.board.on(() => TTSD.board.lanes().forEach(l => {"
        " if (l.attention && !l.wav) window.grown.push([l.id, l.attention.steps]); })); }"
    )
    speak(page)
    page.grown = {}
    for lane, steps in page.evaluate("window.grown"):
        page.grown.setdefault(lane, [])
        if steps not in page.grown[lane]:
            page.grown[lane].append(steps)
    return page


def fits(page):
    assert page.evaluate("document.documentElement.scrollWidth") == page.wide


def shot(page, name):
    if SHOTS:
        page.screenshot(path=Path(SHOTS) / f"{name}-{page.name}.png")


# of every word of a plotly picture: [what, left, top, right, bottom]; first of the picture itself, then of its buttons
WORDS = """figure => {
    const box = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
    const words = [...figure.querySelectorAll(".plot .main-svg text")].filter((e) => e.textContent.trim());
    return [["", ...box(figure)], ["buttons", ...box(figure.querySelector(".modebar-container > div"))],
        ...words.map((e) => [e.textContent, ...box(e)])];
}"""
LABELS = """() => {
    const seen = new Map(), draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        if (this.canvas.className === "gutter") {
            const id = this.canvas.closest(".lane").dataset.id;
            seen.set(id, [...(seen.get(id) || []), [text, x - this.measureText(text).width, y]]);
        }
        draw.call(this, text, x, y);
    };
    const sounds = [...document.querySelectorAll(".map-bar button")].find((b) => b.textContent === "Sounds");
    sounds.click();
    CanvasRenderingContext2D.prototype.fillText = draw;
    sounds.click();
    return [...seen];
}"""


def chart(page, name):
    """The chart of that name, which is drawn once it comes into sight, and then again in the width that is there."""
    place = page.get_by_role("figure", name=name, exact=True)
    place.scroll_into_view_if_needed()
    place.locator(".trace path").first.wait_for()
    page.wait_for_function(
        "e => e.querySelector('.main-svg').clientWidth <= e.clientWidth + 1", arg=place.element_handle()
    )
    return place


def saved(page, button):
    with page.expect_download() as download:
        page.get_by_role("button", name=button, exact=True).click()
    return Path(download.value.path())


STILL = "TTSD.deck.ended = () => {}"  # sound that never ends: a busy machine is slower to look than a tour to go on


def test_8_a_first_visitor_is_led_through_the_recorded_run_and_may_skip_it(page):
    page.wait_for_selector("#tour-skip", state="visible")
    position = "getComputedStyle(document.querySelector('#tour')).position"
    assert page.evaluate(position) != "sticky"  # an offer goes away when scrolled, a tour that plays stays in sight
    assert len(page.query_selector_all(".lane .map")) >= 2
    shot(page, "first")
    page.evaluate(STILL)
    page.focus("#tour-next")
    page.keyboard.press("Enter")
    page.wait_for_function("TTSD.deck.playing")
    assert page.evaluate(position) == "sticky"
    seen = page.evaluate(
        "async () => { const seen = new Set(); for (let i = 0; i < 14; i++) {"
        " seen.add(document.querySelector('.tour-picture').innerText.split('\\n')[1]);"
        " await new Promise(f => setTimeout(f, 60)); } return [...seen]; }"
    )
    passes = [int(found[1]) for line in seen if (found := re.match(r"pass (\d+) of \d+ makes", line or ""))]
    assert len(passes) >= 3 and passes == sorted(passes)  # the picture moves with the passes of the run
    captions = [page.inner_text(".tour .caption")]
    while page.inner_text("#tour-next") == "Next":
        assert page.locator(".toured").count() == 1 and not page.query_selector("#refused")
        if len(captions) == 2:
            shot(page, "tour")
        page.keyboard.press("ArrowRight")
        captions.append(page.inner_text(".tour .caption"))
        box = page.locator(".tour").bounding_box()
        assert page.evaluate("[...document.querySelectorAll('.lane')].every(e => e.scrollWidth <= e.clientWidth)")
        assert 0 <= box["y"] < 300  # in sight whatever it points at
        if card := page.query_selector(".lane:has(.toured)"):
            assert card.query_selector("h3").bounding_box()["y"] >= box["y"] + box["height"]
    for word in ("One pass is", "The map", "KV cache", "Your turn"):
        assert sum(word in caption for caption in captions) == 1
    assert len(set(captions)) == len(captions)
    page.keyboard.press("Escape")
    assert not page.is_visible(".tour") and not page.evaluate("TTSD.deck.playing")
    page.reload()
    arrived(page)
    assert not page.is_visible(".tour") and page.is_visible(".lane .map")
    fits(page)


def test_6_a_row_of_results_is_whole_in_the_first_screen(page):
    if page.wide == 1440:
        page.evaluate("scrollTo(0, 0)")
        boxes = [card.bounding_box() for card in page.locator(".lane").all()[:2]]
        assert all(box["y"] + box["height"] <= page.viewport_size["height"] for box in boxes), boxes
        heads = [page.locator(f".lane >> nth={i} >> header").bounding_box()["height"] for i in range(2)]
        assert heads[0] == heads[1]
    wider = (
        "[...document.querySelectorAll('#board .headline, .lane, .map-bar')].map(e => e.scrollWidth - e.clientWidth)"
    )
    assert set(page.evaluate(wider)) == {0}  # nothing is cut off
    ends = "[...document.querySelectorAll('.card, textarea')].filter(e => e.offsetParent && !e.closest('.lanes'))"
    assert max(page.evaluate(f"{ends}.map(e => e.getBoundingClientRect().right)")) <= page.wide
    if page.wide == 390:
        small = page.evaluate(
            "[...document.querySelectorAll('#desk button, #go button, #board button, #board select')]"
            ".filter(e => e.checkVisibility({ visibilityProperty: true }) && !e.closest('.tab-container'))"  # Gradio's
            ".filter(e => Math.min(e.offsetHeight, e.offsetWidth) < 32)"
            ".map(e => e.outerHTML.slice(0, 90))"
        )
        assert small == []  # what a finger can hit
    shot(page, "rest")
    page.evaluate("document.getElementById('board').scrollIntoView()")
    shot(page, "board")
    page.evaluate("scrollTo(0, 0)")


def test_4_every_word_of_the_text_labels_the_map_and_keeps_its_first_letters(page):
    drawn = dict(page.evaluate(LABELS))
    assert len(drawn) == len(lanes(page))
    for lane in page.evaluate("TTSD.board.lanes().map(l => [l.id, l.attention.words.map(w => w[2])])"):
        labels = [label for label in drawn[lane[0]] if label[0] not in ("passes", "8 kHz", "0", "seconds")]
        assert min(left for _, left, _ in labels) >= 0  # within the picture
        assert len(labels) == len(lane[1]) > 9
        assert all(any(w.startswith(label.rstrip("…")) for w in lane[1]) for label, *_ in labels)
        assert all(b - a >= 9 for (*_, a), (*_, b) in zip(labels, labels[1:]))


def test_1_lanes_stand_side_by_side_and_can_be_pinned_removed_and_laid_beside(spoken):
    page, shown = spoken, lanes(spoken)
    assert [lane["method"] for lane in shown] == ["baseline", "tldr", "ssd"]
    places = [page.locator(f"[data-id='{lane['id']}']").bounding_box() for lane in shown]
    side_by_side = places[1]["x"] > places[0]["x"]
    assert side_by_side == (page.wide != 1024)  # below one another on a narrow page, swiped on a phone
    assert page.locator(".lane .play:enabled").count() == 3 and page.locator(".lane .map").count() == 3
    last = shown[2]["id"]
    page.evaluate("id => { document.querySelector(`[data-id='${id}'] .diagnostics`).open = true; }", last)
    page.click(f"[data-id='{last}'] button:has-text('Pin')")
    assert page.evaluate("id => TTSD.board.pinned(id)", last)
    page.click(f"[data-id='{last}'] button[aria-label^='Remove']")
    assert len(lanes(page)) == 2
    open_tab(page, "Earlier runs")
    page.click(".take:first-child button:has-text('Lay beside')")
    assert lanes(page)[2]["id"] == last
    shot(page, "lanes")


def test_2_everything_and_the_language_model_are_named_apart_with_their_spread(spoken):
    for lane in lanes(spoken)[1:]:
        card = spoken.inner_text(f"[data-id='{lane['id']}'] .figures")
        names = ("Everything, RTF", "Language model, RTF", "Memory growth", "Words misheard")
        places = [card.index(w) for w in names]
        assert places == sorted(places)
        assert len(re.findall(SPEED, re.sub(r"\d+ texts: .*", "", card))) == 2, card  # of both
        spoken.evaluate("id => { document.querySelector(`[data-id='${id}'] .diagnostics`).open = true; }", lane["id"])
        more = spoken.inner_text(f"[data-id='{lane['id']}'] .diagnostics")
        for what in ("language model", "everything"):
            assert re.search(rf"{what} \d\.\d\d to \d+\.\d\d times (as fast|faster|slower) in [2-5] rounds", more), more
        told = spoken.evaluate("id => TTSD.count.told(TTSD.board.get(id))", lane["id"])  # in the tour and after a vote
        said = re.findall(SPEED, re.sub(r"\d+ texts: .*", "", card))[1]
        for gain in ("lm", "whole"):  # the card says of many texts what the head of the board says
            known = published.payload(published.of(lane["method"], lane["options"]))
            assert known is None or f"{known['texts']} texts: {known['said'][gain]['words']}" in card
        assert told == f"language model {said}"


def test_2_one_sentence_a_setting_heads_the_board_with_what_was_measured(spoken):
    gains = spoken.locator(".headline .gains li").all_inner_texts()
    assert len(gains) == 2 and all("language model" in g and "everything" in g and "in 100" in g for g in gains)
    assert re.search(r"Measured over \d+ texts, timed beside the baseline on .* cores", spoken.inner_text(".headline"))
    colours = "[...document.querySelectorAll('.headline .same')].map(e => getComputedStyle(e).color)"
    quiet = spoken.evaluate("getComputedStyle(document.querySelector('.headline .quiet')).color")
    assert set(spoken.evaluate(colours)) <= {quiet}  # what lies within its interval is grey
    tops = "[...document.querySelectorAll('.lane .map')].map(e => Math.round(e.getBoundingClientRect().top))"
    if spoken.wide == 1440:
        first, second = spoken.evaluate(tops)[:2]
        assert first == second  # maps of one row stand at one height


def test_2_speed_in_words_agrees_with_its_range(spoken):
    draw = random.Random(0)
    rounds = [sorted(draw.choice((0.5, 0.985, 1.0, 1.03, 1.66, 12)) * draw.uniform(0.96, 1.04) for _ in range(5))
              for _ in range(300)]  # fmt: skip
    all_ = [{"times": r[2], "low": r[0], "high": r[-1], "rounds": 5} for r in rounds]
    for asked, (words, range_, kind) in zip(all_, spoken.evaluate(VERDICTS, all_), strict=True):
        low, high, end = re.match(r"(\d+\.\d\d) to (\d+\.\d\d) times (as fast|faster|slower) in", range_).groups()
        same = asked["low"] <= 1 <= asked["high"] or abs(asked["times"] - 1) < 0.02
        assert end == ("as fast" if same else "faster" if asked["times"] > 1 else "slower")
        assert kind == {"as fast": "same", "faster": "good", "slower": "bad"}[end]
        assert words == end if same else float(low) <= float(words.split()[0]) <= float(high)
        assert float(low) <= float(high) and (same or float(high) >= 1)
    said = {"good": "better", "bad": "worse", "same": "as fast"}
    table = spoken.evaluate(
        "TTSD.tableRows(TTSD.board.lanes()).filter(r => r.name.startsWith('Of the language'))"
        ".flatMap(r => r.cells).map((c, i) => [c.verdict, TTSD.count.model(TTSD.board.lanes()[i])]).filter(([v]) => v)"
    )
    assert len(table) == 2
    for verdict, quick in table:
        assert verdict["kind"] == quick["kind"] and verdict["words"].endswith(said[quick["kind"]])


def test_2_the_table_says_what_is_better_and_that_it_goes_on_to_the_right(spoken):
    page = spoken
    open_tab(page, "Figures")
    for small in page.locator("table.results tbody th small").all():
        assert small.is_visible()
    assert "lower is better" in page.inner_text("table.results")
    wider = page.evaluate("(e => e.scrollWidth > e.clientWidth)(document.querySelector('#figures .scroll'))")
    assert page.get_by_text("More results to the right").is_visible() == wider
    assert wider or page.wide > 390


def test_2_charts_name_unit_and_second_and_hold_their_curves(spoken):
    page = spoken
    open_tab(page, "Figures")
    for place in page.locator("#figures .charts .plot").all():  # each is drawn once it comes into sight
        place.scroll_into_view_if_needed()
        place.locator(".trace").first.wait_for()
    found = page.evaluate(
        "[...document.querySelectorAll('#figures .charts .js-plotly-plot')].map(e => ({ y: e.layout.yaxis,"
        " x: e.layout.xaxis, ends: e.layout.annotations, traces: e.data.map(t => [t.line.color, t.line.dash,"
        " Math.max(...t.x), Math.max(...t.y)]) }))"
    )
    assert len(found) == 2
    for plot in found:
        assert plot["x"]["title"]["text"] == "seconds of audio" and plot["y"]["title"]["text"] in ("MB", "RTF")
        assert len(plot["ends"]) == len(plot["traces"]) == 3  # the last step of each is labelled
        for _, _, x, y in plot["traces"]:
            assert x <= plot["x"]["range"][1] and y <= plot["y"]["range"][1]
        assert len({colour for colour, *_ in plot["traces"]}) == 3  # a method's own
        heights = sorted(e["y"] / plot["y"]["range"][1] * 212 + e["yshift"] for e in plot["ends"])
        assert all(b - a >= 12 for a, b in zip(heights, heights[1:]))
    words = chart(page, "Speed against word errors").text_content()
    assert METHODS["tldr"].title in words and "over the baseline's" in words
    assert not re.search(r"\b(tldr|dcar|qtts|chunk range|random:2)\b", words)
    with page.expect_download() as download:  # plotly's own export
        page.evaluate("document.querySelector('#figures .charts [data-title*=\"Download\"]').click()")
    assert Path(download.value.path()).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_4_no_word_of_a_chart_lies_on_another_one_or_is_cut_off(spoken):
    page = spoken
    open_tab(page, "Figures")
    figures = [f for f in page.get_by_role("figure").all() if f.is_visible()]
    assert len(figures) >= 5
    for figure in figures:
        name = figure.get_attribute("aria-label")
        box, *words = chart(page, name).evaluate(WORDS)
        for what, left, top, right, bottom in words:
            assert box[1] <= left + 1 and right <= box[3] + 1 and box[2] <= top and bottom <= box[4], (name, what)
        for i, (a, *p) in enumerate(words):
            for b, *q in words[i + 1 :]:
                apart = p[2] <= q[0] + 2 or q[2] <= p[0] + 2 or p[3] <= q[1] + 4 or q[3] <= p[1] + 4
                assert apart, (name, a, b, p, q)


def test_7_head_preference_is_drawn_as_the_records_say(spoken):
    page, (_, kinds) = spoken, published.preference()
    open_tab(page, "Figures")
    place = chart(page, "Which head predicts a token best")
    whole = kinds[heads.ALL]
    drawn = place.evaluate("e => e.querySelector('.plot').data.map(t => [t.type, t.name, [...t.x], [...t.y]])")
    assert [(kind, name) for kind, name, *_ in drawn] == [
        ("bar" if name == heads.ALL else "scatter", name) for name in kinds
    ]
    for _, name, x, y in drawn:
        assert [round(at) for at in x] == list(range(1, len(whole["best"]) + 1)) and y == pytest.approx(
            kinds[name]["best"]
        )
    bars = [bar.bounding_box()["height"] for bar in place.locator(".bars .point path").all()]
    assert bars == pytest.approx([bars[0] * share / whole["best"][0] for share in whole["best"]], abs=1)
    hover = "(e, n) => Plotly.Fx.hover(e.querySelector('.plot'), [{ curveNumber: 0, pointNumber: n }])"
    for head in (0, len(bars) - 1):
        place.evaluate(hover, head)
        shown = place.locator(".hoverlayer .hovertext", has_text=f"{head + 1} ahead")
        shown.wait_for()  # plotly draws at most twenty of them a second
        said = shown.text_content()
        assert f"the best of all: {whole['best'][head]:.1%}" in said
        assert f"token right: {whole['right'][head]:.1%}" in said and f"{whole['loss'][head]:.2f} nats" in said
    shot(page, "heads")


def test_3_a_lane_says_what_made_it_whatever_the_form_says_now_and_after_a_reload(spoken):
    page = spoken
    page.fill("#text", "Other words.")
    for again in (False, True):
        if again:
            page.reload()
            arrived(page)
        for lane in lanes(page):
            card = page.inner_text(f"[data-id='{lane['id']}']")
            for word in (METHODS[lane["method"]].title, lane["dials"]):
                assert word in card
            said = page.inner_text(".headline .shared")
            assert all(word in said for word in (TEXT[:40], FIRST, "seed 1"))
    assert page.input_value("#text") == "Other words."


def test_4_text_stays_and_a_recording_brings_its_transcript(spoken, tmp_path):
    page = spoken
    page.focus("#text")
    for _ in range(6):
        page.keyboard.press("Tab")
    assert page.input_value("#text") == "Other words."
    page.click(".examples button >> nth=0")
    page.click("text=Bring back what I typed")
    assert page.input_value("#text") == "Other words." and "Upload or record your own" in page.inner_text("#inputs")
    assert page.locator(".voice button[aria-label^='Hear ']:visible").count() == 8
    page.set_input_files("#voice-file", str(voice_file(tmp_path)))
    page.wait_for_function("heard => TTSD.form.value().prompt_text === heard", arg=HEARD)
    assert page.input_value("#prompt-text") == HEARD and "by a machine" in page.inner_text("#transcribing")
    page.evaluate(TYPES_MEANWHILE)
    page.set_input_files("#voice-file", str(voice_file(tmp_path, 4.0)))
    page.wait_for_selector("#transcribing:has-text('What you typed stays')")
    assert page.input_value("#prompt-text") == "Mine." == page.evaluate("TTSD.form.value().prompt_text")
    shot(page, "voice")


def test_5_maps_share_a_scale_and_grow_while_speech_runs(spoken):
    page = spoken
    assert re.search(r"weight 0\s*\d\.\d\d in all", page.inner_text(".scale"))
    assert "2 of 30" in page.inner_text(".lane >> nth=0 >> .figures")  # the words were checked by themselves
    for name, drawn in page.grown.items():
        assert len(drawn) >= 2 and drawn == sorted(drawn), name
    assert len(page.grown) == 3


def test_6_what_is_cut_says_so_and_a_text_too_long_is_kept(spoken):
    page = spoken
    assert "length limit is 3 s" in page.inner_text(".lane >> nth=0")
    long = "Too long. " * 70
    page.fill("#text", long)
    assert page.input_value("#text") == long and "characters too many" in page.inner_text("#over")


def test_7_maps_charts_and_the_comparison_are_saved_with_their_conditions(spoken):
    page = spoken
    open_tab(page, "Figures")
    for button in ("Map of Token by token as SVG",):
        drawn = saved(page, button).read_text(encoding="utf-8")
        for word in ("seed 1", FIRST, "toy stack", "checkpoint", "Seven jazzy"):
            assert word in drawn, (button, word)
        assert "Attention map: heads that follow the text" in drawn
    for button in ("Map of Token by token (PNG)",):
        data = saved(page, button).read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(data[16:20], "big") > 600
        if SHOTS:
            (Path(SHOTS) / f"{button.split()[0]}-{page.name}.png").write_bytes(data)
    whole = saved(page, "Save as one page (HTML)").read_text(encoding="utf-8")
    for word in (
        "lower is better",
        "higher is better",
        "of its baseline, ",
        "Language model: <b>",
        "heads that follow",
    ):
        assert word in whole
    assert whole.count("<audio") == 3 and not re.search(r"https?:(?!//www\.w3\.org/)", whole)


def test_9_a_blind_test_gives_no_hints(spoken):
    page = spoken
    open_tab(page, "Blind test")
    page.get_by_role("button", name="Start a blind test").click()
    assert not page.is_visible("#board") and not page.is_visible("#figures") and not page.is_visible(".tour")
    said = page.inner_text("#stage")
    assert not any(METHODS[name].title in said for name in ("baseline", "tldr", "ssd")) and " faster" not in said
    page.get_by_role("button", name="End the test").click()
    assert page.is_visible("#board")


def test_8_the_tour_can_be_heard_again(spoken):
    page = spoken
    open_tab(page, "How it works")
    page.wait_for_selector("#how svg.pic")  # a tab is drawn when it is first opened
    assert page.locator("#how svg.pic").count() > len(METHODS)  # every method has its picture
    page.evaluate(STILL)
    page.click("#tour-again")
    page.wait_for_selector(".tour .caption:has-text('One pass is')")
    assert all(lane["recorded"] for lane in lanes(page))
    page.click("#tour-skip")
    assert not page.is_visible(".tour")


def test_10_speak_is_in_the_first_screen_and_a_mistake_is_told_in_its_place(spoken, tmp_path):
    page = spoken
    page.set_input_files("#voice-file", str(voice_file(tmp_path)))
    page.wait_for_function("heard => TTSD.form.value().prompt_text === heard", arg=HEARD)
    page.evaluate("window.scrollTo(0, 0)")
    box = page.locator("#run").bounding_box()
    assert 0 <= box["y"] and box["y"] + box["height"] <= page.viewport_size["height"]

    def nine_tokens():
        page.check("#consent")
        choose(page, "dcar")
        page.fill("#dial-chunk_range", "9")

    for fill, field, words in (
        (lambda: page.fill("#text", "  "), "text", "There is no text yet"),
        (lambda: page.fill("#text", "   "), "text", "There is no text yet"),  # once more
        (lambda: page.fill("#text", "Words."), "consent", "your own voice"),
        (nine_tokens, "dial-chunk_range", "Chunk sizes must be a number from 1 to 7"),
    ):
        fill()
        page.click("#run")
        page.wait_for_selector(f"#refused:has-text('{words}')")
        assert page.get_attribute(f"#{field}", "aria-errormessage") == "refused"
        assert page.evaluate("document.activeElement.id") == field
        below = page.locator("#refused").bounding_box()["y"] - page.locator(f"#{field}").bounding_box()["y"]
        assert 0 < below < 130, field
        shot(page, f"refused-{field}")
    page.fill("#dial-chunk_range", "3,4")
    assert not page.query_selector("#refused")  # gone once something is changed


def test_4_charts_are_drawn_without_anybody_scrolling_to_them(browser, address):
    page = newcomer(browser, address)
    page.goto(address)
    arrived(page)
    shown = "[...document.querySelectorAll('#figures figure')].filter(e => e.offsetParent)"
    page.wait_for_function(f"{shown}.length >= 5 && {shown}.every(e => e.querySelector('.trace path'))")
    assert page.evaluate("scrollY") == 0 and page.said == []
    page.context.close()


def test_5_a_recording_that_went_with_a_reload_is_said_until_a_voice_is_chosen(browser, address, tmp_path):
    page, gone = newcomer(browser, address), "#voice-note:has-text('Your recording is not kept')"
    page.goto(address)
    arrived(page)
    upload(page, voice_file(tmp_path))
    page.reload()
    arrived(page)
    page.wait_for_selector(gone)
    open_tab(page, "Earlier runs")
    page.click(".take button:has-text('Use its settings')")  # the form is drawn anew, and still says it
    assert page.inner_text("#voice-note").endswith(f"or speak as {FIRST}.")
    assert page.evaluate("TTSD.form.value().voice") == FIRST
    page.click(f"#voice-{FIRST}")
    page.wait_for_selector(gone, state="detached")
    page.reload()
    arrived(page)
    assert "not kept" not in page.inner_text("#voice-note") and page.said == []
    page.context.close()
