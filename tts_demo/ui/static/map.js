// One lane's attention map, passes and spectrogram on the page's time axis; hover reads, click seeks. Labels stay where
// they are.
import { axisTicks, cssColour, cut, decodeBase64, h, inBytes, onTheme, sizeCanvas, spread } from "./base.js";
import { deck } from "./deck.js";

// viridis: even in grey and to colour-blind eyes
const STOPS = ["440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725"];
const LUT = Array.from({ length: 256 }, (_, i) => {
  const at = (i / 255) * (STOPS.length - 1),
    a = Math.min(STOPS.length - 2, Math.floor(at)),
    f = at - a;
  const rgb = (x) => [0, 2, 4].map((k) => parseInt(x.slice(k, k + 2), 16));
  const [p, q] = [rgb(STOPS[a]), rgb(STOPS[a + 1])];
  return p.map((v, k) => Math.round(v + f * (q[k] - v)));
});
const GUTTER = 66,
  MARGIN = 12,
  STRIP = 34,
  SPEC = 48,
  TOP = 6,
  LABEL = 10; // pixels from a label to the next
const MARK = {
  accepted: ["--ok", 4],
  resampled: ["--no", 9],
  bonus: ["--plus", 6],
  drafted: ["--quiet", 3],
  delay: ["--quiet", 3],
};
const stamp = (values, columns, rows, transposed, gain) => {
  // uint8 -> an offscreen picture, one pixel a value
  const c = document.createElement("canvas");
  c.width = Math.max(1, columns);
  c.height = Math.max(1, rows);
  const g = c.getContext("2d"),
    image = g.createImageData(c.width, c.height);
  for (let y = 0; y < rows; y++)
    for (let x = 0; x < columns; x++) {
      const v = LUT[Math.min(255, Math.round(gain * (transposed ? values[x * rows + y] : values[y * columns + x])))],
        k = 4 * (y * columns + x);
      image.data[k] = v[0];
      image.data[k + 1] = v[1];
      image.data[k + 2] = v[2];
      image.data[k + 3] = 255;
    }
  g.putImageData(image, 0, 0);
  return c;
};

