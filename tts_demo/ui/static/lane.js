// One lane on the board: what made it, its sound, its figures, its map.
import {
  button,
  cssColour,
  decodeBase64,
  download,
  h,
  inBytes,
  inSeconds,
  onTheme,
  shorten,
  sizeCanvas,
} from "./base.js";
import { deck } from "./deck.js";
import { count } from "./count.js";
import { madeWords } from "./headline.js";
import { attentionMap, repeatedWords, unreadWords } from "./map.js";

export const laneCard = (id, act) => {
  let lane = null,
    look = null,
    view = null,
    key = "";
  const title = h("h3", {}),
    dials = h("span", { class: "dials-line" }),
    state = h("span", { class: "state" });
  const pin = button("Pin", { class: "small", "aria-pressed": "false" }, () => act.pin(id));
  const remove = button("✕", { class: "small" }, () => act.remove(id));
  const line = h("p", { class: "made" }),
    warn = h("ul", { class: "warnings" });
  const canvas = h("canvas", { "aria-hidden": "true" }),
    head = h("i", { class: "playhead" });
  const wave = h(
    "div",
    {
      class: "wave",
      role: "slider",
      tabindex: "0",
      "aria-valuemin": "0",
      "aria-valuemax": "0",
      "aria-valuenow": "0",
    },
    canvas,
    head,
  );
  const play = button("▶", { class: "play", disabled: true }, () => deck.toggle(id));
  const time = h("span", { class: "time" }, "0.0 / 0.0 s");
  let health = "";
  const here = button(
    "Switch here",
    { class: "small swap", title: "Go on in this result at the same moment of the text (X)", disabled: true },
    () => deck.swap(id),
  );
  const save = button("Save audio", { class: "small", disabled: true }, () =>
    download(`${lane.method}-seed${lane.made.seed}.wav`, new Blob([decodeBase64(lane.wav)], { type: "audio/wav" })),
  );
  const cells = {},
    figure = (name, label, hint) => {
      cells[name] = h("dd", {}, "–");
      return h("div", { title: hint }, h("dt", {}, label), cells[name]);
    };
  const figures = h(
    "dl",
    { class: "figures" },
    figure("whole", "Everything, RTF", "Seconds of computing per second of audio, sound included; lower is better"),
    figure("model", "Language model, RTF", "Seconds of the language model per second of audio; lower is better"),
    figure("kv", "Memory growth", "What a second of speech adds to the live keys and values; lower is better"),
    figure("words", "Words misheard", "By Whisper tiny.en, which mishears people too; one text tells little"),
  );
  const diagnostics = h("p", { class: "quiet" });
  const more = h(
    "details",
    { class: "diagnostics" },
    h("summary", {}, "More"),
    diagnostics,
    h("div", { class: "row" }, pin),
  );
  const place = h("div", { class: "map-place" });
  const root = h(
    "article",
    { class: "card lane", "data-id": id },
    h(
      "header",
      {},
      h("i", { class: "dot", "aria-hidden": "true" }),
      title,
      state,
      h("span", { class: "grow" }),
      remove,
      dials,
    ),
    line,
    wave,
    h("div", { class: "transport" }, play, time, here, h("span", { class: "grow" }), save, more),
    figures,
    warn,
    place,
  );

  const track = () => deck.tracks[id];
  const draw = () => {
    const w = wave.clientWidth,
      height = 52,
      t = track();
    if (!w) return;
    const g = sizeCanvas(canvas, w, height),
      span = Math.max(deck.span, 0.5);
    g.clearRect(0, 0, w, height);
    g.fillStyle = cssColour("--side", root);
    const columns = Math.floor(w / 3),
      per = (span / columns) * (t ? t.rate : 16000);
    for (let i = 0; i < columns; i++) {
      const a = Math.floor(i * per),
        b = t ? Math.min(Math.floor((i + 1) * per), t.length) : 0;
      if (!t || a >= t.length) {
        g.globalAlpha = 0.2;
        g.fillRect(i * 3, height / 2 - 0.5, 2, 1);
        continue;
      }
      let peak = 0;
      for (let j = a; j < b; j += 4) {
        const v = Math.abs(t.data[j]);
        if (v > peak) peak = v;
      }
      const tall = Math.max(2, Math.min(1, peak * 1.4) * (height - 6));
      g.globalAlpha = 0.9;
      g.fillRect(i * 3, (height - tall) / 2, 2, tall);
    }
  };
  let frame = 0;
  const soon = () => {
    // sound comes in pieces, of several results at once: one picture for all that came before it is shown
    if (!frame)
      frame = requestAnimationFrame(() => {
        frame = 0;
        draw();
      });
  };
  const move = (t) => {
    const all = track() ? track().seconds : 0;
    head.style.left = `${(100 * t) / Math.max(deck.span, 0.5)}%`;
    time.textContent = `${t.toFixed(1)} / ${all.toFixed(1)} s`;
    wave.setAttribute("aria-valuemax", all.toFixed(1));
    wave.setAttribute("aria-valuenow", t.toFixed(1));
    wave.setAttribute("aria-valuetext", `${t.toFixed(1)} of ${all.toFixed(1)} seconds`);
  };
  const refresh = () => {
    const mine = deck.playing && deck.lane === id,
      t = track(),
      name = lane ? lane.title : "result";
    play.textContent = mine ? "❚❚" : "▶";
    play.setAttribute("aria-label", `${mine ? "Pause" : "Play"} ${name}`);
    play.disabled = !t || !t.length;
    here.disabled = !t || !t.length || !deck.lane || deck.lane === id;
    here.hidden = deck.lane === id || !deck.lane;
    root.classList.toggle("audible", mine);
    root.classList.toggle("chosen", deck.lane === id);
    if (t && t.heard && t.started)
      health = [
        `heard after ${inSeconds(t.heard - t.started)}, turns of other results and buffering included`,
        t.gaps ? `${t.gaps} gap${t.gaps > 1 ? "s" : ""}` : "no gaps",
      ].join(", ");
  };
  const seek = (e) => {
    const box = wave.getBoundingClientRect();
    if (track() && track().length)
      deck.seek(id, Math.min(track().seconds - 0.02, ((e.clientX - box.left) / box.width) * Math.max(deck.span, 0.5)));
  };
  wave.addEventListener("click", seek);
  wave.addEventListener("keydown", (e) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -5, PageUp: 5 }[e.key];
    if (!by && e.key !== "Home" && e.key !== "Enter") return;
    e.preventDefault();
    e.stopPropagation();
    if (e.key === "Enter") deck.toggle(id);
    else
      deck.seek(
        id,
        Math.max(0, by ? Math.min((deck.lane === id ? deck.position() : 0) + by, track().seconds - 0.02) : 0),
      );
  });
  const off = onTheme(draw),
    watcher = new ResizeObserver(draw);
  watcher.observe(wave);

  const say = (cell, words, ...small) =>
    cells[cell].replaceChildren(
      words,
      ...small.filter(Boolean).map(([text, kind, hint]) => h("small", { class: kind || "", title: hint }, text)),
    );
  const percent = (share) => `${Math.round(100 * share)} %`;
  const rtf = (v) => (v ? v.toFixed(v < 0.1 ? 3 : 2) : "–");
  // Seconds of computing per second of audio, how that compares here, and over many texts.
  const timing = (cell, value, quick, published) => {
    const first = lane.id === `${lane.take}.0`;
    say(
      cell,
      rtf(value),
      first ? ["the baseline"] : quick ? [quick.words, quick.kind, quick.range] : null,
      !first && published
        ? [`${published.texts} texts: ${published.words}`, published.kind, "Measured over many texts: RESULTS.md"]
        : null,
    );
  };
  const numbers = (t) => {
    const f = lane.figures || {},
      base = count.reference(lane),
      known = lane.published,
      speed = lane.speed || {};
    const many = (name) => known && known.said && { texts: known.texts, ...known.said[name] };
    timing("whole", speed.rtf || f.rtf, count.whole(lane), many("whole"));
    timing("model", speed.lm_rtf || f.lm_rtf, count.model(lane), many("lm"));
    if (count.done(lane)) {
      const g = count.growth(lane, t),
        b = base && count.done(base) ? count.growth(base, t) : null,
        share = b ? g / b : 1;
      const kind = Math.abs(share - 1) < 0.03 ? "same" : share < 1 ? "good" : "bad";
      say(
        "kv",
        g === null ? "–" : `${inBytes(g)}/s`,
        b ? [`${percent(share)} of baseline's`, kind, `In the first ${t.toFixed(1)} s, as all results`] : null,
        b && known && Math.abs(known.memory - share) > 0.03
          ? [`12 to 20 s: ${percent(known.memory)}`, "", "From second 12 to 20 of longer speech: RESULTS.md"]
          : null,
      );
    } else {
      const g = count.sofar(lane.curve || []);
      say("kv", g === null ? "–" : `${inBytes(g)}/s`, g === null ? null : ["so far"]);
    }
    if (f.words) {
      const list = (f.misheard || []).join("; ");
      say("words", `${f.wrong} of ${f.words}`, f.wrong ? [shorten(list, 44), "", list] : ["all as written"]);
    } else say("words", "–", lane.recorded || !count.done(lane) ? null : ["checked afterwards"]);
    const lines = [
      f.backbone_steps ? `${f.backbone_steps.toLocaleString("en")} passes of the language model` : "",
      f.frames_per_step ? `${f.frames_per_step.toFixed(2)} tokens a pass` : "",
      f.acceptance !== undefined && f.acceptance !== null ? `${percent(f.acceptance)} of drafts accepted` : "",
      f.ttfa_seconds ? `first audio ${inSeconds(f.ttfa_seconds)} after its turn began` : "",
      health,
      count.model(lane) ? `language model ${count.model(lane).range}` : "",
      count.whole(lane) ? `everything ${count.whole(lane).range}` : "",
    ];
    diagnostics.textContent = `${lines.filter(Boolean).join("; ")}.`;
  };

  return {
    root,
    id,
    // now: { lane, look, pinned, note }: everything the card shows; the map is built again only if it changed
    show(now) {
      lane = now.lane;
      look = now.look;
      root.className = `card lane slot-${lane.slot}${deck.playing && deck.lane === id ? " audible" : ""}`;
      title.textContent = lane.title;
      dials.textContent = dials.title = lane.dials || "";
      state.textContent = now.note || "";
      wave.setAttribute("aria-label", `Position in ${lane.title}`);
      pin.setAttribute("aria-pressed", String(now.pinned));
      pin.textContent = now.pinned ? "Pinned" : "Pin";
      pin.setAttribute(
        "aria-label",
        `${now.pinned ? "Unpin" : "Pin"} ${lane.title}: a pinned result stays when you speak again`,
      );
      remove.setAttribute("aria-label", `Remove ${lane.title} from the board`);
      line.hidden = !now.alone;
      line.replaceChildren(
        ...madeWords(lane).map((w, i) => h("span", i ? {} : { class: "said", title: lane.made.text }, w)),
        ...(lane.recorded
          ? [h("span", { class: "tag" }, "recorded, not run here")]
          : now.pinned && now.older
            ? [h("span", { class: "tag" }, "earlier run")]
            : []),
      );
      const missing = unreadWords(lane),
        twice = repeatedWords(lane);
      const sentences = [
        ...(lane.warnings || []),
        ...(missing.length ? [`Words may be missing: ${shorten(missing.join(" "), 60)}`] : []),
        ...(twice.length ? [`Words may be said twice: ${shorten(twice.join(" "), 60)}`] : []),
      ];
      warn.replaceChildren(...sentences.map((w) => h("li", {}, w)));
      save.disabled = !count.done(lane);
      save.setAttribute("aria-label", `Save audio of ${lane.title}`);
      numbers(now.second);
      const map = lane.attention,
        want =
          count.done(lane) || map ? JSON.stringify([look, map && map.map.length, map && map.view, !!lane.wav]) : "";
      if (want !== key) {
        key = want;
        if (view) view.close();
        view = want ? attentionMap(lane, look) : null;
        place.replaceChildren(...(view ? [view.root] : []));
        if (view) {
          view.draw();
          view.scroller.addEventListener("scroll", () => act.scrolled(id, view.scroller.scrollLeft));
        }
      }
      refresh();
      soon();
      move(deck.lane === id ? deck.position() : 0);
    },
    tell(kind, m) {
      if (kind === "time") {
        const t = m.id === id ? m.t : deck.map(m.id, id, m.t);
        if (m.id === id) move(t);
        if (view) view.move(t);
      }
      if (kind === "data") {
        soon();
        refresh();
        if (deck.lane !== id) move(0);
      }
      if (kind === "state") {
        refresh();
        if (deck.playing && deck.lane === id && state.textContent.startsWith("buffering"))
          state.textContent = "speaking";
      }
      if (kind === "buffer" && m.id === id) state.textContent = `buffering: sound in about ${Math.ceil(m.wait)} s`;
    },
    scrollTo(px) {
      if (view && Math.abs(view.scroller.scrollLeft - px) > 1) view.scroller.scrollLeft = px;
    },
    view: () => view,
    close() {
      cancelAnimationFrame(frame);
      off();
      watcher.disconnect();
      if (view) view.close();
    },
  };
};
