// Charts by plotly.js: layouts come from the server, results from the board. Hover, zoom and PNG export are plotly's.
import { cssColour, inBytes, onTheme } from "./base.js";
import { chart, wide } from "./chart.js";
import { count } from "./count.js";

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
// "2 tokens", "1 pass"
export const counted = (n, unit) => `${n} ${+n === 1 ? unit.replace(/(ss)es$|s$/, "$1") : unit}`.trim();

const colour = (slot) => cssColour(`--lane-${slot}`);
// Results of one method share its colour; the second and third of them are told apart by dashes.
const dashes = (lanes) => {
  const seen = new Map();
  return lanes.map((l) => {
    const n = seen.get(l.slot) || 0;
    seen.set(l.slot, n + 1);
    return DASHES[n % DASHES.length];
  });
};
const titled = (l) => `${l.title}${l.dials ? `, ${l.dials}` : ""}`;

// The last value of every curve, written at its end; labels that would lie on one another are moved apart.
const ends = (curves, layout) => {
  const top = Math.max(1e-9, ...curves.flatMap((c) => c.y)),
    height = layout.height - layout.margin.t - layout.margin.b - 30,
    rows = curves.map((c) => ({ c, y: c.y[c.y.length - 1], px: (height * c.y[c.y.length - 1]) / (1.05 * top) }));
  rows.sort((a, b) => a.px - b.px);
  let last = -Infinity;
  return rows.map(({ c, y, px }) => {
    const at = Math.max(px, last + 14);
    last = at;
    return {
      x: c.x[c.x.length - 1],
      y,
      yshift: at - px,
      xshift: 6,
      text: c.end,
      showarrow: false,
      xanchor: "left",
      bgcolor: cssColour("--card"), // a longer curve goes on behind the label, not through it
      borderpad: 1,
      font: { color: colour(c.slot), size: 12 },
    };
  });
};
const line = (c) => ({
  type: "scatter",
  mode: "lines",
  name: c.name,
  x: c.x,
  y: c.y,
  line: { color: colour(c.slot), width: 2.2, dash: c.dash, shape: c.shape || "linear" },
  hovertemplate: `%{y:${c.format}}<extra>${c.name}</extra>`,
});
const curves = (into, list, layout, unit) => {
  if (!list.length) {
    into.show([], layout, "");
    return;
  }
  const most = Math.max(...list.flatMap((c) => c.y));
  const traces = list.map(line);
  const shown = {
    ...layout,
    showlegend: true,
    xaxis: { ...layout.xaxis, range: [0, 1.02 * Math.max(...list.flatMap((c) => c.x))] },
    yaxis: { ...layout.yaxis, range: layout.yaxis.range || [0, 1.05 * most] },
    annotations: ends(list, layout),
  };
  into.show(traces, shown, list.map((c) => `${c.name}: ${c.end} ${unit}`).join(". "));
};

const kvCurve = (l) => {
  // live bytes after each pass
  if (!count.done(l)) return { x: l.curve.map((p) => p[0]), y: l.curve.map((p) => p[2] / 1e6) };
  return { x: count.ends(l), y: l.kv.map((v) => v / 1e6) };
};
export const drawCharts = (root, given) => {
  const kv = chart(root, given.plotly, "KV cache"),
    rtf = chart(root, given.plotly, "Real-time factor");
  return (lanes) => {
    const able = lanes.filter((l) => l.curve && l.curve.length),
      dash = dashes(able),
      of = (l, i, xy, more) => ({ ...xy, name: titled(l), slot: l.slot, dash: dash[i], ...more });
    const again = able.some((l) => l.figures.first_segment_seconds),
      layout = given.charts.kv,
      subtitle = `${layout.title.subtitle.text}${again ? "; begins anew with each sentence" : ""}`;
    curves(
      kv,
      able.map((l, i) => {
        const xy = kvCurve(l);
        return of(l, i, xy, { shape: "hv", format: ".2f", end: inBytes(1e6 * (xy.y[xy.y.length - 1] || 0)) });
      }),
      { ...layout, title: { ...layout.title, subtitle: { text: subtitle } } },
      "",
    );
    curves(
      rtf,
      able.map((l, i) => {
        const y = l.curve.map((p) => p[1]);
        return of(l, i, { x: l.curve.map((p) => p[0]), y }, { format: ".3f", end: y[y.length - 1].toFixed(2) });
      }),
      given.charts.rtf,
      "",
    );
  };
};