// look: { span seconds of the axis, zoom, peak weight of the scale, sounds: labels as sounds where there is room }
export const attentionMap = (lane, look) => {
  const map = lane.attention,
    frame = lane.frame || 0.02;
  const attention = map ? decodeBase64(map.map) : null,
    picture = map ? stamp(attention, map.steps, map.text, true, map.peak / look.peak) : null;
  const spec = lane.spectrogram ? decodeBase64(lane.spectrogram) : null,
    columns = spec ? spec.length / lane.bands : 0;
  const specPicture = spec ? stamp(spec, columns, lane.bands, false, 1) : null;
  const tall = map ? Math.round(Math.max(130, Math.min(190, map.text * 9)) * { 1: 1, 2: 1.5, 4: 2.4 }[look.zoom]) : 0;
  const yStrip = TOP + tall + (tall ? 8 : 2),
    ySpec = yStrip + STRIP + 6,
    yAxis = ySpec + SPEC + 3,
    height = yAxis + 20;
  const gutter = h("canvas", { class: "gutter" }),
    canvas = h("canvas"),
    line = h("i", { class: "playhead", hidden: true }),
    tip = h("div", { class: "tip", hidden: true });
  const scroller = h("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": words() }, canvas, line);
  const root = h("div", { class: "map" }, gutter, scroller, tip);
  let width = 0;
  const x = (t) => ((width - MARGIN) * t) / look.span,
    when = (px) => (px / (width - MARGIN)) * look.span;
  const font = (px) => `${px}px ${getComputedStyle(document.body).fontFamily}`;

  function words() {
    if (!map) return `${lane.title}: passes and spectrogram by time; attention was not captured`;
    const missing = unreadWords(lane);
    const covered = `${Math.round(100 * (lane.figures.coverage || 0))} % of text symbols received clear attention`,
      gone = missing.length ? `; words that may be missing: ${missing.join(", ")}` : "";
    return `${lane.title}: attention to the text, passes and spectrogram by time. ${covered}${gone}`;
  }
  const labels = () => {
    const g = sizeCanvas(gutter, GUTTER, height),
      ink = cssColour("--ink"),
      quiet = cssColour("--quiet");
    g.clearRect(0, 0, GUTTER, height);
    g.textAlign = "right";
    if (map) {
      const row = tall / map.text,
        room = row >= 9.5 && look.sounds,
        bad = new Set([...(map.unread || []), ...(map.repeated || [])]);
      g.font = font(11);
      const spans = map.words && map.words.length ? map.words : map.labels.map((l, i) => [i, i, l]);
      const shown = room
        ? map.labels.map((l, i) => [l, i + 0.5, spans.some(([a, b], k) => bad.has(k) && i >= a && i <= b)])
        : spans.map(([a, b, word], k) => [word, (a + b + 1) / 2, bad.has(k)]);
      const at = spread(
        shown.map(([, middle]) => TOP + middle * row),
        LABEL,
        TOP + LABEL / 2,
        TOP + tall - LABEL / 2,
      );
      shown.forEach(([word, , wrong], i) => {
        if (at[i] === null) return;
        g.fillStyle = wrong ? cssColour("--no") : ink;
        g.fillText(cut(g, word, GUTTER - 8), GUTTER - 7, at[i] + 4);
      });
      g.fillStyle = cssColour("--side", root);
      map.coverage.forEach((c, i) =>
        g.fillRect(GUTTER - 4, TOP + i * row, 4 * Math.min(1, c * 2), Math.max(1, row - 0.6)),
      );
    }
    g.fillStyle = quiet;
    g.font = font(10.5);
    g.fillText("passes", GUTTER - 7, yStrip + 13);
    g.fillText(`${lane.nyquist || 8} kHz`, GUTTER - 7, ySpec + 9);
    g.fillText("0", GUTTER - 7, ySpec + SPEC);
    g.fillText("seconds", GUTTER - 7, yAxis + 14);
  };
  const strip = (g, quiet) => {
    // one block a pass, as wide as what it emitted; marks of its frames underneath, rarest last so that none is hidden
    const side = cssColour("--side", root),
      marks = [];
    lane.timeline.forEach(([first, n, names], i) => {
      if (!n) {
        g.fillStyle = quiet;
        g.fillRect(x(first * frame) - 0.5, yStrip, 1, 8);
        return;
      }
      const a = x(first * frame),
        b = x((first + n) * frame);
      g.fillStyle = side;
      g.globalAlpha = i % 2 ? 0.9 : 0.4;
      g.fillRect(a, yStrip, Math.max(0.7, b - a - (b - a > 3 ? 1 : 0)), 18);
      g.globalAlpha = 1;
      names.forEach((m, k) => {
        if (MARK[m]) marks.push([MARK[m], x((first + k) * frame), x((first + k + 1) * frame)]);
      });
    });
    for (const [[name, up], p, q] of marks.sort((a, b) => a[0][1] - b[0][1])) {
      g.fillStyle = cssColour(name);
      g.fillRect(p, yStrip + 21 + (9 - up) / 2, Math.max(1.6, q - p - 0.4), up);
    }
  };
  const missing = (g) => {
    // where attention breaks off: the last moment that a word before the gap was looked at
    if (!map || !(map.unread || []).length) return;
    const [a] = map.words[map.unread[0]];
    let at = 0;
    for (let i = 0; i < map.steps; i++) {
      let best = 0;
      for (let k = 1; k < map.text; k++) if (attention[i * map.text + k] > attention[i * map.text + best]) best = k;
      if (best < a) at = map.end[i];
    }
    const px = Math.min(x(at), width - 2),
      row = tall / map.text;
    g.fillStyle = "rgba(255,125,142,.35)";
    for (const k of map.unread) {
      const [p, q] = map.words[k];
      g.fillRect(0, TOP + p * row, x(lane.seconds), (q - p + 1) * row);
    }
    g.strokeStyle = "#ff7d8e";
    g.lineWidth = 2;
    g.setLineDash([4, 3]);
    g.beginPath();
    g.moveTo(px, TOP);
    g.lineTo(px, yStrip + 18);
    g.stroke();
    g.setLineDash([]);
  };
  const draw = () => {
    const room = scroller.clientWidth;
    if (!room) return;
    width = Math.max(180, room * look.zoom);
    const g = sizeCanvas(canvas, width, height),
      quiet = cssColour("--quiet");
    g.clearRect(0, 0, width, height);
    g.imageSmoothingEnabled = false;
    if (map) {
      g.fillStyle = `rgb(${LUT[0]})`;
      g.fillRect(0, TOP, x(lane.seconds), tall);
      for (let i = 0; i < map.steps; i++) {
        const a = x(map.start[i]),
          b = x(map.end[i]);
        if (b > a) g.drawImage(picture, i, 0, 1, map.text, a, TOP, b - a + 0.5, tall);
      }
      if (lane.timeline.some((r) => r[1] > 1)) {
        // edges of patches and chunks, fainter where they are close
        for (const [first, n] of lane.timeline) {
          if (!n) continue;
          g.strokeStyle = `rgba(255,255,255,${Math.min(0.34, 0.05 + x(n * frame) / 60)})`;
          g.lineWidth = 1;
          g.beginPath();
          g.moveTo(x(first * frame), TOP);
          g.lineTo(x(first * frame), TOP + tall);
          g.stroke();
        }
      }
      missing(g);
    }
    strip(g, quiet);
    if (specPicture) {
      g.imageSmoothingEnabled = true;
      g.drawImage(specPicture, 0, 0, columns, lane.bands, 0, ySpec, x(lane.seconds), SPEC);
    }
    g.fillStyle = quiet;
    g.font = font(10.5);
    for (const t of axisTicks(look.span, Math.max(3, Math.floor(width / 90)))) {
      g.textAlign = t ? "center" : "left";
      g.fillText(`${+t.toFixed(2)}`, x(t), yAxis + 14);
      g.fillRect(x(t), yAxis, 1, 4);
    }
    labels();
  };
  const told = (t, y) => {
    if (t < 0 || t > lane.seconds) return "";
    const f = Math.floor(t / frame),
      i = lane.timeline.findIndex((r) => f >= r[0] && f < r[0] + r[1]),
      step = lane.timeline[i];
    if (map && y >= TOP && y < TOP + tall) {
      const k = Math.min(map.text - 1, Math.floor(((y - TOP) / tall) * map.text)),
        c = map.start.findIndex((a, j) => t >= a && t < map.end[j]);
      if (c < 0) return "";
      const word = (map.words || []).find((w) => k >= w[0] && k <= w[1]);
      const within = word && word[2] !== map.labels[k] ? ` in “${word[2]}”` : "",
        weight = ((attention[c * map.text + k] / 255) * map.peak).toFixed(3);
      return `${map.labels[k]}${within} · ${t.toFixed(2)} s · weight ${weight}`;
    }
    if (!step) return `${t.toFixed(2)} s`;
    const [first, n, marks, ms, proposed, accepted] = step,
      mark = marks[f - first];
    return [
      `pass ${i + 1}`,
      `${n} frame${n === 1 ? "" : "s"}`,
      mark && mark !== "token" ? { resampled: "redrawn" }[mark] || mark : null,
      proposed ? `${accepted} of ${proposed} drafted tokens accepted` : null,
      `${ms} ms`,
      `${inBytes(lane.kv[i])} KV`,
    ]
      .filter(Boolean)
      .join(" · ");
  };
  scroller.addEventListener("pointermove", (e) => {
    const box = canvas.getBoundingClientRect(),
      text = told(when(e.clientX - box.left), e.clientY - box.top),
      frameBox = root.getBoundingClientRect();
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(0, Math.min(e.clientX - frameBox.left + 12, frameBox.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(0, e.clientY - frameBox.top - 34)}px`;
  });
  scroller.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  canvas.addEventListener("click", (e) => {
    const t = when(e.clientX - canvas.getBoundingClientRect().left);
    if (t >= 0 && t < lane.seconds) deck.seek(lane.id, t);
  });
  const watcher = new ResizeObserver(draw),
    off = onTheme(draw);
  watcher.observe(scroller);
  return {
    root,
    scroller,
    draw,
    canvas,
    gutter,
    move(t) {
      line.hidden = false;
      line.style.left = `${x(Math.min(t, look.span))}px`;
      line.style.height = `${yAxis - TOP}px`;
      line.style.top = `${TOP}px`;
    },
    close() {
      watcher.disconnect();
      off();
    },
  };
};
const named = (lane, which) =>
  lane.attention && lane.attention[which] ? lane.attention[which].map((k) => lane.attention.words[k][2]) : [];
export const unreadWords = (lane) => named(lane, "unread");
export const repeatedWords = (lane) => named(lane, "repeated");
