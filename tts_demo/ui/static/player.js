// One player card per side: state, waveform with playhead, transport, and the few numbers that matter.
(() => {
  const deck = TTSD.deck;
  const NAMES = { baseline: "Baseline", method: "Method" };
  const h = (tag, attrs, ...kids) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs || {})) if (v !== null) e.setAttribute(k, v);
    e.append(...kids);
    return e;
  };
  TTSD.h = h;
  TTSD.clock = (t) => `${t.toFixed(1)} s`;
  TTSD.bytes = (n) => n >= 1e6 ? `${(n / 1e6).toFixed(n >= 1e7 ? 1 : 2)} MB` : n >= 1e3 ? `${(n / 1e3).toFixed(0)} kB` : `${n.toFixed(0)} B`;
  TTSD.ms = (s) => s === null || s === undefined ? "–" : s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(2)} s`;
  TTSD.colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  TTSD.canvas = (c, w, height) => {
    const scale = window.devicePixelRatio || 1;
    c.width = Math.max(1, Math.round(w * scale)); c.height = Math.round(height * scale);
    c.style.height = `${height}px`;
    const g = c.getContext("2d");
    g.setTransform(scale, 0, 0, scale, 0, 0);
    return g;
  };

  const mounts = TTSD.mounts = {};
  TTSD.mount = (name, element, props, watch, trigger) => {
    const root = document.createElement("div");
    const place = () => {   // Gradio may draw its template again; ours goes back in
      const slot = element.querySelector(`[data-mount="${name}"]`) || element;
      if (root.parentNode !== slot) slot.replaceChildren(root);
      return slot;
    };
    const side = place().dataset.side || "";
    const update = mounts[name](root, side, trigger);
    watch("value", () => { place(); if (props.value) update(props.value); });
    if (props.value) update(props.value);
  };

  mounts.player = (root, side) => {
    const title = h("h3", {}, NAMES[side]), note = h("span", { class: "note" }), state = h("span", { class: "state" }, "not spoken yet");
    const canvas = h("canvas", { "aria-hidden": "true" }), head = h("i", { class: "playhead" });
    const wave = h("div", { class: "wave", role: "slider", tabindex: "0", "aria-label": `${NAMES[side]} position`, "aria-valuemin": "0", "aria-valuenow": "0" }, canvas, head);
    const play = h("button", { class: "play", type: "button", "aria-label": `Play ${NAMES[side].toLowerCase()}`, disabled: "" }, "▶");
    const time = h("span", { class: "time" }, "0.0 / 0.0 s");
    const swap = h("button", { class: "swap", type: "button", title: "Switch sides at the same moment of the text (X)", disabled: "" }, "⇄ switch");
    const health = h("span", { class: "health" });
    const cells = {};
    const figure = (key, label, hint) => {
      cells[key] = h("b", {}, "–");
      return h("div", { title: hint }, h("span", {}, label), cells[key]);
    };
    const figures = h("div", { class: "figures" },
      figure("rtf", "Real-time factor", "Compute seconds per second of audio; lower is better, below 1 is faster than real time"),
      figure("ttfa", "First audio", "From the start of this side to its first samples"),
      figure("kv", "KV cache", "Live keys and values of every autoregressive model"),
      figure("fps", "Frames per pass", "Codec frames that one pass of the big model yields"));
    root.className = `card player ${side}`;
    root.append(h("header", {}, h("i", { class: "dot", "aria-hidden": "true" }), title, note, state), wave,
      h("div", { class: "transport" }, play, time, h("span", { class: "grow" }), health, swap), figures);
    const track = () => deck.tracks[side];
    let first = 0;

    const draw = () => {
      const w = wave.clientWidth, height = 64, t = track();
      if (!w) return;
      const g = TTSD.canvas(canvas, w, height), span = Math.max(deck.span, 0.5);
      g.fillStyle = TTSD.colour(`--${side}`);
      const columns = Math.floor(w / 3), per = span / columns * t.rate;
      for (let i = 0; i < columns; i++) {
        const a = Math.floor(i * per), b = Math.min(Math.floor((i + 1) * per), t.length);
        if (a >= t.length) { g.globalAlpha = 0.16; g.fillRect(i * 3, height / 2 - 0.5, 2, 1); continue; }
        let peak = 0;
        for (let j = a; j < b; j += 4) { const v = Math.abs(t.data[j]); if (v > peak) peak = v; }
        const tall = Math.max(2, Math.min(1, peak * 1.4) * (height - 8));
        g.globalAlpha = 0.9;
        g.fillRect(i * 3, (height - tall) / 2, 2, tall);
      }
    };
    const move = (t) => {
      head.style.left = `${100 * t / Math.max(deck.span, 0.5)}%`;
      time.textContent = `${t.toFixed(1)} / ${track().seconds.toFixed(1)} s`;
      wave.setAttribute("aria-valuenow", t.toFixed(1));
      wave.setAttribute("aria-valuetext", `${t.toFixed(1)} of ${track().seconds.toFixed(1)} seconds`);
    };
    const refresh = () => {
      const mine = deck.playing && deck.side === side, t = track();
      play.textContent = mine ? "❚❚" : "▶";
      play.setAttribute("aria-label", `${mine ? "Pause" : "Play"} ${NAMES[side].toLowerCase()}`);
      play.disabled = !t.length;
      swap.disabled = !(t.length && deck.tracks[side === "baseline" ? "method" : "baseline"].length);
      root.classList.toggle("audible", mine);
      root.classList.toggle("chosen", deck.side === side);
      if (t.first && t.started) {
        const words = [`heard ${TTSD.ms(t.heard - t.started)}`];
        words.push(t.underruns ? `${t.underruns} gap${t.underruns > 1 ? "s" : ""}` : "no gaps");
        if (!t.complete) words.push(`${t.ahead.toFixed(1)} s ahead`);
        if (t.lost) words.push(`${t.lost} lost`);
        health.textContent = words.join(" · ");
      } else health.textContent = "";
    };
    deck.on((kind, m) => {
      if (kind === "time" && m.side === side) move(m.t);
      if (kind === "data") { if (m.side === side || deck.span !== first) draw(); first = deck.span; refresh(); move(deck.side === side ? deck.position() : 0); }
      if (kind === "state") refresh();
    });
    new ResizeObserver(draw).observe(wave);
    TTSD.onTheme(draw);
    play.onclick = () => deck.toggle(side);
    swap.onclick = () => { deck.side = deck.side || side; deck.swap(); };
    const seek = (e) => { const box = wave.getBoundingClientRect(); if (track().length) deck.seek(side, Math.min(track().seconds - 0.02, (e.clientX - box.left) / box.width * Math.max(deck.span, 0.5))); };
    wave.addEventListener("click", seek);

    return (m) => {
      deck.receive(side, m);
      if (m.title) title.textContent = m.title;
      if (m.kind === "clear" && !m.title) title.textContent = NAMES[side];
      if (m.note !== undefined || m.kind === "start" || m.kind === "clear") note.textContent = m.note || "";
      state.textContent = { clear: "waiting", start: "thinking", chunk: "speaking", end: "done", load: "" }[m.kind];
      root.dataset.state = m.kind;
      const s = m.stats || {};
      if (m.kind === "clear" || m.kind === "start") for (const c of Object.values(cells)) c.textContent = "–";
      if (s.rtf) {
        cells.rtf.replaceChildren(s.rtf.toFixed(2), h("small", {}, s.rtf < 1 ? `${(1 / s.rtf).toFixed(1)}× real time` : "slower than real time"));
      }
      if (s.ttfa_seconds) cells.ttfa.textContent = TTSD.ms(s.ttfa_seconds);
      if (s.kv_bytes_total) cells.kv.textContent = TTSD.bytes(s.kv_bytes_total);
      if (s.frames_per_step) {
        cells.fps.textContent = s.frames_per_step.toFixed(2);
        if (s.acceptance !== null && s.acceptance !== undefined) cells.fps.append(h("small", {}, `${Math.round(100 * s.acceptance)} % accepted`));
      }
      refresh();
    };
  };
})();
