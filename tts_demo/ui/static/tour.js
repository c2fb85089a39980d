// The guided tour: the recorded run, played lane by lane with one caption a step. Offered to who comes for the first
// time, until it is skipped or heard.
import { button, h, inBytes } from "./base.js";
import { board } from "./board.js";
import { deck } from "./deck.js";
import { count } from "./count.js";
import { form } from "./form.js";
import { methodPicture } from "./picture.js";
import { store } from "./store.js";

const PATIENCE = 10_000; // ms to wait for the server
const MEANWHILE = 1500; // ms between the end of a step's sound and the next step
const lanes = () => {
  // of the recorded run on the board, the baseline first
  const all = board.lanes(),
    base = all.find((l) => l.recorded && l.id === `${l.take}.0`);
  return base ? [base, ...all.filter((l) => l.recorded && l !== base)] : [];
};
const figure = (n) => `.figures > div:nth-child(${n})`; // everything, language model, memory growth, words
const steps = ([base, ...others]) => {
  const passes = (l) => Math.round(l.figures.backbone_steps),
    t = count.common([base, ...others]);
  const fewest = others.reduce((a, b) => (count.growth(b, t) < count.growth(a, t) ? b : a), others[0] || base);
  const grows = (l) => `${inBytes(count.growth(l, t) || 0)} a second`;
  return [
    {
      lane: base,
      mark: figure(2),
      words:
        "One pass is one run of the whole language model. The baseline gets one token from each, " +
        `${Math.round(1000 * base.frame)} ms of sound: ${passes(base)} passes for these ${base.seconds.toFixed(1)} s.`,
    },
    ...others.map((l) => ({
      lane: l,
      mark: figure(2),
      words:
        `${l.title}: ${form.method(l.method).idea} ` +
        `Here it took ${[`${passes(l)} passes`, count.told(l)].filter(Boolean).join("; ")}.`,
    })),
    {
      lane: base,
      mark: ".map",
      words:
        "The map: the text from top to bottom, time from left to right. Bright is what the model looks at while it " +
        "says that moment; an even way down means that it reads every word once.",
    },
    {
      lane: fewest,
      mark: figure(3),
      words:
        "The KV cache holds what was read and said, and every pass reads it again. " +
        [
          `The baseline's grows by ${grows(base)}`,
          ...(fewest === base ? [] : [`that of ${fewest.title} by ${grows(fewest)}`]),
        ].join(", ") +
        ".",
    },
    { mark: "#run", words: "Your turn: type a text, choose a voice and up to three settings, then press Speak." },
  ];
};

let again = () => {};
export const startTour = () => again();

// The recorded results, from the server, which has them at hand. It may be gone, or never answer: then there are none,
// and a tour goes on with what stands on the board.
const recorded = async (server) => {
  const late = new Promise((done) => setTimeout(() => done({ lanes: [] }), PATIENCE)),
    answer = await Promise.race([server.recorded_lanes("").catch(() => ({ lanes: [] })), late]);
  for (const l of answer.lanes) if (!store.get(l.id)) store.put(l);
  return answer.lanes;
};
// Every other recorded method beside those that stand there.
const gather = async (server) => {
  const all = await recorded(server),
    known = new Set(board.lanes().map((l) => l.method)),
    more = [];
  for (const l of all) {
    if (!known.has(l.method)) more.push(l.id);
    known.add(l.method);
  }
  board.replace([...board.ids(), ...more].slice(0, 6));
};