// Plots that belong to methods: those of one title share a chart, a trace a result.
export const drawOwn = (root, given) => {
  const shown = new Map();
  return (lanes) => {
    const by = new Map();
    lanes.forEach((l, i) => {
      for (const p of l.own || []) by.set(p.title, [...(by.get(p.title) || []), { l, p, dash: dashes(lanes)[i] }]);
    });
    for (const [title, one] of shown)
      if (!by.has(title)) {
        one.close();
        shown.delete(title);
      }
    for (const [title, list] of by) {
      if (!shown.has(title)) shown.set(title, chart(root, given.plotly, title));
      const [{ p: first }] = list,
        base = given.charts[first.kind] || given.charts.bars,
        layout = { ...base, title: { ...base.title, text: title, subtitle: { text: "" } } };
      if (first.kind === "line") {
        const all = list.map(({ l, p, dash }) => {
          const points = p.series[0].points,
            y = points.map((v) => v[1]);
          return {
            x: points.map((v) => v[0]),
            y,
            name: titled(l),
            slot: l.slot,
            dash,
            format: ".0%",
            end: `${Math.round(100 * y[y.length - 1])} %`,
          };
        });
        curves(shown.get(title), all, layout, "");
        continue;
      }
      const traces = list.map(({ l, p }) => ({
        type: "bar",
        name: titled(l),
        x: p.x.map((x) => counted(x, p.each)),
        y: p.y,
        text: p.y.map((y) => counted(+y.toFixed(3), "")),
        textangle: 0,
        marker: { color: colour(l.slot) },
        hovertemplate: `%{x}: %{y} ${p.unit}<extra>${titled(l)}</extra>`,
      }));
      const words = list.map(
        ({ l, p }) =>
          `${titled(l)}: ` +
          p.x.map((x, i) => `${counted(x, p.each)}, ${counted(+p.y[i].toFixed(3), p.unit)}`).join("; "),
      );
      const y = { ...layout.yaxis, title: { text: first.unit } },
        marks = [...new Set(list.flatMap(({ p }) => p.x))].sort((a, b) => a - b), // not as the traces come
        x = {
          ...layout.xaxis,
          tickangle: 0,
          categoryorder: "array",
          categoryarray: marks.map((m) => counted(m, first.each)),
        };
      shown.get(title).show(traces, { ...layout, showlegend: true, xaxis: x, yaxis: y }, words.join(". "));
    }
  };
};

