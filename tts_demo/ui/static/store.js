// What this browser keeps: the form in localStorage, finished lanes in IndexedDB. A private window keeps them for the
// visit only.

const KEEP = 24; // lanes; the oldest go first
const memory = new Map(); // id -> lane, newest last
let base = null;
const open = new Promise((done) => {
  let asked;
  try {
    asked = indexedDB.open("tts-demo", 1);
  } catch (_e) {
    done(null);
    return;
  }
  asked.onupgradeneeded = () => asked.result.createObjectStore("lanes", { keyPath: "id" });
  asked.onsuccess = () => done(asked.result);
  asked.onerror = asked.onblocked = () => done(null);
});
const all = (db) =>
  new Promise((done) => {
    if (!db) {
      done([]);
      return;
    }
    const asked = db.transaction("lanes").objectStore("lanes").getAll();
    asked.onsuccess = () => done(asked.result);
    asked.onerror = () => done([]);
  });
export const kind = (v) => (Array.isArray(v) ? "array" : v === null ? "null" : typeof v);
const PARTS = {
  id: "string",
  title: "string",
  made: "object",
  figures: "object",
  conditions: "array",
  seconds: "number",
};
const whole = (lane) => Object.entries(PARTS).every(([k, what]) => kind(lane[k]) === what);
const write = (f) => {
  if (base)
    try {
      f(base.transaction("lanes", "readwrite").objectStore("lanes"));
    } catch (_e) {
      /* full or gone: this visit only */
    }
};
const ready = open.then(async (db) => {
  base = db;
  for (const lane of (await all(db)).sort((a, b) => a.when - b.when))
    if (!whole(lane)) write((lanes) => lanes.delete(lane.id));
    else if (!memory.has(lane.id)) memory.set(lane.id, lane);
});
const listeners = [];
const changed = () => listeners.forEach((f) => f());
export const store = {
  ready,
  wanted: () => false, // whether a lane stands on the board and must stay
  on(f) {
    listeners.push(f);
  },
  get: (id) => memory.get(id),
  lanes: () => [...memory.values()],
  put(lane) {
    lane.when = lane.when || Date.now();
    memory.set(lane.id, lane);
    write((lanes) => lanes.put(lane));
    for (const old of [...memory.keys()].slice(0, Math.max(0, memory.size - KEEP)))
      if (!this.wanted(old)) this.drop(old);
    changed();
  },
  drop(id) {
    memory.delete(id);
    write((lanes) => lanes.delete(id));
    changed();
  },
  note(key, value) {
    try {
      localStorage.setItem(`tts-demo-${key}`, JSON.stringify(value));
    } catch (_e) {
      /* private window */
    }
  },
  noted(key, otherwise) {
    try {
      const v = JSON.parse(localStorage.getItem(`tts-demo-${key}`));
      const fields = kind(v) === "object" ? Object.entries(otherwise) : [];
      if (kind(v) === kind(otherwise) && fields.every(([k, usual]) => kind(v[k]) === kind(usual))) return v;
      localStorage.removeItem(`tts-demo-${key}`); // none there, or broken
    } catch (_e) {
      /* private window, or no JSON */
    }
    return otherwise;
  },
};
