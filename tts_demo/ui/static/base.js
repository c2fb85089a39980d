// Small tools that every script of the page uses: elements, canvases, words for numbers, the theme.

const put = (e, attrs, kids) => {
  for (const [k, v] of Object.entries(attrs || {}))
    if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  e.append(...kids.filter((k) => k !== null && k !== undefined));
  return e;
};
export const h = (tag, attrs, ...kids) => put(document.createElement(tag), attrs, kids);
export const s = (tag, attrs, ...kids) => put(document.createElementNS("http://www.w3.org/2000/svg", tag), attrs, kids);
// words: a text, or a list of what stands in the button
export const button = (words, attrs, act) => {
  const b = h("button", { type: "button", ...attrs }, ...[words].flat());
  b.onclick = act;
  return b;
};

export const refocus = (box, build) => {
  // what is built anew keeps the focus: on the same ``data-key``, or on what stood next to one that is gone
  const keys = () => [...box.querySelectorAll("[data-key]")],
    old = keys().map((e) => e.dataset.key),
    at = old.indexOf(document.activeElement.dataset.key);
  build();
  if (at < 0) return;
  const now = new Map(keys().map((e) => [e.dataset.key, e])),
    next = [...old.slice(at), ...old.slice(0, at).reverse()].find((k) => now.has(k));
  if (!next) box.tabIndex = -1;
  (next ? now.get(next) : box).focus({ preventScroll: true });
};

export const decodeBase64 = (b64) => {
  const text = atob(b64 || ""),
    out = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
  return out;
};
export const pcmFloats = (bytes) => {
  // 16-bit PCM -> -1..1
  const ints = new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length >> 1),
    out = new Float32Array(ints.length);
  for (let i = 0; i < ints.length; i++) out[i] = ints[i] / 32768;
  return out;
};
export const readWav = (b64) => {
  // a WAV file as the server writes it -> {rate, samples}
  const bytes = decodeBase64(b64),
    view = new DataView(bytes.buffer);
  let at = 12,
    rate = 16000;
  while (at + 8 <= bytes.length) {
    const name = String.fromCharCode(...bytes.subarray(at, at + 4)),
      size = view.getUint32(at + 4, true);
    if (name === "fmt ") rate = view.getUint32(at + 12, true);
    if (name === "data") return { rate, samples: pcmFloats(bytes.slice(at + 8, at + 8 + size)) };
    at += 8 + size + (size & 1);
  }
  return { rate, samples: new Float32Array(0) };
};
export const download = (name, blob) => {
  const a = h("a", { download: name, href: URL.createObjectURL(blob) });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(a.href), 5000);
};

export const inBytes = (n) =>
  n >= 1e6
    ? `${(n / 1e6).toFixed(n >= 1e7 ? 1 : 2)} MB`
    : n >= 1e3
      ? `${(n / 1e3).toFixed(0)} kB`
      : `${n.toFixed(0)} B`;
export const inSeconds = (s) =>
  s === null || s === undefined ? "–" : s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(2)} s`;
export const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text);
// As much of a text as is no wider than ``most`` in the canvas's font.
export const cut = (g, text, most) => {
  if (g.measureText(text).width <= most) return text;
  let n = text.length - 1;
  while (n > 1 && g.measureText(`${text.slice(0, n)}…`).width > most) n--;
  return `${text.slice(0, n)}…`;
};
// Places in order, moved apart to at least ``gap`` within low and high; null for those that find no room.
export const spread = (places, gap, low, high) => {
  const room = Math.max(1, Math.floor((high - low) / gap) + 1),
    kept = places.map(
      (_, i) =>
        places.length <= room ||
        Math.floor((i * room) / places.length) !== Math.floor(((i - 1) * room) / places.length),
    ),
    found = places.map((p, i) => (kept[i] ? p : null));
  let last = low - gap;
  found.forEach((p, i) => {
    if (p !== null) found[i] = last = Math.max(p, last + gap);
  });
  last = high + gap;
  for (let i = found.length - 1; i >= 0; i--) if (found[i] !== null) found[i] = last = Math.min(found[i], last - gap);
  return found;
};
export const cssColour = (name, on) =>
  getComputedStyle(on || document.body)
    .getPropertyValue(name)
    .trim();
export const axisTicks = (max, n) => {
  if (!(max > 0)) return [0];
  const raw = max / n,
    power = 10 ** Math.floor(Math.log10(raw)),
    unit = [1, 2, 2.5, 5, 10].find((u) => u * power >= raw) * power;
  return Array.from({ length: Math.floor(max / unit + 1e-9) + 1 }, (_, i) => i * unit);
};
export const sizeCanvas = (c, w, height) => {
  const scale = window.devicePixelRatio || 1;
  c.width = Math.max(1, Math.round(w * scale));
  c.height = Math.max(1, Math.round(height * scale));
  c.style.width = `${w}px`;
  c.style.height = `${height}px`;
  const g = c.getContext("2d");
  g.setTransform(scale, 0, 0, scale, 0, 0);
  return g;
};

const painters = new Set(); // pictures to draw again when the page turns dark or light
export const onTheme = (f) => {
  painters.add(f);
  return () => painters.delete(f);
};
const watchBody = () => {
  if (!document.body) {
    setTimeout(watchBody, 30);
    return;
  }
  let dark = document.body.classList.contains("dark");
  new MutationObserver(() => {
    const is = document.body.classList.contains("dark");
    if (is !== dark) {
      dark = is;
      for (const f of painters) f();
    }
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
};
watchBody();
