// The form: voice, text, the lanes to compare, seed and sampling. Kept in this browser; a link sets it.
import { button, h, refocus, shorten } from "./base.js";
import { methodCard } from "./picture.js";
import { calm } from "./status.js";
import { kind, store } from "./store.js";
import { voicePicker } from "./voice.js";

let ask = null,
  state = null,
  chosen = 0,
  drawn = () => {},
  picker = null,
  fromLink = false;
let typed = "",
  given = ""; // the text that the visitor wrote, and the one that a button put in its place
const listeners = []; // called once the form is there
const equal = (a, b) => JSON.stringify(Object.entries(a).sort()) === JSON.stringify(Object.entries(b).sort());
const method = (name) => ask.methods.find((m) => m.name === name);
const defaults = (name) => Object.fromEntries(method(name).dials.map((d) => [d.name, d.default]));
const preset = (lane) => {
  const found = method(lane.method).presets.find((p) => equal(p.options, lane.options));
  return found ? found.name : "Custom";
};
const fresh = (name) => {
  const m = method(name),
    middle = m.presets[1];
  return { method: name, options: middle ? { ...middle.options } : defaults(name) };
};
const words = (lane) =>
  method(lane.method)
    .dials.map((d) => `${d.label} ${{ true: "on", false: "off" }[lane.options[d.name]] || lane.options[d.name]}`)
    .join(", ");

const initial = () => ({
  text: ask.texts[Math.min(1, ask.texts.length - 1)],
  voice: ask.voices.length ? ask.voices[0].name : "",
  own: "",
  consent: false,
  prompt_text: "",
  lanes: [fresh((ask.methods.find((m) => m.name !== "baseline") || ask.methods[0]).name)],
  seed: 1,
  max_seconds: ask.seconds,
  attention: true,
  ...Object.fromEntries(ask.sampling.map((s) => [s.name, s.default])),
});
const alike = (usual, given) => ({
  ...usual,
  ...Object.fromEntries(Object.entries(given || {}).filter(([k, v]) => k in usual && kind(v) === kind(usual[k]))),
});
const valid = (s) => {
  // what was kept by an older page may name what no longer is, or be broken: such entries are dropped
  const good = alike(initial(), s);
  good.lanes = good.lanes
    .filter((l) => l && method(l.method))
    .slice(0, ask.most)
    .map((l) => ({ method: l.method, options: alike(defaults(l.method), l.options) }));
  if (!Number.isSafeInteger(good.seed) || good.seed < 0) good.seed = initial().seed;
  if (!ask.voices.some((v) => v.name === good.voice) && !(good.own && !good.voice)) good.voice = initial().voice;
  good.max_seconds = Math.min(good.max_seconds, ask.seconds);
  return good;
};
const keep = () => {
  const { own, consent, ...rest } = state;
  store.note("form", rest);
};
const edited = () => {
  fromLink = false;
  // from now on the form is this browser's: what a link said must not come back with the next load
  keep();
  const q = new URLSearchParams(location.search),
    linked = ["text", "voice", "lane", "seed", "max_seconds", ...ask.sampling.map((s) => s.name)].filter((k) =>
      q.has(k),
    );
  if (!linked.length) return;
  linked.forEach((k) => q.delete(k));
  history.replaceState(null, "", `${location.pathname}${`?${q}`.replace(/^\?$/, "")}`);
};
const put = (text) => {
  // another text in place of what stands there
  if (state.text.trim() && state.text !== given && !ask.texts.includes(state.text)) typed = state.text;
  state.text = given = text;
};

