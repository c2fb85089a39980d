// Methods explained: words, where they come from, and a picture of what the KV cache holds and what one pass makes. It
// moves with the passes of whichever lane of that method plays.
import { h, inBytes, s } from "./base.js";
import { deck } from "./deck.js";
import { count } from "./count.js";
import { store } from "./store.js";

const KINDS = {
  p: "voice and text",
  s: "speech token",
  z: "patch",
  w: "summary",
  x: "dropped",
  d: "draft's cache",
  a: "accepted",
  r: "rejected, sampled again",
  h: "extra head",
  k: "codebook",
};
const MARKS = { accepted: "a", resampled: "r", bonus: "s", chunk: "h" };
const GLYPHS = {
  x: ["cross", "M3 4l5 6m0-6l-5 6"],
  r: ["mark", "M5.5 3v8m-3-4h6"],
  w: ["mark", "M2.5 4l1.5 6 1.5-4 1.5 4 1.5-6"],
};
const STEP = 13,
  WIDE = 246,
  THIN = 3;
const still = window.matchMedia("(prefers-reduced-motion: reduce)");
const cell = (kind, x, y, width) => [
  s("rect", { x, y, width: width || 11, height: 14, rx: width ? 0.5 : 2.5, class: `c-${kind}` }),
  ...(GLYPHS[kind] && !width
    ? [s("path", { d: GLYPHS[kind][1], class: GLYPHS[kind][0], transform: `translate(${x} ${y})` })]
    : []),
];
const row = (kinds, y) => {
  let x = 4;
  return [...kinds].flatMap((kind) => {
    const drawn = kind === " " ? [] : cell(kind, x, y);
    x += kind === " " ? 8 : STEP;
    return drawn;
  });
};
const grown = (lane, i) => Math.max(0, lane.kv[i] - lane.kv[0]);
const emitted = ([, n, marks, , proposed, accepted], plain) => {
  // the cells of one pass; plain: what the method draws for it
  const cells = plain.includes("k")
    ? n
      ? plain
      : ""
    : Array.from({ length: n }, (_, i) => MARKS[marks[i]] || plain[0]).join("");
  return cells + "x".repeat(Math.max(0, proposed - accepted - marks.filter((m) => m === "resampled").length));
};
const live = new Set();

export const methodPicture = (m) => {
  // m: a method of the catalogue
  const svg = s("svg", {
    class: "pic",
    viewBox: `0 0 ${WIDE} 68`,
    role: "img",
    "aria-label": `Cache: ${m.cached}. One pass: ${m.emits}.`,
  });
  const prefix = m.picture.cache.split(" ")[0],
    body = [...m.picture.cache].filter((k) => !" xd".includes(k)).pop();
  const fill = (kept, cache, says, emits) =>
    svg.replaceChildren(
      s("text", { x: 4, y: 11, class: "cap" }, kept),
      ...cache,
      s("text", { x: 4, y: 45, class: "cap" }, says),
      ...row(emits, 51),
    );
  const legend = h(
    "div",
    { class: "pic-legend" },
    ...Object.keys(KINDS)
      .filter((k) => (m.picture.cache + m.picture.emits).includes(k))
      .map((k) =>
        h(
          "span",
          {},
          s("svg", { class: "pic", viewBox: "0 0 11 14", "aria-hidden": "true" }, ...cell(k, 0, 0)),
          KINDS[k],
        ),
      ),
  );
  const picture = {
    root: h("div", { class: `slot-${m.slot}` }, svg, legend), // its own cells have the method's colour
    method: m.name,
    at: "",
    rest() {
      picture.at = "";
      fill("kept in the cache", row(m.picture.cache, 17), "one pass makes", m.picture.emits);
    },
    show(lane, t) {
      // the pass that ended last before ``t``; bytes on one scale for all lanes of the run
      if (!lane.timeline.length || still.matches) return;
      const ends = count.ends(lane),
        later = ends.findIndex((e) => e > t),
        i = later < 0 ? ends.length - 1 : later,
        now = `${lane.id} ${i}`;
      if (now === picture.at) return;
      picture.at = now;
      const start = 4 + STEP * prefix.length + 8,
        room = WIDE - start - 4,
        most = Math.max(
          1,
          ...store
            .lanes()
            .filter((l) => l.take === lane.take && l.kv)
            .map((l) => grown(l, l.kv.length - 1)),
        );
      const cells = Array.from(
        { length: Math.min(Math.floor(room / THIN), Math.round(((room / THIN) * grown(lane, i)) / most)) },
        (_, k) => cell(body, start + THIN * k, 17, THIN - 0.8),
      ).flat();
      fill(
        `kept in the cache: ${inBytes(lane.kv[i])}`,
        [...row(prefix, 17), ...cells],
        `pass ${i + 1} of ${lane.timeline.length} makes`,
        emitted(lane.timeline[i], m.picture.emits),
      );
    },
  };
  picture.rest();
  live.add(picture);
  return picture;
};
deck.on((kind, told) => {
  const lane = kind === "time" && store.get(told.id);
  if (!lane || !lane.timeline) return;
  for (const p of live) {
    if (!p.root.isConnected) live.delete(p);
    else if (p.root.offsetParent) {
      if (p.method === lane.method) p.show(lane, told.t);
      else if (p.at) p.rest();
    }
  }
});

export const methodCard = (m) =>
  h(
    "div",
    { class: "method-card" },
    h("p", { class: "idea" }, m.idea),
    m.picture ? methodPicture(m).root : null,
    h(
      "p",
      { class: "quiet" },
      `Cache: ${m.cached}. One pass: ${m.emits}.`,
      h("br", {}),
      h("cite", {}, m.paper),
      ...(m.links || []).flatMap(([words, url]) => [
        " ",
        h("a", { href: url, target: "_blank", rel: "noopener" }, words),
      ]),
    ),
  );
