// The page's sound: one AudioContext, one track per side, one side audible at a time. Draws nothing.
window.TTSD = window.TTSD || {};
(() => {
  const now = () => performance.now() / 1000;

  // Pieces come doubling in length (0.24, 0.48, 0.96, 1.92 s), so at a real-time factor r the fourth is late by 3.36 r - 1.68 s:
  // that long the first must wait for playing to go on without a gap, but never so long that the wait is felt.
  const leadFor = (rtf) => Math.min(0.45, Math.max(0.05, 3.36 * (rtf || 0.5) - 1.63));

  class Track {
    constructor(name) { this.name = name; this.reset(); }

    reset() {
      this.rate = 16000; this.data = new Float32Array(0); this.length = 0; this.complete = true; this.run = null;
      this.gain = 1; this.lost = 0; this.lastSeq = 0;
      // Health is worked out for both sides alike, audible or not: when the sound of each piece would have to start.
      this.started = 0; this.first = 0; this.heard = 0; this.ends = 0; this.underruns = 0; this.lead = 0.05;
    }

    push(samples, rtf) {
      if (this.length + samples.length > this.data.length) {
        const grown = new Float32Array(Math.max(2 * this.data.length, this.length + samples.length, 16000));
        grown.set(this.data.subarray(0, this.length));
        this.data = grown;
      }
      this.data.set(samples, this.length);
      this.length += samples.length;
      const t = now(), seconds = samples.length / this.rate;
      if (!this.first) { this.lead = leadFor(rtf); this.first = t; this.heard = t + this.lead; this.ends = this.heard; }
      else if (t > this.ends) { this.underruns++; this.ends = t; }
      this.ends += seconds;
    }

    replace(samples) { this.data = samples; this.length = samples.length; }
    get seconds() { return this.length / this.rate; }
    get ahead() { return this.first ? Math.max(0, this.ends - now()) : 0; }
  }

  const decode = (b64) => {
    const raw = atob(b64 || ""), bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    const ints = new Int16Array(bytes.buffer, 0, bytes.length >> 1), out = new Float32Array(ints.length);
    for (let i = 0; i < ints.length; i++) out[i] = ints[i] / 32768;
    return out;
  };

  const deck = {
    tracks: { baseline: new Track("baseline"), method: new Track("method") },
    warp: null,            // pairs of seconds at which both sides say the same thing
    span: 0,               // longest side: every picture shares this time axis
    side: null, playing: false, live: false, queue: [], matched: false,
    ctx: null, nodes: [], pieces: [], next: 0, when: 0, at: 0, soundAt: 0, listeners: [], frame: 0,

    on(f) { this.listeners.push(f); },
    tell(kind, more) { for (const f of this.listeners) f(kind, more || {}); },
    arm() {                // called inside a click: browsers start sound only then
      if (!this.ctx) this.ctx = new (window.AudioContext || window.webkitAudioContext)();
      if (this.ctx.state !== "running") this.ctx.resume();
      this.halted = false; this.queue = []; this.quiet();
      this.tracks.baseline.reset(); this.tracks.method.reset();
    },
    halt() { this.halted = true; this.queue = []; this.quiet(); this.tell("halt"); },

    quiet() {
      for (const n of this.nodes) { n.onended = null; try { n.stop(); } catch (e) { /* not started yet */ } }
      this.nodes = []; this.pieces = []; this.playing = false; this.live = false;
      cancelAnimationFrame(this.frame);
      this.tell("state");
    },

    play(side, t) {
      const track = this.tracks[side];
      if (!this.ctx) this.ctx = new (window.AudioContext || window.webkitAudioContext)();
      if (this.ctx.state !== "running") this.ctx.resume();
      this.quiet();
      if (!track.length && track.complete) return;
      this.side = side; this.playing = true; this.soundAt = 0;
      if (t === undefined || t >= track.seconds - 0.01 && track.complete) t = 0;
      this.at = t; this.next = Math.round(t * track.rate); this.when = 0;
      this.schedule(); this.tick(); this.tell("state");
    },

    schedule() {
      const track = this.tracks[this.side], ctx = this.ctx;
      if (!this.playing || this.next >= track.length) return;
      if (this.when < ctx.currentTime) this.when = ctx.currentTime + (track.complete ? 0.02 : track.lead);
      const part = track.data.subarray(this.next, track.length);
      const buffer = ctx.createBuffer(1, part.length, track.rate);
      buffer.copyToChannel(part, 0);
      const node = ctx.createBufferSource(), level = ctx.createGain();
      level.gain.value = this.matched ? track.gain : 1;
      node.buffer = buffer; node.connect(level).connect(ctx.destination); node.start(this.when);
      this.pieces.push([this.when, this.next / track.rate, part.length / track.rate]);
      if (!this.soundAt) this.soundAt = now() + (this.when - ctx.currentTime);
      this.next = track.length; this.when += part.length / track.rate;
      this.nodes.push(node);
      node.onended = () => {
        this.nodes = this.nodes.filter((n) => n !== node);
        if (!this.nodes.length && track.complete && this.next >= track.length) this.ended();
      };
    },

    ended() {
      const side = this.side;
      this.at = this.tracks[side].seconds;
      this.tell("time", { side, t: this.at }); this.quiet();
      const follow = this.queue.shift();
      if (follow) { this.play(follow, 0); this.live = !this.tracks[follow].complete; }
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
      const step = () => {
        if (!this.playing) return;
        this.tell("time", { side: this.side, t: this.position() });
        this.frame = requestAnimationFrame(step);
      };
      step();
    },

    pause() { const t = this.position(); this.quiet(); this.at = t; this.queue = []; },
    toggle(side) {
      if (this.playing && (!side || side === this.side)) { this.pause(); return; }
      const s = side || this.side || "method";
      this.queue = [];
      this.play(s, s === this.side ? this.at : 0);
    },
    seek(side, t) { this.queue = []; this.play(side, Math.max(0, t)); },
    nudge(by) { if (this.side) this.seek(this.side, Math.min(this.position() + by, this.tracks[this.side].seconds)); },

    map(side, t) {         // the moment of the other side that says the same
      const pairs = this.warp, from = side === "baseline" ? 0 : 1, to = 1 - from;
      const other = side === "baseline" ? "method" : "baseline";
      if (!pairs || pairs.length < 2) return t * (this.tracks[other].seconds / (this.tracks[side].seconds || 1));
      for (let i = 1; i < pairs.length; i++) {
        const a = pairs[i - 1], b = pairs[i];
        if (t <= b[from] || i === pairs.length - 1) {
          const share = b[from] > a[from] ? (t - a[from]) / (b[from] - a[from]) : 0;
          return a[to] + Math.min(1, Math.max(0, share)) * (b[to] - a[to]);
        }
      }
      return 0;
    },
    swap() {
      if (!this.side) return;
      const other = this.side === "baseline" ? "method" : "baseline";
      if (!this.tracks[other].length) return;
      const t = this.map(this.side, this.position()), was = this.playing;
      this.queue = [];
      if (was) this.play(other, t); else { this.side = other; this.at = t; this.tell("time", { side: other, t }); this.tell("state"); }
    },

    receive(side, m) {     // one message from the server
      const track = this.tracks[side];
      if (m.kind === "clear" || m.kind === "start" || m.kind === "load") {
        if (this.side === side) this.quiet();
        track.reset(); track.run = m.run; track.rate = m.sr || 16000; track.lastSeq = m.seq;
        if (m.kind === "start") { track.complete = false; track.started = now(); }
        if (m.kind === "load") { track.replace(decode(m.pcm)); if (this.side === side) this.at = 0; }
      } else if (m.run === track.run) {
        if (m.seq !== track.lastSeq + 1) track.lost++;
        track.lastSeq = m.seq;
        if (m.kind === "chunk") {
          track.push(decode(m.pcm), m.stats && m.stats.rtf);
          if (!this.halted) this.follow(side);
        } else if (m.kind === "end") {
          const whole = decode(m.pcm), had = track.length;
          if (!had && whole.length) track.push(whole);
          track.replace(whole); track.complete = true;
          if (this.side === side && this.playing) {
            if (had > whole.length) this.next = Math.min(this.next, whole.length);
            this.schedule();
            if (!this.nodes.length) this.ended();
          } else if (!had && !this.halted) this.follow(side);
        }
      }
      this.span = Math.max(this.tracks.baseline.seconds, this.tracks.method.seconds);
      this.tell("data", { side });
    },

    follow(side) {         // live sound: baseline first, the method in full as soon as the baseline has been heard
      if (this.playing && this.side === side) { this.schedule(); return; }
      if (this.queue.includes(side) || this.tracks[side].joined === this.tracks[side].run) return;
      this.tracks[side].joined = this.tracks[side].run;
      if (this.playing) this.queue.push(side);
      else { this.play(side, 0); this.live = true; }
    },
  };
  TTSD.deck = deck;
  TTSD.decode = decode;

  const painters = [];     // pictures to draw again when the page turns dark or light
  TTSD.onTheme = (f) => painters.push(f);
  const watchBody = () => {
    if (!document.body) { setTimeout(watchBody, 30); return; }
    let dark = document.body.classList.contains("dark");
    new MutationObserver(() => {
      const is = document.body.classList.contains("dark");
      if (is !== dark) { dark = is; painters.forEach((f) => f()); }
    }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  };
  watchBody();
})();
