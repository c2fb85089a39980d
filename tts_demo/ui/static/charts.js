// Small SVG charts: the live pair (real-time factor, KV cache) and the plots that belong to a method.
import { axisTicks, h, inBytes, s } from "./base.js";
import { count } from "./count.js";

// series: [{name, slot, points: [[x, y]...]}]. Lines differ by dashes too, not by colour alone.
export const lineChart = (root, o) => {
  const box = h("div", { class: "chart" }),
    title = h("h4", {}, o.title),
    hint = h("small", {}, o.hint || ""),
    legend = h("div", { class: "legend" });
  const svg = s("svg", { role: "img" }),
    tip = h("div", { class: "tip", hidden: "" });
  box.append(h("div", { class: "chart-head" }, title, hint, legend), svg, tip);
  root.append(box);
  let series = [],
    geometry = null;
  const last = (r) => {
    const [at, v] = r.points[r.points.length - 1];
    return `${(o.exact || o.format)(v)} at ${at.toFixed(1)} s`;
  };
  const draw = () => {
    const w = box.clientWidth,
      height = 150,
      left = 56,
      right = 14,
      top = 8,
      bottom = 24;
    if (!w) return;
    svg.setAttribute("viewBox", `0 0 ${w} ${height}`);
    svg.setAttribute("height", height);
    const all = series.flatMap((r) => r.points);
    const xs = Math.max(o.xmin || 1, ...all.map((p) => p[0]));
    // The first points of a running ratio are start-up and would flatten the rest: with ``settle`` they may leave the
    // top.
    const calm = o.settle ? all.filter((p) => p[0] > 0.12 * xs) : all;
    const ys = o.max || Math.max(o.ymin || 0, ...(calm.length ? calm : all).map((p) => p[1])) * 1.15 || 1;
    const x = (v) => left + ((w - left - right) * v) / xs,
      y = (v) => height - bottom - ((height - top - bottom) * Math.min(v, 1.04 * ys)) / ys;
    const parts = [];
    for (const t of axisTicks(ys, 3))
      parts.push(
        s("line", { x1: left, x2: w - right, y1: y(t), y2: y(t), class: "grid" }),
        s("text", { x: left - 7, y: y(t) + 4, "text-anchor": "end" }, all.length ? o.format(t) : ""),
      );
    if (all.length)
      for (const t of axisTicks(xs, Math.max(3, Math.floor(w / 110))))
        parts.push(s("text", { x: x(t), y: height - 7, "text-anchor": "middle" }, `${+t.toFixed(2)}${t ? "" : " s"}`));
    if (o.line && o.line < ys)
      parts.push(
        s("line", { x1: left, x2: w - right, y1: y(o.line), y2: y(o.line), class: "limit" }),
        s("text", { x: w - right, y: y(o.line) - 4, "text-anchor": "end", class: "limit-word" }, o.lineWord),
      );
    for (const r of series) {
      if (!r.points.length) continue;
      const d = r.points.map((p, i) => `${i ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("");
      parts.push(s("path", { d, class: `line slot-${r.slot}` }));
      const [lx, ly] = r.points[r.points.length - 1];
      parts.push(s("circle", { cx: x(lx), cy: y(ly), r: 3.5, class: `end slot-${r.slot}` }));
    }
    svg.replaceChildren(...parts);
    svg.setAttribute(
      "aria-label",
      `${o.title}. ` + series.map((r) => (r.points.length ? `${r.name}: ${r.words || last(r)}` : "")).join(". "),
    );
    legend.replaceChildren(
      ...series
        .filter((r) => r.points.length)
        .map((r) =>
          h(
            "span",
            { class: `slot-${r.slot}` },
            s(
              "svg",
              { class: "key", width: 30, height: 8, "aria-hidden": "true" },
              s("path", { d: "M0 4H30", class: `line slot-${r.slot}` }),
            ),
            `${r.name} `,
            h("b", {}, r.words || last(r)),
          ),
        ),
    );
    geometry = { left, right, w, xs };
  };
  svg.addEventListener("pointermove", (e) => {
    if (!geometry || !series.some((r) => r.points.length)) return;
    const r = svg.getBoundingClientRect(),
      at = ((e.clientX - r.left - geometry.left) / (geometry.w - geometry.left - geometry.right)) * geometry.xs;
    const words = series
      .filter((q) => q.points.length)
      .map((q) => {
        const p = q.points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a));
        return `${q.name} ${o.format(p[1])}`;
      });
    tip.textContent = `${Math.max(0, at).toFixed(2)} s · ${words.join(" · ")}`;
    tip.hidden = false;
    tip.style.left = `${Math.min(e.clientX - r.left + 10, geometry.w - tip.offsetWidth)}px`;
  });
  svg.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  new ResizeObserver(draw).observe(box);
  return (next) => {
    series = next;
    draw();
  };
};

export const drawCharts = (root, slot) => {
  const kv = lineChart(root, {
    title: "KV cache",
    hint: "live bytes by seconds of audio; lower is better",
    format: (v) => (v ? inBytes(v) : "0"),
  });
  const rtf = lineChart(root, {
    title: "Real-time factor so far",
    hint: "seconds of computing per second of audio, first round; lower is better",
    settle: true,
    format: (v) => (+v.toFixed(2)).toString(),
    exact: (v) => v.toFixed(2),
    line: 1,
    lineWord: "real time",
  });
  return (lanes) => {
    const { common, kvAt, done } = count,
      t = common(lanes),
      same = (l) => (done(l) && t ? `${inBytes(kvAt(l, t))} at ${t.toFixed(1)} s` : null); // as in the table
    const of = (column, words) =>
      lanes
        .filter((l) => l.curve && l.curve.length)
        .map((l) => ({
          slot: slot(l.id),
          name: l.title,
          points: l.curve.map((p) => [p[0], p[column]]),
          words: words && words(l),
        }));
    kv(of(2, same));
    rtf(of(1));
  };
};

const of = (n, unit) => `${n} ${+n === 1 ? unit.replace(/(ss)es$|s$/, "$1") : unit}`.trim();
const bars = (root, p, slot, name) => {
  const names = p.x.map((x) => of(x, p.each)),
    words = p.y.map((y) => of(+y.toFixed(3), p.unit)),
    row = 21,
    left = 70,
    top = Math.max(...p.y, 1e-9);
  const svg = s("svg", {
    role: "img",
    height: row * p.x.length,
    "aria-label": `${p.title}: ${names.map((x, i) => `${x}, ${words[i]}`).join("; ")}`,
  });
  const box = h(
    "div",
    { class: "chart" },
    h("div", { class: "chart-head" }, h("h4", {}, p.title), h("small", {}, name)),
    svg,
  );
  const draw = () => {
    // each number right behind its bar
    const room = box.clientWidth - left - 6 - 7 * Math.max(...words.map((w) => w.length));
    svg.replaceChildren(
      ...names.flatMap((x, i) => {
        const long = Math.max(2, (room * p.y[i]) / top);
        return [
          s("text", { x: left - 8, y: row * i + 14, "text-anchor": "end" }, x),
          s("rect", {
            x: left,
            y: row * i + 2,
            height: 15,
            rx: 3,
            width: long.toFixed(1),
            class: `end slot-${slot}`,
          }),
          s("text", { x: left + long + 6, y: row * i + 14 }, words[i]),
        ];
      }),
    );
  };
  root.append(box);
  new ResizeObserver(draw).observe(box);
};
export const scatter = (root, p) => {
  // lower left is better: faster and better understood
  const box = h(
    "div",
    { class: "chart" },
    h("div", { class: "chart-head" }, h("h4", {}, p.title), h("small", {}, p.hint)),
  );
  const svg = s("svg", { role: "img" }),
    filled = h("p", { class: "quiet" });
  box.append(svg, filled);
  root.append(box);
  const draw = () => {
    const w = box.clientWidth,
      height = 250,
      left = 46,
      right = 16,
      top = 30,
      bottom = 44;
    if (!w) return;
    svg.setAttribute(
      "aria-label",
      `${p.title}: ` + p.points.map(([x, y, name]) => `${name} ${x.toFixed(2)}, ${Math.round(100 * y)} %`).join("; "),
    );
    svg.setAttribute("viewBox", `0 0 ${w} ${height}`);
    svg.setAttribute("height", height);
    const xs = Math.max(...p.points.map((q) => q[0])) * 1.15,
      ys = Math.max(...p.points.map((q) => q[1])) * 1.2 || 1;
    const x = (v) => left + ((w - left - right) * v) / xs,
      y = (v) => height - bottom - ((height - top - bottom) * v) / ys;
    const parts = [
      s("text", { x: 0, y: 11 }, `${p.y_label}, lower is better`),
      s("text", { x: w - right, y: height - 4, "text-anchor": "end" }, `${p.x_label}, lower is better`),
    ];
    for (const t of axisTicks(ys, 3))
      parts.push(
        s("line", { x1: left, x2: w - right, y1: y(t), y2: y(t), class: "grid" }),
        s("text", { x: left - 7, y: y(t) + 4, "text-anchor": "end" }, `${+(100 * t).toFixed(1)} %`),
      );
    for (const t of axisTicks(xs, 4))
      parts.push(s("text", { x: x(t), y: height - bottom + 16, "text-anchor": "middle" }, `${+t.toFixed(2)}`));
    const best = (q) => !p.points.some((o) => o !== q && o[0] <= q[0] && o[1] <= q[1]); // none beats it in both
    filled.textContent = `Lower left is better. Filled: the baseline and, what no other beats: ${p.points
      .filter((q) => !q[3] && best(q))
      .sort((a, b) => a[0] - b[0])
      .map((q) => q[2])
      .join("; ")}.`;
    const taken = p.points.map(([px, py]) => [x(px) - 6, x(px) + 6, y(py)]); // no label is put on a point or on another
    for (const q of [...p.points].sort((a, b) => best(b) - best(a))) {
      const [px, py, name, base] = q,
        long = 6.2 * name.length,
        cx = x(px),
        cy = y(py);
      const dot = s("circle", { cx, cy, r: 4.5, class: base ? "end slot-0" : best(q) ? "end slot-1" : "other" });
      dot.append(s("title", {}, `${name}: ${px.toFixed(2)} of the baseline's time, ${(100 * py).toFixed(1)} %`));
      parts.push(dot);
      const place = [
        [cx + 8, cy],
        [cx - 8 - long, cy],
        [cx - long / 2, cy - 13],
        [cx - long / 2, cy + 14],
      ].find(
        ([from, row]) =>
          from > left &&
          from + long < w &&
          row > 8 &&
          row < height - bottom &&
          !taken.some(([a, b, v]) => a < from + long && from < b && Math.abs(v - row) < 12),
      );
      if (!place) continue; // its words are in its title
      taken.push([place[0], place[0] + long, place[1]]);
      parts.push(s("text", { x: place[0], y: place[1] + 4 }, name));
    }
    svg.replaceChildren(...parts);
  };
  new ResizeObserver(draw).observe(box);
};
export const ownPlot = (root, p, slot, name) => {
  if (p.kind === "bars") {
    bars(root, p, slot, name);
    return;
  }
  lineChart(root, { title: p.title, hint: name, max: p.max, format: (v) => `${Math.round(100 * v)} %` })(
    p.series.map((r) => ({ ...r, slot })),
  );
};
