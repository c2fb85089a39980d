// Blind listening: two finished lanes at one loudness, in a random order, nothing else in sight. Names come after the
// vote; the tally stays in this browser.
import { button, download, h } from "./base.js";
import { board } from "./board.js";
import { deck } from "./deck.js";
import { count } from "./count.js";
import { store } from "./store.js";

const SHORTEST = 3;
const percent = (share) => `${Math.round(100 * share)} %`;
const votes = () => store.noted("blind-votes", []),
  keep = (all) => store.note("blind-votes", all);
const wilson = (k, n) => {
  // 95 % interval of a share
  const z = 1.96,
    p = k / n,
    d = 1 + (z * z) / n,
    c = (p + (z * z) / (2 * n)) / d,
    w = (z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n))) / d;
  return [Math.max(0, c - w), Math.min(1, c + w)];
};

let handleKey = () => false;
export const blindKey = (key) => handleKey(key); // whether the test took the key

export const mountBlind = (root) => {
  let order = null,
    heard = { A: 0, B: 0 },
    voted = null,
    last = null,
    round = 0;
  root.className = "card blind";
  const words = h("p", { class: "lead" }),
    votesRow = h("div", { class: "votes" }),
    reveal = h("p", { class: "reveal", role: "status" }),
    tally = h("div", { class: "tally" });
  const start = button("Start a blind test", { class: "start" }, () => {
      begin();
      buttons.A.focus();
    }),
    leave = button("End the test", { class: "small" }, () => {
      finish();
      start.focus();
    });
  const buttons = {},
    bars = {},
    row = h("div", { class: "ab" });
  for (const k of ["A", "B"]) {
    bars[k] = h("i", { class: "bar" });
    buttons[k] = button([h("b", {}, k), h("span", {}, "play"), bars[k]], { class: "clip" }, () =>
      deck.toggle(order[k]),
    );
    row.append(buttons[k]);
  }
  const cast = {};
  for (const [k, label] of [
    ["A", "A is better"],
    ["0", "No difference"],
    ["B", "B is better"],
  ]) {
    cast[k] = button([label, h("kbd", {}, k)], {}, () => vote(k));
    votesRow.append(cast[k]);
  }
  const wipe = button("Forget my votes", { class: "small" }, () => {
    keep([]);
    tallyUp();
  });
  const save = button("Save my votes as JSON", { class: "small" }, () =>
    download("blind-votes.json", new Blob([JSON.stringify(votes(), null, 1)], { type: "application/json" })),
  );
  root.append(words, start, row, votesRow, reveal, tally, h("div", { class: "row" }, leave, save, wipe));

  const able = () => board.lanes().filter((l) => count.done(l) && l.seconds >= SHORTEST);
  const pairs = () => {
    const all = able();
    return all.flatMap((a, i) =>
      all
        .slice(i + 1)
        .filter((b) => b.made.text === a.made.text)
        .map((b) => [a, b]),
    );
  };
  const enough = (k) => heard[k] >= SHORTEST - 0.05;
  const refresh = () => {
    const on = !!order && !voted,
      ready = pairs().length > 0;
    words.textContent =
      !ready && !order
        ? "Two results of one text, each at least 3 s long, are needed: speak a longer text, or open a recorded run."
        : !order
          ? "Two results of the board at the same loudness, in a random order. " +
            "Names and figures stay out of sight until you have voted."
          : voted
            ? ""
            : `Round ${round}. Listen to at least three seconds of each, then choose.`;
    start.hidden = on || !ready;
    row.hidden = votesRow.hidden = !on;
    leave.hidden = !order;
    start.textContent = voted ? "Next round" : "Start a blind test";
    document.body.classList.toggle("blind-on", on);
    for (const k of ["A", "B"]) {
      const mine = order && deck.playing && deck.lane === order[k];
      buttons[k].querySelector("span").textContent = mine ? "pause" : "play";
      buttons[k].classList.toggle("audible", !!mine);
      bars[k].style.width = `${Math.floor(100 * Math.min(1, enough(k) ? 1 : heard[k] / SHORTEST))}%`;
    }
    Object.values(cast).forEach((b) => {
      b.disabled = !(on && enough("A") && enough("B"));
    });
  };
  const begin = () => {
    const all = pairs(),
      [a, b] = all[Math.floor(Math.random() * all.length)],
      swap = Math.random() < 0.5;
    order = swap ? { A: b.id, B: a.id } : { A: a.id, B: b.id };
    heard = { A: 0, B: 0 };
    voted = null;
    last = null;
    reveal.textContent = "";
    round++;
    deck.quiet();
    deck.matched = true;
    deck.lane = null;
    deck.at = 0;
    refresh();
  };
  const finish = () => {
    order = null;
    voted = null;
    reveal.textContent = "";
    deck.matched = false;
    deck.quiet();
    refresh();
  };
  const vote = (k) => {
    if (!order || voted || cast[k].disabled) return;
    const at = root.contains(document.activeElement);
    voted = k;
    const of = (id) => board.get(id),
      name = (l) => `${l.title}${l.dials ? ` (${l.dials})` : ""}`,
      fact = (l) => [name(l), count.told(l)].filter(Boolean).join(", ");
    const a = of(order.A),
      b = of(order.B),
      better = k === "0" ? null : of(order[k]),
      worse = k === "0" ? null : of(order[k === "A" ? "B" : "A"]);
    keep([
      ...votes(),
      {
        A: name(a),
        B: name(b),
        won: better ? name(better) : "same",
        lost: worse ? name(worse) : "same",
        text: a.made.text,
        at: new Date().toISOString(),
      },
    ]);
    reveal.textContent = `A was ${fact(a)}. B was ${fact(b)}.`;
    deck.matched = false;
    deck.quiet();
    tallyUp();
    refresh();
    if (at) start.focus(); // what had the focus is gone
  };
  const tallyUp = () => {
    const all = votes(),
      by = new Map();
    for (const v of all) {
      const key = [v.A, v.B].sort().join(" or ");
      by.set(key, [...(by.get(key) || []), v]);
    }
    tally.replaceChildren(
      ...[...by].map(([key, list]) => {
        const first = [list[0].A, list[0].B].sort()[0],
          won = list.filter((v) => v.won === first).length,
          n = list.filter((v) => v.won !== "same").length,
          [low, high] = n ? wilson(won, n) : [0, 1];
        return h(
          "p",
          {},
          h("b", {}, key),
          `: ${list.length} round${list.length > 1 ? "s" : ""}, no difference ${list.length - n}`,
          n
            ? `. ${first} preferred in ${won} of ${n}, ${percent(won / n)}, ` +
                `95 % interval ${percent(low)} to ${percent(high)}.`
            : ".",
        );
      }),
    );
    save.hidden = wipe.hidden = !all.length;
  };
  deck.on((kind, m) => {
    if (!order || voted) return;
    if (kind === "state" && !deck.playing) last = null;
    if (kind === "time" && deck.playing) {
      // heard: seconds of the clip, however seldom the page draws; a jump passes through "state"
      if (last) heard[order.A === m.id ? "A" : "B"] += Math.max(0, m.t - last.t);
      last = m;
    }
    if (kind === "time" || kind === "state") refresh();
  });
  handleKey = (key) => {
    if (!order || voted || !root.offsetParent) return false;
    if (key === "a" || key === "b" || key === "0") {
      vote(key.toUpperCase());
      return true;
    }
    if (key === "1" || key === "2") {
      buttons[key === "1" ? "A" : "B"].click();
      return true;
    }
    return false;
  };
  board.on((live) => {
    if (live) return;
    if (order && !(board.get(order.A) && board.get(order.B))) finish();
    else refresh();
  });
  new ResizeObserver(() => {
    // who goes to another tab sees names there: that round is no longer blind
    if (order && !voted && !root.offsetParent)
      setTimeout(() => {
        finish();
        reveal.textContent = "The round ended when you left this tab.";
      });
  }).observe(root);
  tallyUp();
  refresh();
};
