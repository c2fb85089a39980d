// The comparison as one file that plays without a server: sound, maps whose lines move together, figures, conditions.
import { cssColour } from "./base.js";
import { count, tableRows } from "./count.js";

const escape = (text) =>
  String(text).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);

// Runs in the saved file, so it knows nothing of this one.
function play() {
  const all = [...document.querySelectorAll("section")].map((e) => ({
    sound: e.querySelector("audio"),
    map: e.querySelector(".map"),
    track: JSON.parse(e.dataset.track),
  }));
  const between = (pairs, from, to, x) => {
    for (let i = 1; i < pairs.length; i++)
      if (x <= pairs[i][from]) {
        const [a, b] = [pairs[i - 1], pairs[i]];
        return a[to] + (b[from] > a[from] ? (x - a[from]) / (b[from] - a[from]) : 0) * (b[to] - a[to]);
      }
    return pairs.length ? pairs[pairs.length - 1][to] : x;
  };
  const put = (one, t) => {
    if (!one.map) return;
    const left = Number(one.map.dataset.left);
    one.map.querySelector("i").style.left = `${left + ((100 - left) * t) / one.map.dataset.span}%`;
  };
  for (const one of all) {
    one.sound.onplay = () => {
      for (const other of all) if (other !== one) other.sound.pause();
    };
    one.sound.ontimeupdate = () => {
      const t = one.sound.currentTime;
      for (const other of all) {
        const same = other === one || !one.track.length || !other.track.length;
        put(other, same ? t : between(other.track, 1, 0, between(one.track, 0, 1, t)));
      }
    };
    if (!one.map) continue;
    one.map.onclick = (e) => {
      const box = one.map.getBoundingClientRect(),
        left = Number(one.map.dataset.left),
        x = (100 * (e.clientX - box.left)) / box.width;
      if (x <= left) return;
      one.sound.currentTime = ((x - left) / (100 - left)) * one.map.dataset.span;
      one.sound.play();
    };
  }
}

const style = () => `
body { font: 15px/1.5 sans-serif; max-width: 1100px; margin: 24px auto; padding: 0 16px; color: ${cssColour("--ink")};
  background: ${cssColour("--card")} }
h2 { font-size: 17px; margin: 22px 0 2px } p { margin: 2px 0 } audio { width: 100% }
.quiet, small { color: ${cssColour("--quiet")}; font-size: 12px } small { display: block }
.good { color: ${cssColour("--ok")} } .bad { color: ${cssColour("--no")} }
.map { position: relative; cursor: pointer } .map img { width: 100%; display: block }
.map i { position: absolute; top: 0; bottom: 0; width: 2px; margin-left: -1px; background: #f33 }
.map i:not([style]) { display: none } table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: 5px 8px 5px 0;
  border-bottom: 1px solid ${cssColour("--line")} }
`;

// one: { lane, under: [title, what made it, conditions], map: picture or null, heads: words for it }
const section = ({ lane, under, map, heads }, span) => {
  const [title, made, conditions] = under.map(escape),
    quick = count.model(lane);
  const parts = [`<h2>${title}</h2><p>${made}</p>`];
  if (quick) parts.push(`<p>Language model: <b>${escape(quick.words)}</b> (${escape(quick.range)})</p>`);
  parts.push(`<audio controls src="data:audio/wav;base64,${escape(lane.wav)}"></audio>`);
  if (map) {
    const wide = map.width * (1 - map.gutter);
    parts.push(
      `<div class="map" data-left="${100 * map.gutter}" data-span="${(span * wide) / (wide - 12)}">`,
      `<img alt="Attention, passes and spectrogram of ${title}" src="${map.canvas.toDataURL()}"><i></i></div>`,
    );
  }
  const notes = [...(lane.warnings || []), ...(map ? heads : [])].map(escape);
  parts.push(`<p class="quiet">${[...notes, conditions].join(" · ")}</p>`);
  return `<section data-track="${escape(JSON.stringify(lane.track || []))}">${parts.join("")}</section>`;
};
const table = (lanes) => {
  const verdict = (v) => (v ? `<small class="${escape(v.kind)}">${escape(v.words)}</small>` : "");
  const cell = (c) => `<td>${escape(c.words)}${verdict(c.verdict)}</td>`;
  const head = lanes.map((l) => `<th>${escape(l.title)}<small>${escape(l.dials || "")}</small></th>`).join("");
  const rows = tableRows(lanes).map(
    (r) => `<tr><th>${escape(r.name)}<small>${escape(r.meaning)}</small></th>${r.cells.map(cell).join("")}</tr>`,
  );
  return `<table><tr><th>Measure</th>${head}</tr>${rows.join("")}</table>`;
};
export const comparisonPage = (parts) => {
  const lanes = parts.map((one) => one.lane),
    span = Math.max(...lanes.map((l) => l.seconds));
  return [
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
    `<title>${escape(document.title)}</title><style>${style()}</style>`,
    `<h1>${escape(document.title)}</h1><p>Synthetic speech. ${escape(new Date().toLocaleString("en"))}</p>`,
    ...parts.map((one) => section(one, span)),
    `<h2>Figures</h2>${table(lanes)}`,
    `<script>(${play})();</`,
    "script></html>",
  ].join("");
};
