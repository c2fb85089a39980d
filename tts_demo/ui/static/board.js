// The board: which lanes stand side by side. Lanes come from the server while they speak and are kept by this browser.
import { button, decodeBase64, h, pcmFloats } from "./base.js";
import { deck } from "./deck.js";
import { count } from "./count.js";
import { form } from "./form.js";
import { headline, shared } from "./headline.js";
import { laneCard } from "./lane.js";
import { progress } from "./progress.js";
import { store } from "./store.js";

const MOST = 6,
  LIVE = 250, // ms between two drawings of what goes on
  listeners = [],
  pending = new Map();
let shown = [],
  before = [],
  pinned = new Set(),
  current = null,
  boxes = new Map(),
  told = null, // the last word on how far a run has come
  lost = 0,
  crowded = 0;
const get = (id) => pending.get(id) || store.get(id);
let held = false, // while the messages that came together are taken in
  news = null;
// live: nothing but what a run says while it goes on, which comes many times a second
const tell = (live = false) => {
  if (held) news = live && news !== false;
  else listeners.forEach((f) => f(live));
};
const keep = () => store.note("board", { shown: shown.filter((id) => store.get(id)), pinned: [...pinned] });
const stand = (ids) => {
  shown = ids.slice(0, MOST);
  crowded = ids.length - shown.length;
  deck.stand(shown);
  for (const id of shown) {
    const lane = store.get(id);
    if (lane && !pending.has(id) && (!deck.tracks[id] || !deck.tracks[id].complete)) deck.load(id, lane);
  }
  keep();
  tell();
};
const describe = () => {
  // the status line says what stands here, unless a run is saying how it goes on
  const line = document.querySelector("#status .status"),
    [first] = board.lanes();
  if (!line || line.classList.contains("busy")) return;
  line.className = `status ${first ? "done" : "idle"}`;
  line.querySelector("span").textContent = form.linked()
    ? `Settings from a link: press Speak.${first ? " Below: an earlier run." : ""}`
    : standing(first);
};
const standing = (first) =>
  !first
    ? "The board is empty. Press Speak, or open an earlier run."
    : first.recorded
      ? "A recorded run. Press Speak to hear your own."
      : "An earlier run, kept in this browser.";
export const board = {
  on: (f) => listeners.push(f),
  get,
  ids: () => [...shown],
  lanes: () => shown.map(get).filter(Boolean),
  pinned: (id) => pinned.has(id),
  older: (id) => !!current && get(id) && get(id).take !== current,
  remove(id) {
    pinned.delete(id);
    pending.delete(id);
    stand(shown.filter((k) => k !== id));
    if (!shown.length) describe();
  },
  pin(id) {
    if (pinned.has(id)) pinned.delete(id);
    else pinned.add(id);
    keep();
    tell();
  },
  lay(ids) {
    // earlier lanes beside what stands there
    const more = ids.filter((id) => store.get(id) && !shown.includes(id));
    if (shown.length + more.length > MOST) return `At most ${MOST} results stand side by side; remove one first.`;
    more.forEach((id) => pinned.add(id));
    stand([...shown, ...more]);
    return "";
  },
  replace(ids) {
    pinned = new Set();
    stand(ids.filter((id) => store.get(id)));
    describe();
  },
  lost: () => lost,
  busy: () => !!told || pending.size > 0, // also in the background
  view: () => null,
};

store.wanted = (id) => shown.includes(id);

