// What is counted and compared, worked out from finished lanes: figures, shares of the baseline, the table's rows.
import { inBytes, inSeconds } from "./base.js";
import { store } from "./store.js";

const ends = (lane) => {
  // seconds of audio after each pass
  let frames = 0;
  return lane.timeline.map((row) => {
    frames += row[1];
    return frames * lane.frame;
  });
};
const kvAt = (lane, t) => {
  // live bytes when ``t`` seconds of audio were made
  const at = ends(lane),
    i = at.findIndex((e) => e >= t - 1e-6);
  return lane.kv.length ? lane.kv[i < 0 ? lane.kv.length - 1 : i] : null;
};
const growth = (lane, t) => {
  // bytes that a second of audio adds, from the first pass that emits audio until ``t``
  const at = ends(lane),
    first = at.findIndex((e) => e > 0);
  return first < 0 || t - at[first] < 0.05 ? null : (kvAt(lane, t) - lane.kv[first]) / (t - at[first]);
};
const sofar = (curve) => {
  // the same of a result that still speaks; curve: seconds, RTF, bytes
  const [first] = curve,
    last = curve[curve.length - 1];
  return !first || last[0] - first[0] < 0.05 ? null : (last[2] - first[2]) / (last[0] - first[0]);
};
const done = (lane) => lane && lane.wav !== undefined;
const reference = (lane) => {
  const id = `${lane.take}.0`;
  return id === lane.id ? null : store.get(id) || null;
};
const common = (lanes) => {
  // the last tenth of a second that every one of them and its baseline reach before a cache begins anew
  const all = lanes
    .filter(done)
    .flatMap((l) => [l, reference(l)])
    .filter((l) => done(l) && l.seconds > 0.2);
  return all.length
    ? Math.floor(
        10 * Math.min(...all.map((l) => Math.min(l.seconds, l.figures.first_segment_seconds || Infinity))) + 1e-6,
      ) / 10
    : 0;
};
const share = (a, b) => (a === null || b === null || !b ? null : a / b);
const percent = (v) => `${Math.round(100 * v)} %`,
  two = (v) => v.toFixed(2),
  three = (v) => v.toFixed(3);
// {times, low, high, rounds} -> "1.66 times faster", "1.63 to 1.71 times faster in 5 rounds": two decimals on both
// sides, so that the median lies in its range. As fast: a range that holds 1, or within 2 % of it; its range is the
// plain ratio.
const faster = (s) => {
  if (!s || !s.times) return null;
  const many = s.rounds > 1,
    same = (many && s.low <= 1 && s.high >= 1) || Math.abs(s.times - 1) < 0.02,
    quick = s.times > 1;
  const end = same ? "as fast" : quick ? "faster" : "slower",
    [low, high] = same || quick ? [s.low, s.high] : [1 / s.high, 1 / s.low];
  return {
    words: same ? end : `${two(quick ? s.times : 1 / s.times)} times ${end}`,
    kind: same ? "same" : quick ? "good" : "bad",
    share: 1 / s.times,
    range: many ? `${two(low)} to ${two(high)} times ${end} in ${s.rounds} rounds` : "one round: no range yet",
  };
};
const model = (lane) => faster(lane.speed);
const whole = (lane) => faster(lane.speed && lane.speed.whole);
const told = (lane) => (model(lane) ? `language model ${model(lane).words}` : "");
const conditions = (lane) => lane.conditions.map((c) => c.replace(/\b1 threads/, "1 thread")).join(" · ");
export const count = { kvAt, growth, sofar, common, model, whole, told, conditions, reference, done, ends };

const passes = (l) => (l.seconds ? l.figures.backbone_steps / l.seconds : null),
  tokens = (l) => l.figures.frames_per_step;
// name, value of a lane at the common second, words, which way is better, what it means, and for times who is faster
const ROWS = [
  [
    "Seconds of computing per second of audio (RTF)",
    (l) => (l.speed && l.speed.rtf) || l.figures.rtf,
    three,
    -1,
    "everything, sound included; median of the rounds",
    whole,
  ],
  [
    "Of the language model (LM-RTF)",
    (l) => l.speed && l.speed.lm_rtf,
    three,
    -1,
    "median of the rounds; the share is the median of theirs, as on the card",
    model,
  ],
  [
    "Passes of the model per second of audio",
    passes,
    (v) => v.toFixed(1),
    -1,
    "forward passes of the language model; counted, so no load moves it",
  ],
  ["Tokens a pass", tokens, two, 1, "codec frames that one pass yields on average"],
  ["KV bytes per second of audio", growth, (v) => `${inBytes(v)}/s`, -1, "what a second of speech adds to the cache"],
  ["KV cache", kvAt, inBytes, -1, "live keys and values of every autoregressive model of the result, at that second"],
  [
    "Length of the speech",
    (l) => l.seconds,
    (v) => `${v.toFixed(1)} s`,
    0,
    "the same text may be said faster or slower",
  ],
  [
    "Time to first audio",
    (l) => l.figures.ttfa_seconds,
    inSeconds,
    -1,
    "on the result's own clock: voice already encoded, no turns of others, no buffering",
  ],
  ["Drafted tokens accepted", (l) => l.figures.acceptance, percent, 1, "speculative decoding only"],
  [
    "Text symbols that received clear attention",
    (l) => l.figures.coverage,
    percent,
    1,
    "at least half of an even share",
  ],
  ["Steps that read forward", (l) => l.figures.monotonicity, percent, 1, "attention does not move back"],
  ["Words misheard", (l) => l.figures.wer, percent, -1, "by a recogniser, which mishears people too: a hint only"],
  [
    "Sounds misheard",
    (l) => l.figures.per,
    percent,
    -1,
    "by the bundled recogniser, which took part in training: a hint only",
  ],
  [
    "Voice similarity",
    (l) => l.figures.similarity,
    two,
    1,
    "cosine with the prompt, by a judge that conditioned nothing here",
  ],
];
const exact = [growth, kvAt, passes, tokens];
// exact: counted, so that a difference is one; what one run of one text shows otherwise has no interval and stays grey.
const judge = (share, better, quick, exact) => {
  if (share === null || (better === 0 && share === 1)) return null;
  const same = quick ? quick.kind === "same" : Math.abs(share - 1) < 0.03,
    good = share > 1 === better > 0;
  if (same && !quick) return { words: "as the baseline", kind: "same" };
  if (!quick && !exact) return { words: `${percent(share)} of its baseline, one run`, kind: "same" };
  return {
    words: `${percent(share)} of its baseline${same ? ", as fast" : better ? (good ? ", better" : ", worse") : ""}`,
    kind: same || !better ? "same" : good ? "good" : "bad",
  };
};
export const tableRows = (lanes) => {
  // the table as data: [{name, meaning, cells: [{value, words, verdict}]}]
  const t = common(lanes);
  return ROWS.map(([name, of, words, better, meaning, timed]) => {
    const value = (l) => {
      const v = l && done(l) ? of(l, t) : null;
      return v === undefined || v === null || Number.isNaN(v) ? null : v;
    };
    const cells = lanes.map((l) => {
      const v = value(l),
        quick = timed && timed(l);
      return {
        value: v,
        words: v === null ? "–" : words(v),
        verdict: judge(timed ? quick && quick.share : share(v, value(reference(l))), better, quick, exact.includes(of)),
      };
    });
    return {
      name: of === kvAt ? `${name} at ${t.toFixed(1)} s` : name,
      meaning: `${meaning}${["; lower is better", "", "; higher is better"][better + 1]}`,
      cells,
    };
  }).filter((row) => row.cells.some((c) => c.value !== null));
};
