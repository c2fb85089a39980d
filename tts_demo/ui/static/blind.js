// Blind listening: both finished sides at one loudness, in a random order, names after the vote, tally in this browser.
(() => {
  const { h, deck } = TTSD, STORE = "tts-demo-blind-votes";
  const votes = () => { try { return JSON.parse(localStorage.getItem(STORE)) || []; } catch (e) { return []; } };
  const keep = (all) => { try { localStorage.setItem(STORE, JSON.stringify(all)); } catch (e) { /* private window: this visit only */ } };
  const wilson = (k, n) => {   // 95 % interval of a share
    const z = 1.96, p = k / n, d = 1 + z * z / n, c = (p + z * z / (2 * n)) / d, w = z * Math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / d;
    return [Math.max(0, c - w), Math.min(1, c + w)];
  };
  TTSD.wilson = wilson;

  TTSD.mounts.blind = (root) => {
    let value = null, order = null, heard = { A: 0, B: 0 }, need = { A: 0, B: 0 }, voted = null, last = null;
    root.className = "card blind";
    const start = h("button", { type: "button", class: "start" }, "Start a blind test of the shown run");
    const words = h("p", { class: "lead" }), buttons = {}, votesRow = h("div", { class: "votes" }), reveal = h("p", { class: "reveal", role: "status" }), tally = h("div", { class: "tally" });
    const row = h("div", { class: "ab" });
    for (const k of ["A", "B"]) {
      buttons[k] = h("button", { type: "button", class: "clip" }, h("b", {}, k), h("span", {}, "play"), h("i", { class: "bar" }));
      buttons[k].onclick = () => deck.toggle(order[k]);
      row.append(buttons[k]);
    }
    const cast = {};
    for (const [k, label] of [["A", "A is better"], ["0", "No difference"], ["B", "B is better"]]) {
      cast[k] = h("button", { type: "button" }, label, h("kbd", {}, k));
      cast[k].onclick = () => vote(k);
      votesRow.append(cast[k]);
    }
    const wipe = h("button", { type: "button", class: "plain" }, "Forget my votes"), save = h("button", { type: "button", class: "plain" }, "Save them as JSON");
    wipe.onclick = () => { keep([]); count(); };
    save.onclick = () => {
      const a = h("a", { download: "blind-votes.json", href: URL.createObjectURL(new Blob([JSON.stringify(votes(), null, 1)], { type: "application/json" })) });
      a.click(); URL.revokeObjectURL(a.href);
    };
    root.append(words, start, row, votesRow, reveal, tally, h("div", { class: "plain-row" }, save, wipe));

    const enough = (k) => heard[k] >= need[k];
    const refresh = () => {
      const on = !!order && !voted, ready = value && value.ready;
      words.textContent = !ready ? "Speak both sides first, or open a recorded run: then you can compare them without knowing which is which."
        : !order ? "Both clips at the same loudness, in a random order. Names and numbers come after your vote."
          : voted ? "" : "Listen to at least three seconds of each, then choose.";
      start.hidden = !ready || !!order && !voted; row.hidden = votesRow.hidden = !order;
      start.textContent = voted ? "Once more" : "Start a blind test of the shown run";
      document.body.classList.toggle("blind-on", on);
      for (const k of ["A", "B"]) {
        const mine = order && deck.playing && deck.side === order[k];
        buttons[k].querySelector("span").textContent = mine ? "pause" : "play";
        buttons[k].classList.toggle("audible", !!mine);
        if (order) buttons[k].querySelector(".bar").style.width = enough(k) ? "100%" : `${Math.floor(100 * heard[k] / need[k])}%`;
      }
      const able = on && enough("A") && enough("B");
      Object.values(cast).forEach((b) => { b.disabled = !able; });
    };
    start.onclick = () => {
      const swap = Math.random() < 0.5;
      order = swap ? { A: "method", B: "baseline" } : { A: "baseline", B: "method" };
      heard = { A: 0, B: 0 }; voted = null; last = null; reveal.textContent = "";
      for (const k of ["A", "B"]) need[k] = Math.min(3, deck.tracks[order[k]].seconds * 0.9);   // of the clips as they are now
      deck.quiet(); deck.matched = true; deck.side = null;
      for (const [n, s] of Object.entries(value.sides)) deck.tracks[n].gain = s.gain;
      refresh();
    };
    const end = () => { deck.matched = false; };
    const vote = (k) => {
      if (!order || voted || cast[k].disabled) return;
      voted = k;
      const won = k === "0" ? "same" : order[k], fact = (n) => `${value.sides[n].title}, real-time factor ${value.sides[n].rtf.toFixed(2)}`;
      keep([...votes(), { run: value.id, method: value.sides.method.title, baseline: value.sides.baseline.title, first: order.A, won, at: new Date().toISOString() }]);
      reveal.textContent = `A was ${fact(order.A)}. B was ${fact(order.B)}.`;
      end(); count(); refresh();
    };
    const count = () => {
      const all = votes(), by = {};
      for (const v of all) { const t = by[v.method] = by[v.method] || { method: 0, baseline: 0, same: 0 }; t[v.won]++; }
      tally.replaceChildren(...Object.entries(by).map(([name, t]) => {
        const n = t.method + t.baseline, [low, high] = n ? wilson(t.method, n) : [0, 1];
        return h("p", {}, h("b", {}, name), ` preferred ${t.method}, baseline ${t.baseline}, no difference ${t.same}`,
          n ? `. Share for the method ${Math.round(100 * t.method / n)} %, 95 % interval ${Math.round(100 * low)} to ${Math.round(100 * high)} %.` : ".");
      }));
      save.hidden = wipe.hidden = !all.length;
    };
    deck.on((kind, m) => {
      if (!order || voted) return;
      if (kind === "state" && !deck.playing) last = null;
      if (kind === "time" && deck.playing) {   // heard: seconds of the clip, however seldom the page draws; a jump passes through "state"
        if (last) heard[order.A === m.side ? "A" : "B"] += Math.max(0, m.t - last.t);
        last = m;
      }
      if (kind === "time" || kind === "state") refresh();
    });
    TTSD.blindKey = (key) => {
      if (!order || voted || !root.offsetParent) return false;
      if (key === "a" || key === "b" || key === "0") { vote(key.toUpperCase()); return true; }
      if (key === "1" || key === "2") { buttons[key === "1" ? "A" : "B"].click(); return true; }
      return false;
    };
    count(); refresh();
    return (m) => { if (!value || m.id !== value.id || !m.ready) { order = null; voted = null; reveal.textContent = ""; end(); } value = m; refresh(); };
  };
})();
