// What is counted and compared, worked out from finished lanes; and the table of all lanes on the board.
(() => {
  const { h } = TTSD;
  const ends = (lane) => {       // seconds of audio after each pass
    let frames = 0;
    return lane.timeline.map((row) => { frames += row[1]; return frames * lane.frame; });
  };
  const kvAt = (lane, t) => {    // live bytes when ``t`` seconds of audio were made
    const at = ends(lane), i = at.findIndex((e) => e >= t - 1e-6);
    return lane.kv.length ? lane.kv[i < 0 ? lane.kv.length - 1 : i] : null;
  };
  const growth = (lane, t) => {  // bytes that a second of audio adds, from the first pass that emits audio until ``t``
    const at = ends(lane), first = at.findIndex((e) => e > 0);
    return first < 0 || t - at[first] < 0.05 ? null : (kvAt(lane, t) - lane.kv[first]) / (t - at[first]);
  };
  const done = (lane) => lane && lane.wav !== undefined;
  const reference = (lane) => { const id = `${lane.take}.0`; return id === lane.id ? null : TTSD.store.get(id) || null; };
  const common = (lanes) => {    // the last tenth of a second that every one of them and its baseline reach before a cache begins anew
    const all = lanes.filter(done).flatMap((l) => [l, reference(l)]).filter((l) => done(l) && l.seconds > 0.2);
    return all.length ? Math.floor(10 * Math.min(...all.map((l) => Math.min(l.seconds, l.figures.first_segment_seconds || Infinity))) + 1e-6) / 10 : 0;
  };
  const share = (a, b) => a === null || b === null || !b ? null : a / b;
  const times = (x) => `${x >= 10 ? x.toFixed(0) : x >= 1 ? x.toFixed(1) : x.toFixed(2)}`;
  // 2.41 -> "2.4 times faster"; 0.8 -> "1.3 times slower"; a range that holds 1 says nothing
  const faster = (s) => {
    if (!s || !s.times) return null;
    if (s.rounds > 1 && s.low <= 1 && s.high >= 1 || Math.abs(s.times - 1) < 0.02) return { words: "as fast", range: s, kind: "same" };
    const quick = s.times > 1;
    return { words: `${times(quick ? s.times : 1 / s.times)} times ${quick ? "faster" : "slower"}`, range: s, kind: quick ? "good" : "bad" };
  };
  const range = (s) => {
    if (!s || !s.rounds) return "";
    if (s.rounds < 2) return "one round: no range yet";
    const [low, high] = s.times >= 1 ? [s.low, s.high] : [1 / s.high, 1 / s.low], two = (x) => x.toFixed(2);
    return `${two(low)} to ${two(high)} in ${s.rounds} rounds`;
  };
  TTSD.count = { kvAt, growth, common, share, faster, range, reference, done, ends };

  const percent = (v) => `${Math.round(100 * v)} %`, whole = (v) => Math.round(v).toLocaleString("en"), two = (v) => v.toFixed(2);
  // name, value of a lane at the common second, words, which way is better, what it means
  const ROWS = [
    ["Passes of the model", (l) => l.figures.backbone_steps, whole, -1, "forward passes of the language model; counted, so no load moves it"],
    ["Tokens a pass", (l) => l.figures.frames_per_step, two, 1, "codec frames that one pass yields on average"],
    ["KV bytes per second of audio", growth, (v) => `${TTSD.bytes(v)}/s`, -1, "what a second of speech adds to the cache"],
    ["KV cache", kvAt, TTSD.bytes, -1, "live keys and values of every autoregressive model of the lane, at that second"],
    ["Length of the speech", (l) => l.seconds, (v) => `${v.toFixed(1)} s`, 0, "the same text may be said faster or slower"],
    ["Seconds of the language model per second of audio", (l) => l.speed && l.speed.lm_rtf, (v) => v.toFixed(3), -1, "median of the rounds; the ratio of two of them is the speed on the card"],
    ["Time to first audio", (l) => l.figures.ttfa_seconds, TTSD.seconds, -1, "on the lane's own clock, voice already encoded"],
    ["Drafted tokens accepted", (l) => l.figures.acceptance, percent, 1, "speculative decoding only"],
    ["Text symbols that received clear attention", (l) => l.figures.coverage, percent, 1, "at least half of an even share"],
    ["Steps that read forward", (l) => l.figures.monotonicity, percent, 1, "attention does not move back"],
    ["Words misheard", (l) => l.figures.wer, percent, -1, "by a recogniser, which mishears people too: a hint only"],
    ["Sounds misheard", (l) => l.figures.per, percent, -1, "by the bundled recogniser, which took part in training: a hint only"],
    ["Voice similarity", (l) => l.figures.similarity, two, 1, "cosine with the prompt, by a judge that conditioned nothing here"],
  ];
  TTSD.rows = (lanes) => {       // the table as data: [{name, better, meaning, cells: [{value, words, share}]}]
    const t = common(lanes);
    return ROWS.map(([name, of, words, better, meaning]) => {
      const value = (l) => { const v = l && done(l) ? of(l, t) : null; return v === undefined || v === null || Number.isNaN(v) ? null : v; };
      const cells = lanes.map((l) => { const v = value(l), base = value(reference(l)); return { value: v, words: v === null ? "–" : words(v), share: share(v, base) }; });
      return { name: of === kvAt ? `${name} at ${t.toFixed(1)} s` : name, better, meaning, cells };
    }).filter((row) => row.cells.some((c) => c.value !== null));
  };
  const judged = (c, better) => {
    if (c.share === null || better === 0 && c.share === 1) return null;
    if (Math.abs(c.share - 1) < 0.005) return h("small", {}, "as the baseline");
    const good = better && (c.share > 1) === (better > 0);
    return h("small", { class: better ? good ? "good" : "bad" : "" }, `${percent(c.share)} of its baseline${better ? good ? ", better" : ", worse" : ""}`);
  };
  TTSD.mounts.figures = (root) => {
    root.className = "figures-view";
    const place = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Figures of all lanes" }), own = h("div", { class: "own" }), charts = h("div", { class: "card charts" });
    const trade = h("div", { class: "own" });
    root.append(place, charts, own, trade);
    const draw = TTSD.charts(charts);
    const fill = () => {
      const lanes = TTSD.board.lanes().filter(done);
      draw(TTSD.board.lanes());
      if (!lanes.length) { place.replaceChildren(h("p", { class: "quiet" }, "Nothing has been spoken yet.")); own.replaceChildren(); return; }
      const head = h("tr", {}, h("th", { scope: "col" }, "Measure"), ...lanes.map((l) => h("th", { scope: "col" }, h("i", { class: `dot slot-${TTSD.board.slot(l.id)}` }), ` ${l.title}`, h("small", {}, l.dials || "", l.made.seed !== undefined ? ` seed ${l.made.seed}` : ""))));
      const body = TTSD.rows(lanes).map((row) => h("tr", {}, h("th", { scope: "row" }, row.name, h("small", {}, `${row.meaning}${{ "-1": "; lower is better", 1: "; higher is better", 0: "" }[row.better]}`)),
        ...row.cells.map((c) => h("td", {}, c.words, judged(c, row.better)))));
      const heard = lanes.filter((l) => l.figures.heard !== undefined).map((l) => h("li", {}, h("b", {}, l.title), `: ${l.figures.heard || "nothing"}`));
      place.replaceChildren(h("table", { class: "results" }, h("thead", {}, head), h("tbody", {}, ...body)),
        ...(heard.length ? [h("p", { class: "quiet" }, "A recogniser understood:"), h("ul", { class: "words" }, ...heard)] : []),
        ...lanes.map((l) => h("p", { class: "quiet conditions" }, h("i", { class: `dot slot-${TTSD.board.slot(l.id)}` }), ` ${l.title}: ${l.conditions.join(" · ")}`)));
      own.replaceChildren();
      for (const l of lanes) for (const p of l.own || []) TTSD.plot(own, p, TTSD.board.slot(l.id), l.title);
    };
    TTSD.board.on(fill);
    fill();
    return (m) => { trade.replaceChildren(); if (m.tradeoff) TTSD.scatter(trade, m.tradeoff); };
  };
})();