export const mountTour = (root, _trigger, server) => {
  let list = [],
    at = -1,
    timer = 0,
    wanted = false,
    gathered = false;
  const place = h("span", { class: "quiet" }),
    words = h("p", { class: "caption", tabindex: "-1", role: "status" }),
    picture = h("div", { class: "tour-picture" });
  const next = button("", { class: "small", id: "tour-next" }, () => go(at + 1)),
    back = button("Back", { class: "small" }, () => go(at - 1)),
    skip = button("", { class: "small", id: "tour-skip" }, () => end());
  root.className = "card tour";
  root.hidden = true;
  root.setAttribute("role", "region");
  root.setAttribute("aria-label", "Guided tour");
  root.append(picture, h("div", { class: "grow" }, words, h("div", { class: "row" }, next, back, skip, place)));
  const unmark = () => document.querySelectorAll(".toured").forEach((e) => e.classList.remove("toured"));
  const say = (text) => {
    words.textContent = text;
    back.hidden = at < 1;
    place.hidden = at < 0;
    next.textContent = at < 0 ? "Play the tour" : at < list.length - 1 ? "Next" : "Done";
    skip.hidden = at >= 0 && at === list.length - 1;
    skip.textContent = at < 0 ? "Skip" : "Skip the rest";
    place.textContent = `${at + 1} of ${list.length}`;
  };
  const go = async (to) => {
    if (at < 0 && !gathered) {
      gathered = true;
      next.disabled = true;
      await gather(server);
      next.disabled = false;
    }
    clearTimeout(timer);
    unmark();
    deck.quiet();
    picture.replaceChildren();
    if (at < 0) list = steps(lanes());
    if (to >= list.length) {
      end();
      return;
    }
    at = to;
    root.hidden = false;
    root.classList.add("playing");
    const { lane, mark, words: text } = list[at],
      card = lane ? document.querySelector(`[data-id="${CSS.escape(lane.id)}"]`) : document,
      target = card && card.querySelector(mark);
    say(text);
    if (target) target.classList.add("toured");
    if (lane) {
      const method = form.method(lane.method);
      if (method && method.picture) picture.append(methodPicture(method).root);
      if (card) {
        // its title stays below the tour, also where the card is taller than what is left of the screen
        card.style.scrollMarginTop = `${root.offsetHeight + 16}px`;
        card.scrollIntoView({
          block: card.offsetHeight > window.innerHeight - root.offsetHeight - 106 ? "start" : "nearest",
          inline: "center",
        });
      }
      deck.play(lane.id, 0);
    }
    words.focus({ preventScroll: true });
  };
  const end = () => {
    clearTimeout(timer);
    unmark();
    if (at >= 0) {
      deck.quiet();
      const run = document.getElementById("run");
      if (run) run.focus({ preventScroll: true });
    }
    at = -1;
    root.hidden = true;
    root.classList.remove("playing");
    store.note("toured", true);
  };
  const offer = () => {
    const there = lanes().length > 0 && !!form.value();
    if (at >= 0 && !there) end(); // the run has left the board
    if (at >= 0) return;
    if (wanted && there) {
      wanted = false;
      setTimeout(() => go(0));
      return;
    } // once the lanes are drawn
    root.hidden = !there || store.noted("toured", false);
    say("New here? Hear a recorded sentence by each method, and what passes, cache and map show: a minute.");
  };
  again = async () => {
    // once more; the recorded run comes back to the board, from this browser or else from the server
    const kept = () => store.lanes().find((l) => l.recorded),
      run = lanes().length || kept() || (await recorded(server))[0];
    if (!run) return;
    wanted = true;
    if (lanes().length) offer();
    else
      board.replace(
        store
          .lanes()
          .filter((l) => l.take === kept().take)
          .map((l) => l.id),
      );
  };
  root.addEventListener("keydown", (e) => {
    const act = { Escape: end, ArrowRight: () => go(at + 1), ArrowLeft: () => go(Math.max(0, at - 1)) }[e.key];
    if (act && (at >= 0 || e.key === "Escape")) {
      e.preventDefault();
      e.stopPropagation();
      act();
    }
  });
  deck.on((kind) => {
    const step = list[at];
    if (
      kind !== "state" ||
      deck.playing ||
      !step ||
      !step.lane ||
      deck.lane !== step.lane.id ||
      deck.at < step.lane.seconds - 0.05
    )
      return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (list[at] === step && !deck.playing) go(at + 1);
    }, MEANWHILE);
  });
  board.on((live) => live || offer());
  form.on(offer); // whichever comes last
  offer();
};
