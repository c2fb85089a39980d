// Attention map, steps and spectrogram of both sides on one time axis; hover reads, click seeks.
(() => {
  const { h, deck } = TTSD;
  const STOPS = ["440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725"]; // viridis: even in grey and to colour-blind eyes
  const LUT = Array.from({ length: 256 }, (_, i) => {
    const at = i / 255 * (STOPS.length - 1), a = Math.min(STOPS.length - 2, Math.floor(at)), f = at - a;
    const rgb = (x) => [0, 2, 4].map((k) => parseInt(x.slice(k, k + 2), 16));
    const [p, q] = [rgb(STOPS[a]), rgb(STOPS[a + 1])];
    return p.map((v, k) => Math.round(v + f * (q[k] - v)));
  });
  const bytes = (b64) => { const raw = atob(b64 || ""), out = new Uint8Array(raw.length); for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i); return out; };
  const GUTTER = 74, MARGIN = 52, STRIP = 34, SPEC = 76;
  const MARK = { accepted: "--ok", resampled: "--no", bonus: "--plus", drafted: "--quiet", delay: "--quiet" };
  const stamp = (values, columns, rows, transposed) => {  // uint8 -> an offscreen picture, one pixel a value
    const c = document.createElement("canvas");
    c.width = Math.max(1, columns); c.height = Math.max(1, rows);
    const g = c.getContext("2d"), image = g.createImageData(c.width, c.height);
    for (let y = 0; y < rows; y++) for (let x = 0; x < columns; x++) {
      const v = LUT[transposed ? values[x * rows + y] : values[y * columns + x]], k = 4 * (y * columns + x);
      image.data[k] = v[0]; image.data[k + 1] = v[1]; image.data[k + 2] = v[2]; image.data[k + 3] = 255;
    }
    g.putImageData(image, 0, 0);
    return c;
  };

  const panel = (side, data, span, zoom) => {
    const map = data.attention, frame = data.frame || 0.02;
    const attention = map ? bytes(map.map) : null, picture = map ? stamp(attention, map.steps, map.text, true) : null;
    const spec = data.spectrogram ? bytes(data.spectrogram) : null, specColumns = spec ? spec.length / data.bands : 0;
    const specPicture = spec ? stamp(spec, specColumns, data.bands) : null;
    const tall = map ? Math.max(150, Math.min(330, map.text * 9)) : 0;
    const heads = h("header", {}, h("i", { class: "dot" }), h("h3", {}, data.title), h("span", { class: "note" }, `${data.seconds.toFixed(2)} s, ${data.timeline.filter((r) => r[1]).length} passes`));
    const canvas = h("canvas"), line = h("i", { class: "playhead" }), tip = h("div", { class: "tip", hidden: "" });
    const scroller = h("div", { class: "scroller", tabindex: "0", "aria-label": `${data.title}: attention, steps and spectrogram by time` }, canvas, line, tip);
    const root = h("section", { class: `panel-inside ${side}` }, heads, scroller);
    const yMap = 6, yStrip = yMap + tall + (tall ? 20 : 4), ySpec = yStrip + STRIP + 20, yAxis = ySpec + SPEC + 4, height = yAxis + 22;
    let width = 0;
    const x = (t) => GUTTER + (width - GUTTER - MARGIN) * t / span, when = (px) => (px - GUTTER) / (width - GUTTER - MARGIN) * span;

    const labels = (g, ink, quiet) => {
      const row = tall / map.text;
      g.textAlign = "right"; g.font = "11px " + getComputedStyle(document.body).fontFamily;
      const groups = map.words && map.words.length ? map.words : map.labels.map((l, i) => [i, i, l]);
      let last = -20;
      for (const [a, b, word] of groups) {
        const y = yMap + (a + b + 1) / 2 * row;
        if (y - last < 11) continue;
        last = y;
        g.fillStyle = ink;
        g.fillText(word.length > 11 ? word.slice(0, 10) + "…" : word, GUTTER - 8, y + 4);
      }
      g.fillStyle = TTSD.colour(`--${side}`);
      map.coverage.forEach((c, i) => g.fillRect(width - MARGIN + 6, yMap + i * row, c * (MARGIN - 14), Math.max(1, row - 0.6)));
      g.fillStyle = quiet; g.textAlign = "left"; g.font = "10px " + getComputedStyle(document.body).fontFamily;
      g.fillText("coverage", width - MARGIN + 4, yMap + tall + 12);
    };
    const strip = (g, ink, quiet) => {  // one block a pass, as wide as what it emitted; marks of its frames underneath
      data.timeline.forEach(([first, n, marks], i) => {
        if (!n) { g.fillStyle = quiet; g.fillRect(x(first * frame) - 0.5, yStrip, 1, 8); return; }
        const a = x(first * frame), b = x((first + n) * frame);
        g.fillStyle = TTSD.colour(`--${side}`); g.globalAlpha = i % 2 ? 0.85 : 0.4;
        g.fillRect(a, yStrip, Math.max(0.7, b - a - (b - a > 3 ? 1 : 0)), 18);
        g.globalAlpha = 1;
        marks.forEach((m, k) => {
          const name = MARK[m];
          if (!name) return;
          const p = x((first + k) * frame), q = x((first + k + 1) * frame), up = m === "resampled" ? 8 : m === "bonus" ? 6 : 4;
          g.fillStyle = TTSD.colour(name);
          g.fillRect(p, yStrip + 21 + (8 - up) / 2, Math.max(0.7, q - p - 0.4), up);
        });
      });
    };
    const draw = () => {
      const room = scroller.clientWidth;
      if (!room) return;
      width = Math.max(300, room * zoom);
      canvas.style.width = `${width}px`;
      const g = TTSD.canvas(canvas, width, height), ink = TTSD.colour("--ink"), quiet = TTSD.colour("--quiet");
      g.clearRect(0, 0, width, height);
      g.imageSmoothingEnabled = false;
      if (map) {
        g.fillStyle = `rgb(${LUT[0]})`; g.fillRect(GUTTER, yMap, x(data.seconds) - GUTTER, tall);
        for (let i = 0; i < map.steps; i++) {
          const a = x(map.start[i]), b = x(map.end[i]);
          if (b > a) g.drawImage(picture, i, 0, 1, map.text, a, yMap, b - a + 0.5, tall);
        }
        g.strokeStyle = "rgba(255,255,255,.28)"; g.lineWidth = 1;
        const wide = data.timeline.some((r) => r[1] > 1) && (x(frame) - x(0)) * (data.timeline.length ? 2 : 1) > 3;
        if (wide) for (const [first, n] of data.timeline) if (n > 1) { g.beginPath(); g.moveTo(x(first * frame), yMap); g.lineTo(x(first * frame), yMap + tall); g.stroke(); }
        labels(g, ink, quiet);
      }
      strip(g, ink, quiet);
      if (specPicture) { g.imageSmoothingEnabled = true; g.drawImage(specPicture, 0, 0, specColumns, data.bands, GUTTER, ySpec, x(data.seconds) - GUTTER, SPEC); }
      g.fillStyle = quiet; g.font = "11px " + getComputedStyle(document.body).fontFamily;
      g.textAlign = "right";
      g.fillText("passes", GUTTER - 8, yStrip + 13); g.fillText("8 kHz", GUTTER - 8, ySpec + 10); g.fillText("0", GUTTER - 8, ySpec + SPEC);
      g.textAlign = "center";
      for (const t of TTSD.ticks(span, Math.max(4, Math.floor(width / 100)))) { g.fillText(`${+t.toFixed(2)}`, x(t), yAxis + 14); g.fillRect(x(t), yAxis, 1, 4); }
      g.textAlign = "left"; g.fillText("s", x(span) + 10, yAxis + 14);
    };
    const words = (t, y) => {
      if (t < 0 || t > data.seconds) return "";
      const f = Math.floor(t / frame), i = data.timeline.findIndex((r) => f >= r[0] && f < r[0] + r[1]), step = data.timeline[i];
      if (map && y >= yMap && y < yMap + tall) {
        const k = Math.min(map.text - 1, Math.floor((y - yMap) / tall * map.text)), c = map.start.findIndex((a, j) => t >= a && t < map.end[j]);
        if (c < 0) return "";
        const word = (map.words || []).find((w) => k >= w[0] && k <= w[1]);
        return `${map.labels[k]}${word && word[2] !== map.labels[k] ? ` in “${word[2]}”` : ""} · ${t.toFixed(2)} s · weight ${(attention[c * map.text + k] / 255 * map.peak).toFixed(3)}`;
      }
      if (!step) return `${t.toFixed(2)} s`;
      const mark = step[2][f - step[0]], drafted = step[4] ? `, ${step[5]} of ${step[4]} drafted accepted` : "";
      return `frame ${f} · ${t.toFixed(2)} s · pass ${i + 1} emitted ${step[1]}${mark ? ` (this one: ${mark})` : ""}${drafted} · ${step[3]} ms`;
    };
    scroller.addEventListener("pointermove", (e) => {
      const box = canvas.getBoundingClientRect(), px = e.clientX - box.left, text = words(when(px), e.clientY - box.top);
      tip.hidden = !text; tip.textContent = text;
      tip.style.left = `${Math.max(scroller.scrollLeft, Math.min(px + 12, scroller.scrollLeft + scroller.clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${Math.max(0, e.clientY - box.top - 34)}px`;
    });
    scroller.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("click", (e) => { const t = when(e.clientX - canvas.getBoundingClientRect().left); if (t >= 0 && t < data.seconds) deck.seek(side, t); });
    const move = (t) => { line.style.left = `${x(t)}px`; line.style.height = `${yAxis - yMap}px`; line.style.top = `${yMap}px`; line.hidden = false; };
    line.hidden = true;
    const watcher = new ResizeObserver(draw);
    watcher.observe(scroller);
    return { root, draw, move, side, close: () => watcher.disconnect(), scroller };
  };

  TTSD.mounts.inspector = (root) => {
    let panels = [], value = null, zoom = 1;
    root.className = "inspector";
    const bar = h("div", { class: "zoom", role: "group", "aria-label": "Zoom" }), grid = h("div", { class: "inside-grid" });
    for (const z of [1, 2, 4]) {
      const b = h("button", { type: "button", "aria-pressed": String(z === 1) }, `×${z}`);
      b.onclick = () => { zoom = z; [...bar.children].forEach((k) => k.setAttribute && k.setAttribute("aria-pressed", String(k === b))); build(); };
      bar.append(b);
    }
    const scale = h("div", { class: "scale" }, h("span", {}, "weight 0"), h("i", {}), h("span", {}, "highest"));
    const legend = h("div", { class: "marks" }, h("span", { class: "ok" }, "accepted"), h("span", { class: "no" }, "resampled"), h("span", { class: "plus" }, "bonus"));
    const empty = h("p", { class: "quiet empty" }, "The inside of a run appears here: which text each step looked at, what each pass emitted, and how it sounds.");
    const build = () => {
      panels.forEach((p) => p.close());
      const sides = value ? Object.entries(value.sides) : [];
      empty.hidden = sides.length > 0; bar.hidden = scale.hidden = !sides.length;
      const span = Math.max(0.2, ...sides.map(([, d]) => d.seconds));
      panels = sides.map(([name, d]) => panel(name, d, span, zoom));
      legend.hidden = !sides.some(([, d]) => d.timeline.some((r) => r[4]));
      grid.replaceChildren(...panels.map((p) => p.root));
      panels.forEach((p) => p.draw());
      if (panels.length === 2) panels.forEach((p, i) => p.scroller.addEventListener("scroll", () => { panels[1 - i].scroller.scrollLeft = p.scroller.scrollLeft; }));
    };
    deck.on((kind, m) => { if (kind === "time") for (const p of panels) p.move(p.side === m.side ? m.t : deck.map(m.side, m.t)); });
    TTSD.onTheme(() => panels.forEach((p) => p.draw()));
    root.append(h("div", { class: "inside-bar" }, scale, legend, bar), empty, grid);
    build();
    return (m) => { value = m; deck.warp = m.warp || null; build(); };
  };
})();
