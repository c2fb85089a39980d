// The voice part of the form: named examples with play, and "Upload or record your own".
import { button, h } from "./base.js";
import { deck } from "./deck.js";

const encode = (buffers, rate) => {
  // mono floats -> a 16-bit WAV file
  const length = buffers.reduce((n, b) => n + b.length, 0),
    view = new DataView(new ArrayBuffer(44 + 2 * length));
  const word = (at, text) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  word(0, "RIFF");
  view.setUint32(4, 36 + 2 * length, true);
  word(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  word(36, "data");
  view.setUint32(40, 2 * length, true);
  let at = 44;
  for (const b of buffers)
    for (const v of b) {
      view.setInt16(at, Math.max(-1, Math.min(1, v)) * 32767, true);
      at += 2;
    }
  return new File([view], "recording.wav", { type: "audio/wav" });
};
const WHY = {
  NotAllowedError: "The browser may not use the microphone: allow it in the address bar, or upload a file.",
  NotFoundError: "There is no microphone on this device: upload a file instead.",
  NotReadableError: "Another program is using the microphone: close it, or upload a file.",
};

// ask: { voices, consent, hears: whether a recogniser is there }
// on: { pick(name), own(file) -> Promise, consent(bool), said(text), transcribe() -> Promise }
export const voicePicker = (ask, on) => {
  const heard = new Audio();
  let playing = null,
    lost = null; // { name, words }: a recording that went with the last load of the page, and who stands in for it
  const chips = h("div", { class: "voices", id: "voice", tabindex: "-1" }),
    rows = new Map();
  const chip = (value, name, url, about) => {
    const radio = h("input", { type: "radio", name: "voice", value, id: `voice-${value || "own"}` });
    const words = h("label", { for: radio.id }, name, about ? h("span", { class: "quiet" }, ` ${about}`) : null);
    const play = button("▶", { class: "tiny", "aria-label": `Hear ${name}` }, () => {
      if (playing === play && !heard.paused) {
        heard.pause();
        return;
      }
      deck.quiet();
      playing = play;
      heard.src = url();
      heard.play().catch(() => {
        note.textContent = "This browser cannot play that file; it can still be used.";
      });
    });
    const pick = () => {
      lost = null;
      on.pick(value);
    };
    radio.onchange = pick;
    radio.onclick = () => lost && pick(); // also the one that stands in for a recording that is gone
    const row = h("span", { class: "voice" }, radio, words, play);
    rows.set(value, { row, radio, words, play });
    chips.append(row);
    return row;
  };
  heard.onplay =
    heard.onpause =
    heard.onended =
      () =>
        rows.forEach(({ play }) => {
          const mine = play === playing && !heard.paused && !heard.ended;
          play.textContent = mine ? "❚❚" : "▶";
        });
  ask.voices.forEach((v) => chip(v.name, v.name, () => v.url, v.about));
  let ownUrl = "";
  const mine = chip("", "Your voice", () => ownUrl);
  mine.hidden = true;

  const file = h("input", {
    type: "file",
    accept: "audio/*,video/*,.amr,.3gp,.caf",
    id: "voice-file",
    class: "hidden-input",
    tabindex: "-1",
    "aria-label": "Recording to upload",
  });
  let ownNote = "Three to six seconds of clear speech work best.";
  const note = h("p", { class: "quiet", id: "voice-note", role: "status" }, ownNote);
  const tell = (words, bad = false) => {
    note.className = bad ? "quiet bad" : "quiet";
    note.textContent = words;
  };
  const upload = button("Upload a recording", { class: "small" }, () => file.click());
  const record = button("Record", { class: "small" }, () => {
    if (taking) stop();
    else start();
  });
  const tick = h("input", { type: "checkbox", id: "consent" }),
    consent = h("label", { class: "tick", for: "consent", hidden: true }, tick, ask.consent);
  const said = h("textarea", {
    id: "prompt-text",
    rows: "2",
    maxlength: "400",
    placeholder: "Word for word; leave it empty if unsure",
  });
  const hint = h("p", { class: "quiet", id: "transcribing", role: "status" });
  let turn = 0;
  const write = async (pressed) => {
    // a machine's guess; what the visitor types meanwhile stays
    const mine = ++turn,
      before = said.value;
    guess.disabled = true;
    hint.textContent = "Transcribing…";
    const answer = await on
      .transcribe()
      .catch(() => ({ error: "The recording could not be transcribed; try again, or type what it says." }));
    if (mine !== turn) return; // another recording came
    guess.disabled = false;
    if (said.value !== before) hint.textContent = "What you typed stays.";
    else if (answer.text) {
      said.value = answer.text;
      on.said(answer.text);
      hint.textContent = "Written down by a machine: correct it, or leave it empty.";
    } else hint.textContent = answer.error || (pressed ? "Nothing was understood." : "");
  };
  const guess = button("Transcribe automatically", { class: "small", hidden: !ask.hears }, () => write(true));
  const transcript = h(
    "details",
    { hidden: true },
    h("summary", {}, "What the recording says (optional)"),
    h("label", { for: "prompt-text", class: "only-read" }, "What the recording says"),
    said,
    hint,
    guess,
  );
  tick.onchange = () => on.consent(tick.checked);
  said.oninput = () => on.said(said.value);
  const drop = h(
    "div",
    { class: "drop" },
    h("b", {}, "Upload or record your own"),
    h("div", { class: "row" }, upload, record, h("span", { class: "quiet" }, "or drop a file here")),
    file,
  );
  const root = h("div", {}, chips, drop, note, consent, transcript);

  const take = async (what) => {
    tell("Checking the recording…");
    let answer;
    try {
      answer = await on.own(what);
    } catch (_e) {
      answer = { error: "The recording could not be sent; try again." };
    }
    tell(answer.error || answer.words, !!answer.error);
    if (answer.error) return;
    lost = null;
    ownUrl = answer.url;
    ownNote = answer.words;
    said.value = hint.textContent = "";
    tick.checked = false;
    transcript.open = true;
    picker.show("", true);
    if (ask.hears) write(false);
  };
  file.onchange = () => {
    if (file.files[0]) take(file.files[0]);
    file.value = "";
  };
  drop.addEventListener("dragover", (e) => {
    e.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (e) => {
    e.preventDefault();
    drop.classList.remove("over");
    const f = e.dataTransfer.files[0];
    if (f) take(f);
    else tell("That was not a file: drop a recording.", true);
  });

  let taking = null;
  const start = async () => {
    if (!navigator.mediaDevices) {
      tell("Browsers record on https or localhost pages only: upload a file instead.", true);
      return;
    }
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch (e) {
      tell(WHY[e.name] || "The microphone could not be opened: upload a file instead.", true);
      return;
    }
    const ctx = deck.context(),
      source = ctx.createMediaStreamSource(stream),
      node = ctx.createScriptProcessor(4096, 1, 1),
      parts = [];
    deck.quiet();
    node.onaudioprocess = (e) => {
      parts.push(new Float32Array(e.inputBuffer.getChannelData(0)));
      const seconds = ((parts.length * 4096) / ctx.sampleRate).toFixed(1);
      note.textContent = `Recording: ${seconds} s. Read a sentence aloud, then press Done.`;
    };
    source.connect(node);
    node.connect(ctx.destination);
    taking = { stream, source, node, parts, rate: ctx.sampleRate };
    record.textContent = "Done";
    note.className = "quiet";
  };
  const stop = () => {
    const { stream, source, node, parts, rate } = taking;
    taking = null;
    record.textContent = "Record";
    node.disconnect();
    source.disconnect();
    stream.getTracks().forEach((t) => t.stop());
    take(encode(parts, rate));
  };

  const picker = {
    root,
    show(name, own) {
      if (own) mine.hidden = false;
      const row = rows.get(name) || rows.get("");
      row.radio.checked = true;
      const theirs = name === "";
      consent.hidden = transcript.hidden = !theirs;
      const v = ask.voices.find((k) => k.name === name);
      if (lost && lost.name !== name) lost = null;
      tell(lost ? lost.words : theirs ? ownNote : (v && v.note) || "", !!lost);
    },
    gone(now) {
      // a recording of one's own is not kept from one load of the page to the next
      const anew = `upload or record it anew${now ? `, or speak as ${now}` : ""}`;
      lost = { name: now, words: `Your recording is not kept when the page is loaded again: ${anew}.` };
      picker.show(now);
    },
    linked() {
      lost = null; // a link says which voice it is
    },
    missing(asked, now) {
      // what a link wanted and cannot have
      const why = asked
        ? `The link asks for the voice “${asked}”, which is not here`
        : "The link was made with somebody's own voice, which a link cannot carry";
      tell(`${why}: ${now ? `${now} is chosen instead.` : "upload or record one."}`, true);
    },
    consent: (on2) => {
      tick.checked = on2;
    },
  };
  return picker;
};
