// The page's sound: one AudioContext, one track per lane, one lane audible at a time. Draws nothing.
import { readWav } from "./base.js";

const now = () => performance.now() / 1000;
const FRAME = 30; // ms between two positions of what plays
const LONGEST = 2.5; // seconds of audio in the engine's longest piece

// Seconds to wait from now so that playing never catches up: pieces double in length up to LONGEST and come at ``pace``
// seconds per second of audio, ``left`` seconds of audio are still to come.
export const bufferWait = (have, last, pace, left) => {
  let arrives = 0,
    played = have,
    size = last,
    worst = 0;
  for (let rest = left; rest > 1e-6; ) {
    size = Math.min(LONGEST, 2 * size, rest);
    arrives += size * pace;
    worst = Math.max(worst, arrives - played);
    played += size;
    rest -= size;
  }
  return worst;
};

class Track {
  constructor(id) {
    this.id = id;
    this.rate = 16000;
    this.data = new Float32Array(0);
    this.length = 0;
    this.complete = true;
    this.gain = 1;
    this.track = [];
    this.text = "";
    this.started = this.first = this.last = this.gaps = this.heard = 0;
    this.expected = 0;
  }
  push(samples) {
    if (this.length + samples.length > this.data.length) {
      const grown = new Float32Array(Math.max(2 * this.data.length, this.length + samples.length, 16000));
      grown.set(this.data.subarray(0, this.length));
      this.data = grown;
    }
    this.data.set(samples, this.length);
    this.length += samples.length;
    this.last = samples.length / this.rate;
    if (!this.first) this.first = now();
  }
  get seconds() {
    return this.length / this.rate;
  }
  get wait() {
    const pace = (now() - this.started) / Math.max(this.seconds, 0.05);
    return bufferWait(this.seconds, this.last, 1.05 * pace, Math.max(0.5, this.expected - this.seconds));
  }
}

const between = (pairs, from, to, x) => {
  // linear interpolation along rising pairs
  if (x <= pairs[0][from]) return pairs[0][to];
  for (let i = 1; i < pairs.length; i++) {
    const a = pairs[i - 1],
      b = pairs[i];
    if (x <= b[from]) return a[to] + (b[from] > a[from] ? (x - a[from]) / (b[from] - a[from]) : 0) * (b[to] - a[to]);
  }
  return pairs[pairs.length - 1][to];
};