const act = {
  take(m) {
    current = m.lanes[0].take;
    before = shown.filter((id) => store.get(id));
    pending.clear();
    told = null;
    m.lanes.forEach((l) => pending.set(l.id, { ...l, figures: {}, curve: [], note: "waiting", expected: 0 }));
    stand([...m.lanes.map((l) => l.id), ...shown.filter((id) => pinned.has(id) && store.get(id))]);
  },
  start(m) {
    const l = pending.get(m.id);
    if (!l) return;
    l.note = "speaking";
    l.expected = m.length;
    deck.open(m.id, m.sr, m.length);
    tell(true);
  },
  chunk(m) {
    const l = pending.get(m.id);
    if (!l) return;
    Object.assign(l.figures, m.figures);
    if (m.point && (!l.curve.length || m.point[0] > l.curve[l.curve.length - 1][0])) l.curve.push(m.point);
    if (m.pcm) deck.push(m.id, pcmFloats(decodeBase64(m.pcm)));
    tell(true);
  },
  progress(m) {
    told = m.share === null ? null : m;
    tell(!!told);
  },
  looked({ kind, id, ...seen }) {
    const l = pending.get(id);
    if (l) {
      Object.assign(l, seen);
      tell(true);
    }
  }, // its map so far
  lane(m) {
    pending.delete(m.lane.id);
    store.put({ ...m.lane, speed: m.lane.speed || null });
    if (shown.includes(m.lane.id)) deck.load(m.lane.id, m.lane);
    keep();
    tell();
  },
  speeds(m) {
    for (const [id, speed] of Object.entries(m.lanes)) {
      const l = store.get(id);
      if (l) store.put({ ...l, speed });
    }
    tell();
  },
  refused(m) {
    // a run may be refused once begun: lanes that wait for it go, what stood there is back
    const gone = new Set(pending.keys());
    pending.clear();
    const stay = shown.filter((id) => !gone.has(id));
    if (gone.size) stand(stay.length ? stay : before);
    if (m.field) form.refuse(m);
  },
  figures(m) {
    const l = store.get(m.id);
    if (l) store.put({ ...l, figures: { ...l.figures, ...m.figures } });
    tell();
  },
  map(m) {
    const l = store.get(m.id);
    if (l) {
      l.attention = { ...m.attention, view: Date.now() };
      tell();
    }
  },
  show(m) {
    // a recorded take; on arrival what this browser keeps goes before it
    m.lanes.forEach((l) => {
      if (!store.get(l.id) || store.get(l.id).wav !== l.wav) store.put(l);
    });
    if (m.first && shown.length) {
      describe();
      tell();
      return;
    }
    pinned = new Set([...pinned].filter((id) => shown.includes(id)));
    stand([...m.lanes.map((l) => l.id), ...shown.filter((id) => pinned.has(id) && !m.lanes.some((l) => l.id === id))]);
    describe();
  },
};
board.receive = (m) => {
  if (m.seq) {
    if (m.seq !== (boxes.get(m.box) || 0) + 1) lost++;
    boxes.set(m.box, m.seq);
  }
  held = true;
  news = null;
  try {
    for (const one of m.messages || []) act[one.kind](one);
  } finally {
    held = false;
    if (news !== null) tell(news);
  }
};