// Lower left is better: faster and better understood. Labels: the baseline, each method's defaults, what none beats.
export const drawTradeoff = (root, given) => {
  if (!given.tradeoff) return;
  const { points, layout } = given.tradeoff,
    best = (q) => !points.some((o) => o !== q && o[0] <= q[0] && o[1] <= q[1]),
    named = points.filter((q) => q[3] || q[5] || best(q)),
    into = chart(root, given.plotly, "Speed against word errors");
  const draw = () => {
    const most = [Math.max(...points.map((q) => q[0])) * 1.12, Math.max(...points.map((q) => q[1])) * 1.2],
      px = into.box.clientWidth - layout.margin.l - layout.margin.r,
      py = layout.height - layout.margin.t - layout.margin.b,
      taken = points.map((q) => [(px * q[0]) / most[0] - 6, (px * q[0]) / most[0] + 6, (py * q[1]) / most[1]]);
    const labels = [];
    for (const q of [...named].sort((a, b) => best(b) - best(a))) {
      const across = wide(q[2], 12) + 4,
        cx = (px * q[0]) / most[0],
        cy = (py * q[1]) / most[1];
      const at = [
        [cx + 9, cy],
        [cx - 9 - across, cy],
        [cx - across / 2, cy + 16],
        [cx - across / 2, cy - 16],
        [cx + 6, cy + 16],
        [cx + 6, cy - 16],
        [cx - 6 - across, cy + 16],
        [cx - 6 - across, cy - 16],
      ].find(
        ([from, row]) =>
          from > 0 &&
          from + across < px &&
          row > 6 &&
          row < py - 6 &&
          !taken.some(([a, b, v]) => a < from + across && from < b && Math.abs(v - row) < 15),
      );
      if (!at) continue; // hovering says it
      taken.push([at[0], at[0] + across, at[1]]);
      labels.push({
        x: q[0],
        y: q[1],
        text: q[2],
        showarrow: false,
        xanchor: "left",
        xshift: at[0] - cx,
        yshift: at[1] - cy,
        font: { color: colour(q[4]), size: 12 },
      });
    }
    const methods = [...new Set(points.map((q) => q[4]))].map((slot) => [slot, points.filter((q) => q[4] === slot)]);
    const traces = methods.map(([slot, own]) => ({
      type: "scatter",
      mode: "markers",
      name: own.reduce((a, q) => (q[2].length < a.length ? q[2] : a), own[0][2]), // its defaults go unsaid
      x: own.map((q) => q[0]),
      y: own.map((q) => q[1]),
      text: own.map((q) => q[2]),
      marker: {
        size: 10,
        color: colour(slot),
        symbol: own.map((q) => (q[3] || best(q) ? "circle" : "circle-open")),
        line: { width: 1.6, color: colour(slot) },
      },
      hovertemplate: "%{text}<br>%{x:.2f} of the baseline's time<br>%{y:.1%} of words misheard<extra></extra>",
    }));
    const shown = {
      ...layout,
      showlegend: labels.length < named.length, // where there is no room for all names
      xaxis: { ...layout.xaxis, range: [0, most[0]] },
      yaxis: { ...layout.yaxis, range: [0, most[1]] },
      annotations: labels,
    };
    const words = points.map(([x, y, name]) => `${name} ${x.toFixed(2)}, ${Math.round(100 * y)} %`).join("; ");
    into.show(traces, shown, `Filled: the baseline and what no other setting beats in both. ${words}`);
  };
  draw();
  let drawn = 0;
  new ResizeObserver(() => {
    if (Math.abs(into.box.clientWidth - drawn) < 20) return;
    drawn = into.box.clientWidth;
    draw();
  }).observe(into.box);
};

// Of all tokens a bar a head, its share under its number; of each kind of sound a mark beside the others.
const SYMBOLS = ["circle", "square", "diamond", "cross", "triangle-up", "x"],
  APART = 0.12; // heads, from one mark to the next
export const drawHeads = (root, given) => {
  if (!given.heads) return;
  const { traces, layout, ahead, colour: slot } = given.heads,
    into = chart(root, given.plotly, "Which head predicts a token best"),
    whole = (v) => `${Math.round(100 * v)} %`;
  const draw = () => {
    const shown = traces.map(([name, best, right, loss], i) => ({
      name,
      x: ahead.map((k) => (i ? k + APART * (i - traces.length / 2) : k)),
      y: best,
      customdata: right.map((r, k) => [r, loss[k], ahead[k]]),
      hovertemplate:
        `${name}, %{customdata[2]} ahead<br>the best of all: %{y:.1%}<br>likeliest token right: %{customdata[0]:.1%}` +
        "<br>cross-entropy: %{customdata[1]:.2f} nats<extra></extra>",
      ...(i
        ? { type: "scatter", mode: "markers", marker: { symbol: SYMBOLS[i - 1], size: 8, color: cssColour("--ink") } }
        : { type: "bar", marker: { color: colour(slot) } }),
    }));
    const words = traces.map(([name, best]) => `${name}: ${best.map(whole).join(", ")}`),
      ticktext = ahead.map((k, i) => `${k}<br>${whole(traces[0][1][i])}`);
    into.show(
      shown,
      { ...layout, xaxis: { ...layout.xaxis, tickvals: ahead, ticktext, range: [0.5, ahead.length + 0.5] } },
      words.join(". "),
    );
  };
  draw();
  onTheme(draw);
};
