// While something runs: a bar with what runs now and what is left, and who has spoken how many seconds.
import { h } from "./base.js";

const TICK = 500; // ms

export const progress = () => {
  const bar = h("progress", { max: "1", "aria-label": "Progress of the run" }),
    now = h("b", {}),
    left = h("span", { class: "quiet" }),
    since = h("span", { class: "time" }),
    race = h("div", { class: "race" });
  const root = h("section", { class: "progress", hidden: true }, h("p", {}, now, " ", left, " ", since), bar, race);
  let began = 0;
  // how long it has run, whatever comes from the server: what waits for a turn or for its map still goes on
  setInterval(() => {
    if (!root.hidden) since.textContent = `${Math.round((performance.now() - began) / 1000)} s so far`;
  }, TICK);
  return {
    root,
    // told: the server's last message, null for none; lanes: those that still speak
    show(told, lanes) {
      if (root.hidden) began = performance.now();
      root.hidden = !told && !lanes.length;
      if (root.hidden) {
        since.textContent = "";
        return;
      }
      if (told) {
        bar.value = told.share;
        now.textContent = told.now;
        left.textContent = told.left ? `${told.now ? "· " : ""}${told.left}` : "";
      } else {
        bar.value = 0; // a bar without a value is drawn anew in every frame
        now.textContent = "Preparing the voice";
        left.textContent = "";
      }
      const running = lanes.some((l) => l.note);
      race.hidden = !running;
      const most = Math.max(1, ...lanes.map((l) => Math.max(l.expected || 0, l.figures.audio_seconds || 0)));
      race.replaceChildren(
        ...lanes.map((l) => {
          const seconds = l.seconds && !l.note ? l.seconds : l.figures.audio_seconds || 0;
          return h(
            "div",
            { class: `slot-${l.slot}` },
            h("i", { class: "dot" }),
            h("span", {}, l.title),
            h("span", { class: "track" }, h("i", { style: `width: ${Math.min(100, (100 * seconds) / most)}%` })),
            h("span", { class: "time" }, `${seconds.toFixed(1)} s`),
          );
        }),
      );
    },
  };
};