export const deck = {
  tracks: {},
  order: [],
  span: 0, // order: lanes as they stand on the board; span: the longest of them
  lane: null,
  playing: false,
  matched: false,
  ctx: null,
  nodes: [],
  pieces: [],
  next: 0,
  when: 0,
  at: 0,
  soundAt: 0,
  listeners: [],
  frame: 0,
  timer: 0,

  on(f) {
    this.listeners.push(f);
  },
  tell(kind, more) {
    for (const f of this.listeners) f(kind, more || {});
  },
  context() {
    if (!this.ctx) this.ctx = new (window.AudioContext || window.webkitAudioContext)();
    if (this.ctx.state !== "running") this.ctx.resume();
    return this.ctx;
  },
  arm() {
    this.context();
    this.halted = false;
    this.quiet();
  }, // inside a click: browsers start sound only then
  halt() {
    this.halted = true;
    this.quiet();
  },

  stand(ids) {
    // which lanes are on the board
    this.order = ids;
    for (const id of Object.keys(this.tracks)) if (!ids.includes(id)) delete this.tracks[id];
    if (!ids.includes(this.lane)) {
      this.quiet();
      this.lane = null;
      this.at = 0;
    }
    this.measure();
  },
  measure() {
    this.span = Math.max(0, ...this.order.map((id) => (this.tracks[id] ? this.tracks[id].seconds : 0)));
    this.tell("data");
  },
  open(id, rate, expected) {
    const t = (this.tracks[id] = new Track(id));
    t.rate = rate;
    t.complete = false;
    t.started = now();
    t.expected = expected || 0;
    this.measure();
  },
  push(id, samples) {
    const t = this.tracks[id];
    if (!t) return;
    t.push(samples);
    this.measure();
    if (!this.halted) this.follow(id);
  },
  load(id, lane) {
    // a finished lane replaces what was streamed of it
    const had = this.tracks[id],
      whole = readWav(lane.wav),
      t = (this.tracks[id] = new Track(id));
    Object.assign(t, {
      rate: whole.rate,
      data: whole.samples,
      length: whole.samples.length,
      gain: lane.gain || 1,
      track: lane.track || [],
      text: lane.made.text,
    });
    if (had) Object.assign(t, { started: had.started, first: had.first || now(), gaps: had.gaps, heard: had.heard });
    this.measure();
    if (this.lane === id && this.playing) {
      this.next = Math.min(this.next, t.length);
      this.schedule();
      if (!this.nodes.length) this.ended();
    } else if (had && !had.complete && !this.halted) this.follow(id);
  },

  follow(id) {
    // live sound: the first lane, as soon as it can play without a gap
    if (this.playing && this.lane === id) {
      this.schedule();
      return;
    }
    if (
      id !== this.order.find((k) => this.tracks[k] && (this.tracks[k].started || !this.tracks[k].complete)) ||
      this.playing ||
      this.tracks[id].heard
    )
      return;
    const t = this.tracks[id],
      wait = t.complete ? 0 : t.wait;
    clearTimeout(this.timer);
    if (wait > 0.03) {
      this.tell("buffer", { id, wait });
      this.timer = setTimeout(() => {
        if (!this.halted && !this.playing && this.tracks[id]) this.start(id);
      }, 1000 * wait);
    } else this.start(id);
  },
  start(id) {
    this.play(id, 0);
    this.tracks[id].heard = this.soundAt;
  },

  quiet() {
    clearTimeout(this.timer);
    for (const n of this.nodes) {
      n.onended = null;
      try {
        n.stop();
      } catch (_e) {
        /* not started yet */
      }
    }
    this.nodes = [];
    this.pieces = [];
    this.playing = false;
    cancelAnimationFrame(this.frame);
    this.tell("state");
  },
  play(id, t) {
    const track = this.tracks[id];
    if (!track) return;
    this.context();
    this.quiet();
    if (!track.length) return;
    this.lane = id;
    this.playing = true;
    this.soundAt = 0;
    if (t === undefined || (t >= track.seconds - 0.01 && track.complete)) t = 0;
    this.at = t;
    this.next = Math.round(t * track.rate);
    this.when = 0;
    this.schedule();
    this.tick();
    this.tell("state");
  },
  schedule() {
    const track = this.tracks[this.lane],
      ctx = this.ctx;
    if (!this.playing || this.next >= track.length) return;
    if (this.when < ctx.currentTime) {
      if (this.pieces.length && !track.complete) track.gaps++;
      this.when = ctx.currentTime + 0.02;
    }
    const part = track.data.subarray(this.next, track.length),
      buffer = ctx.createBuffer(1, part.length, track.rate);
    buffer.copyToChannel(part, 0);
    const node = ctx.createBufferSource(),
      level = ctx.createGain();
    level.gain.value = this.matched ? track.gain : 1;
    node.buffer = buffer;
    node.connect(level).connect(ctx.destination);
    node.start(this.when);
    this.pieces.push([this.when, this.next / track.rate, part.length / track.rate]);
    if (!this.soundAt) this.soundAt = now() + (this.when - ctx.currentTime);
    this.next = track.length;
    this.when += part.length / track.rate;
    this.nodes.push(node);
    node.onended = () => {
      this.nodes = this.nodes.filter((n) => n !== node);
      if (
        !this.nodes.length &&
        this.tracks[this.lane] &&
        this.tracks[this.lane].complete &&
        this.next >= this.tracks[this.lane].length
      )
        this.ended();
    };
  },
  ended() {
    const id = this.lane;
    this.at = this.tracks[id].seconds;
    this.tell("time", { id, t: this.at });
    this.quiet();
  },
  position() {
    if (!this.playing || !this.pieces.length) return this.at;
    const t = this.ctx.currentTime;
    for (let i = this.pieces.length - 1; i >= 0; i--) {
      const [when, from, seconds] = this.pieces[i];
      if (t >= when) return from + Math.min(seconds, t - when);
    }
    return this.at;
  },
  tick() {
    cancelAnimationFrame(this.frame);
    let told = 0;
    const step = (at) => {
      if (!this.playing) return;
      if (at - told >= FRAME) {
        told = at;
        this.tell("time", { id: this.lane, t: this.position() });
      }
      this.frame = requestAnimationFrame(step);
    };
    step(performance.now());
  },
  pause() {
    const t = this.position();
    this.quiet();
    this.at = t;
  },
  toggle(id) {
    if (this.playing && (!id || id === this.lane)) {
      this.pause();
      return;
    }
    const lane = id || this.lane || this.order[0];
    this.play(lane, lane === this.lane ? this.at : 0);
  },
  seek(id, t) {
    this.play(id, Math.max(0, t));
  },
  nudge(by) {
    if (this.lane) this.seek(this.lane, Math.min(this.position() + by, this.tracks[this.lane].seconds));
  },

  map(from, to, t) {
    // the moment of another lane that says the same
    const a = this.tracks[from],
      b = this.tracks[to];
    if (!a || !b) return t;
    if (a.text === b.text && a.track.length > 2 && b.track.length > 2)
      return Math.min(b.seconds, between(b.track, 1, 0, between(a.track, 0, 1, t)));
    return (t * b.seconds) / (a.seconds || 1);
  },
  swap(to) {
    // to the same moment of another lane, the next one if none is named
    if (!this.lane) return;
    const able = this.order.filter((id) => this.tracks[id] && this.tracks[id].length);
    const other = to || able[(able.indexOf(this.lane) + 1) % able.length];
    if (!other || other === this.lane) return;
    const t = this.map(this.lane, other, this.position());
    if (this.playing) this.play(other, t);
    else {
      this.lane = other;
      this.at = t;
      this.tell("time", { id: other, t });
      this.tell("state");
    }
  },
};