export const mountBoard = (root, trigger) => {
  const cards = new Map(),
    look = { zoom: 1, sounds: true };
  let layer = "clear",
    chosenHead = "mean";
  root.className = "board";
  const lanes = h("div", { class: "lanes", role: "region", tabindex: "0", "aria-label": "Results" });
  const zoom = h("div", { class: "zoom", role: "group", "aria-label": "Zoom of the maps" });
  for (const z of [1, 2, 4])
    zoom.append(
      button(`×${z}`, { "aria-pressed": String(z === 1), "aria-label": `Zoom ${z} times` }, (e) => {
        look.zoom = z;
        [...zoom.children].forEach((b) => b.setAttribute("aria-pressed", String(b === e.currentTarget)));
        draw();
      }),
    );
  const sounds = button(
    "Sounds",
    { "aria-pressed": "true", title: "Label the text by its sounds where there is room, else by its words" },
    () => {
      look.sounds = !look.sounds;
      sounds.setAttribute("aria-pressed", String(look.sounds));
      draw();
    },
  );
  const scale = h("div", { class: "scale" }),
    legend = h(
      "div",
      { class: "marks" },
      h("span", { class: "ok" }, "draft accepted"),
      h("span", { class: "no" }, "draft rejected"),
      h("span", { class: "plus" }, "extra token"),
    );
  const ask = () => trigger("select", { ids: shown, layer, head: chosenHead });
  const pick = (name, act2) => {
    const s = h("select", { "aria-label": name });
    s.onchange = () => act2(s.value);
    return s;
  };
  const layers = pick("Layer of the maps", (v) => {
      layer = v;
      if (v === "clear") chosenHead = "mean";
      ask();
      draw();
    }),
    heads = pick("Head of the maps", (v) => {
      chosenHead = v;
      ask();
    });
  const bar = h(
    "div",
    { class: "map-bar" },
    h("b", {}, "Attention"),
    scale,
    legend,
    h("span", { class: "grow" }),
    h("div", { class: "looks" }, layers, heads, sounds, zoom),
  );
  const empty = h(
    "p",
    { class: "quiet empty card" },
    "Results appear here: each with its sound, its figures, and which part of the text it looked at while it spoke.",
  );
  const options = (select, rows, value) => {
    const now = JSON.stringify(rows);
    if (select.dataset.rows !== now) {
      select.dataset.rows = now;
      select.replaceChildren(...rows.map(([v, w]) => h("option", { value: v }, w)));
    }
    select.value = value;
  };
  const head = headline(),
    running = progress();
  const room = h("p", { class: "quiet", role: "status" });
  const remove = (id) => {
    // the focus goes to the lane that comes up in its place
    const at = shown.indexOf(id);
    board.remove(id);
    const card = cards.get(shown[Math.min(at, shown.length - 1)]),
      next = card ? card.root.querySelector("[aria-label^=Remove]") : document.getElementById("run");
    if (next) next.focus({ preventScroll: true });
  };
  let timer = 0,
    drawn = 0;
  // what a run says while it goes on is drawn a few times a second, and leaves a busy machine to the run
  const soon = () => {
    if (!timer) timer = setTimeout(draw, Math.max(0, drawn + LIVE - performance.now()));
  };
  const draw = () => {
    clearTimeout(timer);
    timer = 0;
    room.textContent = crowded
      ? `${crowded} pinned ${crowded > 1 ? "results have" : "result has"} made room: ` +
        `at most ${MOST} stand side by side. ${crowded > 1 ? "They are" : "It is"} under Earlier runs.`
      : "";
    const all = board.lanes(),
      done = all.filter(count.done),
      maps = all.filter((l) => l.attention);
    look.span = Math.max(
      0.5,
      ...done.map((l) => l.seconds),
      ...maps.map((l) => Math.max(l.seconds, count.done(l) ? 0 : l.expected)),
    );
    look.peak = Math.max(1e-6, ...maps.map((l) => l.attention.peak));
    const second = count.common(all);
    for (const [id, card] of cards)
      if (!shown.includes(id)) {
        card.close();
        card.root.remove();
        cards.delete(id);
      }
    const common = shared(all);
    head.show(all);
    running.show(told, pending.size ? all.filter((l) => l.take === current) : []);
    for (const l of all) {
      if (!cards.has(l.id))
        cards.set(
          l.id,
          laneCard(l.id, {
            pin: board.pin,
            remove,
            scrolled: (id, px) => {
              for (const [k, c] of cards) if (k !== id) c.scrollTo(px);
            },
          }),
        );
      cards.get(l.id).show({
        lane: l,
        look: { ...look },
        pinned: board.pinned(l.id),
        older: board.older(l.id),
        second,
        alone: !common,
        note: l.note || "",
      });
    }
    all.forEach((l, i) => {
      const e = cards.get(l.id).root;
      if (lanes.children[i] !== e) lanes.insertBefore(e, lanes.children[i] || null);
    });
    lanes.dataset.count = all.length;
    empty.hidden = all.length > 0;
    bar.hidden = !maps.length;
    legend.hidden = !done.some((l) => l.timeline.some((r) => r[4]));
    scale.replaceChildren(
      h("span", {}, "weight 0"),
      h("i", {}),
      h("span", { title: "One scale for all results" }, `${look.peak.toFixed(2)} in all`),
    );
    const deep = Math.max(1, ...maps.map((l) => l.attention.layers)),
      wide = Math.max(1, ...maps.map((l) => l.attention.heads)),
      numbered = (n, w) => Array.from({ length: n }, (_, i) => [String(i), `${w} ${i + 1}`]);
    options(
      layers,
      [["clear", "Heads that follow the text"], ["mean", "Mean of all layers"], ...numbered(deep, "Layer")],
      layer,
    );
    options(heads, [["mean", "Mean of all heads"], ...numbered(wide, "Head")], chosenHead);
    layers.hidden = deep < 2;
    heads.hidden = wide < 2 || layer === "clear";
    drawn = performance.now();
  };
  root.append(head.root, bar, running.root, room, empty, lanes);
  board.view = (id) => (cards.has(id) ? cards.get(id).view() : null);
  board.on((live) => (live ? soon() : draw()));
  deck.on((kind, m) => {
    for (const card of cards.values()) card.tell(kind, m);
  });
  draw();
  const waiting = [];
  let open = false;
  store.ready.then(() => {
    const kept = store.noted("board", { shown: [], pinned: [] });
    pinned = new Set(kept.pinned);
    if (kept.shown.some((id) => store.get(id))) stand(kept.shown.filter((id) => store.get(id)));
    open = true;
    waiting.splice(0).forEach(board.receive);
  });
  return (m) => {
    if (open) board.receive(m);
    else waiting.push(m);
  };
};