export const form = {
  linked: () => fromLink, // whether the settings came with the address, and nobody has changed them
  on(f) {
    listeners.push(f);
  },
  method: (name) => ask && method(name),
  value: () => (state ? { ...state, lanes: state.lanes.map((l) => ({ ...l, options: { ...l.options } })) } : null),
  refuse({ field, words, lane }) {
    // what is wrong with a field, beside it
    if (lane !== null && lane !== undefined) {
      chosen = lane;
      drawn();
    }
    const e = document.getElementById(field),
      place = e && (e.closest(".dial, .tick, .form .row") || e);
    form.accept(false);
    if (!e) return;
    for (let fold = e.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    const said = h("p", { class: "quiet bad", id: "refused" }, words),
      help = place.querySelector(":scope > small");
    // a long explanation on a phone does not stand between the field and its mistake
    if (help) help.before(said);
    else place.after(said);
    e.setAttribute("aria-invalid", "true");
    e.setAttribute("aria-errormessage", "refused");
    e.focus({ preventScroll: true });
    place.scrollIntoView({ block: "center" });
  },
  accept(changed = true) {
    const e = document.getElementById("refused"),
      bad = document.querySelector("[aria-errormessage=refused]");
    if (e) e.remove();
    if (bad) ["aria-invalid", "aria-errormessage"].forEach((k) => bad.removeAttribute(k));
    if (changed) calm();
  },
  use(lanes) {
    // settings of an earlier run
    const first = lanes[0],
      others = lanes.filter((l) => l.id !== `${l.take}.0`);
    const { voice, text, ...made } = first.made;
    put(text);
    state = valid({
      ...state,
      ...made,
      voice: ask.voices.some((v) => v.name === voice) ? voice : state.voice,
      lanes: others.map((l) => ({ method: l.method, options: l.options })),
    });
    chosen = 0;
    edited();
    drawn();
  },
  address() {
    const q = new URLSearchParams();
    q.set("text", state.text);
    q.set("voice", state.voice); // "" is a voice of one's own, which no link carries
    for (const l of state.lanes)
      q.append(
        "lane",
        [l.method, ...Object.entries(l.options).map(([k, v]) => `${k}:${String(v).replaceAll(",", "+")}`)].join(","),
      );
    q.set("seed", state.seed);
    q.set("max_seconds", state.max_seconds);
    for (const s of ask.sampling) if (state[s.name] !== s.default) q.set(s.name, state[s.name]);
    return `${location.origin}${location.pathname}?${q}`;
  },
};

// One of several: a radio button that looks like a chip.
const chip = (attrs, label, act) => {
  const r = h("input", { type: "radio", ...attrs });
  r.onchange = act;
  return h("span", { class: "chip" }, r, h("label", { for: r.id }, label));
};
// Details that stay open or closed, from one visit to the next; key: their name in the store.
const fold = (key, attrs, ...kids) => {
  const d = h("details", { open: store.noted(key, false), ...attrs }, ...kids);
  d.ontoggle = () => store.note(key, d.open);
  return d;
};
const dialOf = (d, value, set, id) => {
  const help = d.help ? h("small", { class: "quiet", id: `${id}-help` }, d.help) : null,
    described = d.help ? `${id}-help` : null;
  const label = `${d.label}${d.unit ? ` (${d.unit})` : ""}`;
  if (d.kind === "choice")
    return h(
      "fieldset",
      { class: "dial", id },
      h("legend", {}, label),
      h(
        "div",
        { class: "chips" },
        ...d.choices.map((c, i) =>
          chip(
            { name: id, id: `${id}-${i}`, checked: c === value, value: c },
            String(c).replaceAll(":", ": ").replaceAll(",", ", "),
            () => set(c),
          ),
        ),
      ),
      help,
    );
  if (d.kind === "tick") {
    const t = h("input", { type: "checkbox", id, checked: value, "aria-describedby": described });
    t.onchange = () => set(t.checked);
    return h("div", { class: "dial" }, h("label", { class: "tick", for: id }, t, label), help);
  }
  if (d.kind === "text") {
    const t = h("input", { type: "text", id, value, "aria-describedby": described });
    t.onchange = () => set(t.value);
    return h("div", { class: "dial" }, h("label", { for: id }, label), t, help);
  }
  const number = h("input", {
    type: "number",
    id,
    min: d.min,
    max: d.max,
    step: d.step,
    value,
    "aria-describedby": described,
  });
  let used = value;
  const give = (v) => {
    // the box says what is used: whole where the dial is, within its range, as before where nothing is typed
    const n = v === "" || !Number.isFinite(Number(v)) ? used : Number.isInteger(d.step) ? Math.round(v) : Number(v);
    const now = n === used ? n : Math.min(d.max ?? Infinity, Math.max(d.min ?? -Infinity, n));
    number.value = now;
    if (slider) slider.value = now;
    if (now !== used) set((used = now));
  };
  number.onchange = number.onblur = () => give(number.value);
  const slider =
    d.kind === "slider"
      ? h("input", {
          type: "range",
          min: d.min,
          max: d.max,
          step: d.step,
          value,
          "aria-label": label,
          "aria-describedby": described,
        })
      : null;
  if (slider) slider.oninput = () => give(slider.value);
  return h(
    "div",
    { class: "dial" },
    h("div", { class: "row" }, h("label", { for: id }, label), h("span", { class: "grow" }), number),
    slider,
    help,
  );
};

export const mountForm = (root, _trigger, server, upload) => {
  root.className = "form";
  root.addEventListener("input", () => form.accept());
  const build = () => {
    const panel = (n, name, ...kids) =>
      h(
        "section",
        { class: "card panel", "aria-labelledby": `step-${n}` },
        h("h2", { id: `step-${n}` }, h("b", { "aria-hidden": "true" }, n), name),
        ...kids,
      );
    picker = voicePicker(ask, {
      pick: (name) => {
        state.voice = name;
        edited();
        picker.show(name);
      },
      async own(file) {
        const sent = await upload(file),
          answer = await server.take_voice(sent.path);
        if (answer.error) return answer;
        state.voice = "";
        state.own = answer.path;
        state.consent = false;
        state.prompt_text = "";
        edited();
        return { ...answer, url: `gradio_api/file=${answer.path}` };
      },
      consent: (on) => {
        state.consent = on;
      },
      said: (t) => {
        state.prompt_text = t;
      },
      transcribe: () =>
        state.own ? server.transcribe(state.own) : Promise.resolve({ error: "There is no recording yet." }),
    });

    const text = h("textarea", {
      id: "text",
      rows: "3",
      "aria-label": "Text to speak",
      "aria-describedby": "count",
      placeholder: "Type what should be said",
    });
    const count = h("p", { class: "quiet", id: "count" }),
      hint = h("p", { class: "quiet bad", id: "hint", role: "status" }),
      over = h("p", { class: "quiet bad", id: "over", role: "status" }),
      said = h("div", { class: "said-list quiet", id: "preview" });
    let timer = 0,
      asked = 0;
    const preview = () => {
      const letters = [...text.value.trim()],
        n = letters.length,
        most = ask.characters; // as the server counts: an emoji is one
      back.hidden = !typed || typed === text.value;
      const length = (seconds) => {
        count.textContent = `${n} of ${most} characters, about ${seconds.toFixed(0)} s of speech`;
      };
      length(n ? 0.5 + n / 15 : 0); // until the server says what is read for numbers and signs
      over.textContent =
        n > most
          ? `${n - most} characters too many; what is behind “${letters
              .slice(Math.max(0, most - 24), most)
              .join("")
              .trim()}” would not fit. Nothing was cut: shorten it, then press Speak.`
          : "";
      text.setAttribute("aria-invalid", String(n > most));
      text.style.height = "auto";
      text.style.height = `${Math.min(260, text.scrollHeight + 2)}px`;
      clearTimeout(timer);
      timer = setTimeout(async () => {
        const mine = ++asked,
          answer = await server.preview(text.value).catch(() => ({ parts: [] }));
        if (mine !== asked) return;
        const parts = answer.parts || [];
        if (answer.seconds) length(answer.seconds);
        hint.textContent = answer.hint || "";
        said.replaceChildren(
          ...(answer.error
            ? [answer.error]
            : parts.length && (parts.length > 1 || parts[0].sounds || parts[0].words !== text.value.trim())
              ? [
                  fold(
                    "preview",
                    {},
                    h("summary", {}, `What will be said: ${parts.length} sentence${parts.length > 1 ? "s" : ""}`),
                    h("ol", {}, ...parts.map((p) => h("li", {}, p.words, p.sounds ? h("small", {}, p.sounds) : null))),
                  ),
                ]
              : []),
        );
      }, 350);
    };
    text.oninput = () => {
      state.text = text.value;
      edited();
      preview();
    };
    const write = (words) => {
      put(words);
      text.value = words;
      edited();
      preview();
    };
    const examples = h(
      "div",
      { class: "chips examples", role: "group", "aria-label": "Example texts" },
      ...ask.texts.map((t) => button(shorten(t, 19), { class: "small", title: t }, () => write(t))),
    );
    const back = button("Bring back what I typed", { class: "small", hidden: true }, () => {
      write(typed);
      text.focus();
    });

    const tabs = h("div", { class: "lane-tabs" }),
      editor = h("div", { class: "editor" });
    const changed = () => {
      edited();
      lanes();
      edit();
    };
    const lanes = () =>
      refocus(tabs, () => {
        chosen = Math.max(0, Math.min(chosen, state.lanes.length - 1));
        tabs.replaceChildren(
          h(
            "div",
            { class: "lane-tab fixed" },
            h("i", { class: "dot slot-0" }),
            h("span", {}, method("baseline").title, h("small", {}, "the baseline, always spoken")),
          ),
          ...state.lanes.map((l, i) =>
            h(
              "div",
              { class: `lane-tab${i === chosen ? " chosen" : ""}` },
              button(
                [
                  h("i", { class: `dot slot-${method(l.method).slot}` }),
                  h("span", {}, method(l.method).title, h("small", {}, words(l) || "no dials")),
                ],
                {
                  class: "pick",
                  "aria-pressed": String(i === chosen),
                  "data-lane": i,
                  "data-key": `pick ${i}`,
                },
                () => {
                  chosen = i;
                  lanes();
                  edit();
                },
              ),
              button(
                "✕",
                {
                  class: "tiny",
                  "data-key": `remove ${i}`,
                  "aria-label": `Remove setting ${i + 1}, ${method(l.method).title}`,
                },
                () => {
                  state.lanes.splice(i, 1);
                  changed();
                },
              ),
            ),
          ),
          ...(state.lanes.length < ask.most
            ? [
                button("+ Add a setting", { class: "add", id: "add-lane", "data-key": "add" }, () => {
                  const used = new Set(state.lanes.map((l) => l.method)),
                    next = ask.methods.find((m) => m.name !== "baseline" && !used.has(m.name)) || ask.methods[0];
                  state.lanes.push(fresh(next.name));
                  chosen = state.lanes.length - 1;
                  changed();
                  tabs.querySelectorAll(".pick")[chosen].focus();
                }),
              ]
            : []),
        );
      });
    const edit = () =>
      refocus(editor, () => {
        const lane = state.lanes[chosen];
        if (!lane) {
          editor.replaceChildren(
            h("p", { class: "quiet" }, "Only the baseline will speak. Add a setting to compare it with."),
          );
          return;
        }
        const m = method(lane.method),
          presets = h("div", { class: "chips presets", role: "group", "aria-label": "Preset" });
        const mark = () => {
          const now = preset(lane);
          presets.replaceChildren(
            ...m.presets.map((p) =>
              button(p.name, { class: "small", "data-key": p.name, "aria-pressed": String(p.name === now) }, () => {
                lane.options = { ...p.options };
                changed();
              }),
            ),
            ...(now === "Custom" ? [h("span", { class: "tag" }, "Custom")] : []),
          );
        };
        mark();
        editor.replaceChildren(
          h(
            "fieldset",
            { class: "methods" },
            h("legend", { class: "only-read" }, `Method of setting ${chosen + 1}`),
            h(
              "div",
              { class: "chips" },
              ...ask.methods.map((k) => {
                const id = `method-${k.name}`,
                  attrs = { name: "method", id, "data-key": id, value: k.name, checked: k.name === lane.method };
                return chip(attrs, k.title, () => {
                  state.lanes[chosen] = fresh(k.name);
                  changed();
                });
              }),
            ),
          ),
          ...(m.presets.length ? [presets] : []),
          ...m.dials.map((d) =>
            dialOf(
              d,
              lane.options[d.name],
              (v) => {
                lane.options[d.name] = v;
                edited();
                mark();
                lanes();
              },
              `dial-${d.name}`,
            ),
          ),
          fold("about-method", { class: "about-method" }, h("summary", {}, "What this method does"), methodCard(m)),
        );
      });

    const seed = h("input", { type: "number", id: "seed", min: "0", step: "1" });
    seed.onchange = seed.onblur = () => {
      const n = Math.max(0, Math.floor(Number(seed.value)));
      if (seed.value !== "" && Number.isFinite(n) && n !== state.seed) {
        state.seed = n;
        edited();
      }
      seed.value = state.seed;
    };
    const dice = button("New seed", { class: "small", id: "dice" }, () => {
      state.seed = Math.floor(Math.random() * 2147483647);
      seed.value = state.seed;
      edited();
    });
    const watch = h("input", { type: "checkbox", id: "attention" });
    watch.onchange = () => {
      state.attention = watch.checked;
      edited();
    };
    const sampling = h("div", {});
    const more = h(
      "details",
      { id: "more" },
      h("summary", {}, "Seed and sampling"),
      h("div", { class: "row" }, h("label", { for: "seed" }, "Seed"), seed, dice),
      h("label", { class: "tick", for: "attention" }, watch, "Show attention"),
      h("small", { class: "quiet" }, "A second, untimed pass: the figures stay the same, the wait is longer."),
      sampling,
    );

    drawn = () => {
      text.value = state.text;
      seed.value = state.seed;
      watch.checked = state.attention;
      picker.show(state.voice, !!state.own);
      lanes();
      edit();
      preview();
      sampling.replaceChildren(
        ...[
          {
            name: "max_seconds",
            label: "Longest speech",
            unit: "s",
            help: "Speech is cut here; the result says so.",
            min: Math.min(2, ask.seconds / 2),
            max: ask.seconds,
            step: 1,
          },
          ...ask.sampling,
        ].map((s) =>
          dialOf(
            { ...s, kind: "slider" },
            state[s.name],
            (v) => {
              state[s.name] = v;
              edited();
            },
            s.name,
          ),
        ),
      );
    };
    root.replaceChildren(
      panel(1, "Voice", picker.root),
      panel(2, "Text", text, count, over, hint, said, back, examples),
      panel(3, "Settings to compare", tabs, editor, more),
    );
    drawn();
  };
  return (m) => {
    const first = !ask;
    ask = { ...m, set: null };
    if (first) {
      const kept = store.noted("form", {});
      state = valid(kept);
      build();
      if (kept.voice === "") picker.gone(state.voice);
    }
    if (m.set && Object.keys(m.set).length) {
      const { text = state.text, voice, ...set } = m.set;
      put(text);
      state = valid({ ...state, ...set, voice: voice === undefined ? state.voice : voice });
      chosen = 0;
      fromLink = true;
      keep();
      if (voice !== undefined) picker.linked();
      drawn();
      if (voice !== undefined && !ask.voices.some((v) => v.name === voice)) picker.missing(voice, state.voice);
    }
    if (first) listeners.forEach((f) => f());
  };
};
