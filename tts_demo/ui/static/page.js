// Keys, the link that carries the settings, and following the colour scheme. No drawing, no sound of its own.
(() => {
  const deck = TTSD.deck;
  TTSD.press = (id) => {
    const e = document.getElementById(id);
    const target = e && (e.matches("button,a") ? e : e.querySelector("a,button"));
    if (target) target.click();
  };
  // a: text, voice, method, seed, max_seconds, temperature, top_k, top_p, repeat_window, repeat_ratio, then every method's dials
  TTSD.address = (names, a) => {
    const keys = ["text", "voice", "method", "seed", "max_seconds", "temperature", "top_k", "top_p", "repeat_window", "repeat_ratio"];
    const q = new URLSearchParams();
    keys.forEach((k, i) => { if (a[i] !== null && a[i] !== undefined && a[i] !== "") q.set(k, a[i]); });
    let at = keys.length;
    for (const [name, fields] of names) {
      if (name === a[2]) fields.forEach((f, i) => q.set(f, a[at + i]));
      at += fields.length;
    }
    return `${location.origin}${location.pathname}?${q}`;
  };
  TTSD.link = (names, a) => {
    const url = TTSD.address(names, a);
    history.replaceState(null, "", url);
    const done = (word) => {
      const b = document.getElementById("link");
      if (!b) return;
      b.textContent = word;
      setTimeout(() => { b.textContent = "Copy link"; }, 1600);
    };
    if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(url).then(() => done("Copied"), () => done("In the address"));
    else done("In the address");
  };

  const typing = (e) => e.target.closest && e.target.closest("input, textarea, select, [contenteditable], [role=listbox], [role=slider]:not(.wave)");
  document.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && e.key === "Enter") { e.preventDefault(); TTSD.press("run"); return; }
    if (e.key === "Escape") { const b = document.getElementById("stop"); if (b && !b.disabled) TTSD.press("stop"); else deck.pause(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e)) return;
    if (TTSD.blindKey && TTSD.blindKey(e.key.toLowerCase())) { e.preventDefault(); return; }
    if (e.key === " " && e.target.closest && e.target.closest("button, a, [role=tab]")) return;
    const acts = { " ": () => deck.toggle(), 1: () => deck.seek("baseline", deck.side === "baseline" ? 0 : deck.side ? deck.map("method", deck.position()) : 0),
      2: () => deck.seek("method", deck.side === "method" ? 0 : deck.side ? deck.map("baseline", deck.position()) : 0),
      x: () => deck.swap(), ArrowLeft: () => deck.nudge(-1), ArrowRight: () => deck.nudge(1) };
    const act = acts[e.key] || acts[e.key.toLowerCase()];
    if (act && !(e.key.startsWith("Arrow") && e.target.closest && e.target.closest("[role=tab],[role=radiogroup]"))) { e.preventDefault(); act(); }
  });
})();
