// The head of the board: what each setting gains and costs over many texts, in a sentence, and what all results share.
import { h, shorten } from "./base.js";

const given = (lane) => lane.made || {};
// The same text, voice and seed in all of them, said once; null where they differ.
export const shared = (lanes) => {
  const key = (l) => JSON.stringify([given(l).text, given(l).voice, given(l).seed, !!l.recorded]);
  return lanes.length && lanes.every((l) => key(l) === key(lanes[0])) ? lanes[0] : null;
};
export const madeWords = (lane) => [
  `“${shorten(given(lane).text || "", 90)}”`,
  ...[given(lane).voice, `seed ${given(lane).seed}`].filter(Boolean),
];

const sentence = (lane) => {
  const found = lane.published,
    parts = found.sentence.map((p, i) => [i ? ", " : " ", h("span", { class: p.kind }, p.words)]).flat();
  return h("li", { class: `slot-${lane.slot}` }, h("i", { class: "dot" }), h("b", {}, `${lane.title}:`), ...parts, ".");
};

export const headline = () => {
  const list = h("ul", { class: "gains" }),
    under = h("p", { class: "quiet" }),
    line = h("p", { class: "shared quiet" });
  const root = h(
    "section",
    { class: "headline", "aria-label": "What each setting gains and costs" },
    list,
    h("div", { class: "under" }, under, line),
  );
  return {
    root,
    show(lanes) {
      const known = lanes.filter((l) => l.published && l.id !== `${l.take}.0`),
        unlike = lanes.filter((l) => !l.published && l.id !== `${l.take}.0`),
        one = shared(lanes);
      list.replaceChildren(...known.map(sentence));
      const all = (key) => [...new Set(known.map((l) => l.published[key]))],
        texts = all("texts")
          .sort((a, b) => b - a)
          .join(" or "),
        machines = all("machine").join(" or ");
      under.textContent = [
        known.length
          ? `Measured over ${texts} texts, timed beside the baseline on ${machines}; grey: within the interval.`
          : "",
        unlike.length ? `Not measured so: ${unlike.map((l) => l.title).join(", ")}.` : "",
      ].join(" ");
      line.replaceChildren(...(one ? madeWords(one).map((w) => h("span", { title: one.made.text }, w)) : []));
      if (one && one.recorded) line.append(h("span", { class: "tag" }, "recorded, not run here"));
      root.hidden = !lanes.length;
    },
  };
};
