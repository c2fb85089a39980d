"""The one decode loop: a request goes in, events come out. The page, the command line, bench and evaluate consume it.

As it runs: 1) split the text and embed it, 2) prefill, 3) step until done, 4) vocode in growing chunks while stepping,
5) finish, replay for attention. It knows no method, no codec and no page: a ``Stack`` supplies the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from .config import Request, Sampling, UserError
from .lm import Decoder, LanguageModel, Prefix
from .lm.attention import AttentionMap, capture, join
from .methods.base import Method, State
from .metrics import Meter, Snapshot, StepRecord
from .runtime import device_errors, generator_for, processor, synchronize, work_clock

# Seconds of audio per vocoder call: the first comes early, then they double, up to what a listener on a slow machine
# can wait for. Fewer calls are faster: each has a fixed cost and evicts the language model's weights from the CPU
# cache.
FIRST_CHUNK, LONGEST_CHUNK = 0.24, 2.5
STATS_EVERY = 0.2  # seconds of compute between two Stats where no audio came
LOOP_SECONDS = 2.0  # this much exact repetition of at most LOOP_PERIOD frames ends a segment
LOOP_PERIOD = 12
WARM_UP_SECONDS = 1.0  # of speech, by which a method has settled
SILENCE_SECONDS, SILENCE_LEVEL = 3.0, 10 ** (-60 / 20)  # this much below -60 dB of full scale ends a segment


@dataclass(frozen=True)
class Prompt:
    """An encoded voice. codes: [F, K]; speaker: [E] or None. ``key``: hash of everything it was made from; ``extra``:
    what only its own stack reads; ``notes``: what a person should know about the recording."""

    codes: Tensor
    speaker: Tensor | None
    text: str | None
    seconds: float
    key: str
    extra: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Vocoder(Protocol):
    """Codes of one request to samples while they are being made. One object a run."""

    def push(self, frames: Tensor) -> np.ndarray:
        """frames [n, K] -> the float32 samples [N] that later frames cannot change any more, N >= 0."""

    def end_segment(self) -> np.ndarray:
        """The samples owed at the end of a segment of the text where the next one is spoken apart; none where speech
        runs on."""

    def finish(self) -> np.ndarray:
        """The samples still owed; nothing may be pushed afterwards."""


class Stack(Protocol):
    """A model stack, whoever trained it: text and voice in, a language model, codes to samples."""

    name: str
    sample_rate: int  # Hz
    frame_rate: int  # codec frames a second
    sampling: Sampling  # its default
    device: torch.device
    dtype: torch.dtype
    checkpoint_hash: str
    lm: LanguageModel

    @property
    def decoder(self) -> Decoder:
        """Of the language model without any adapter."""

    @property
    def parts(self) -> Mapping[str, torch.nn.Module]:
        """Acoustic modules by name, which ``bench`` times separately."""

    def split(self, text: str) -> list[str]:
        """The segments of a text, each spoken by one run of the method."""

    def preview(self, text: str) -> list[tuple[str, str]]:
        """What will be said, a sentence an entry: words, and sounds as the model gets them ('' where it gets words)."""

    def encode_prompt(self, samples: np.ndarray, sample_rate: int, text: str | None = None) -> Prompt:
        """The voice of a recording [N], with its transcript if known."""

    def prefix(self, prompt: Prompt, segment: str) -> Prefix:
        """Voice and text of one segment, embedded."""

    def method(self, name: str) -> Method:
        """The method with its trained modules. Raises UserError where they are missing."""

    def vocoder(self, prompt: Prompt, codebooks: int, live: bool = True) -> Vocoder:
        """For frames of so many codebooks, in the voice of ``prompt``. live: sound is wanted while it is made."""


@dataclass(frozen=True)
class Started:
    request: Request
    seed: int
    segments: list[str]
    device: str
    processor: str
    dtype: str
    stack: str
    checkpoint_hash: str
    cold: bool


@dataclass(frozen=True)
class Audio:
    samples: np.ndarray  # float32 [N]


@dataclass(frozen=True)
class Stats:
    snapshot: Snapshot


@dataclass(frozen=True)
class Trace:
    """The steps made since the previous Trace event; in ``Done``, all of them."""

    steps: tuple[StepRecord, ...]


@dataclass(frozen=True)
class Done:
    audio: np.ndarray  # float32 [N]
    codes: np.ndarray  # [F, K]
    snapshot: Snapshot
    trace: Trace
    attention: AttentionMap | None
    stopped: bool  # a person stopped it
    truncated: bool  # the length limit, a segment's cap or the loop guard ended it
    notes: tuple[str, ...] = ()  # what a person should know about the run, one sentence each
    segment_ends: tuple[int, ...] = ()  # frame at which each segment ended: the cache begins anew there


@dataclass(frozen=True)
class AttentionUpdate:
    """Attention of all that was spoken so far, while the run goes on."""

    attention: AttentionMap


Event = Started | Audio | Stats | Trace | AttentionUpdate | Done


def generate(
    stack: Stack,
    request: Request,
    should_stop: Callable[[], bool] = lambda: False,
    meter: Meter | None = None,
    every: float = STATS_EVERY,
    wants_attention: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Generate the speech of ``request`` on ``stack``. Closing the iterator ends the run and frees everything.

    every: seconds of compute between two ``Stats`` without audio. wants_attention: asked after every chunk of audio;
    when it returns True and the request captures attention, the tokens so far are replayed outside the clock and an
    ``AttentionUpdate`` is yielded."""
    meter = meter or Meter(stack.frame_rate, work=work_clock(stack.device))
    with device_errors(stack.device):
        for event in _Run(stack, request, should_stop, meter, every, wants_attention).events():
            with meter.held():
                yield event


def computing(stack: Stack) -> dict[str, str | bool]:
    """What figures depend on beside the model: processor and precision, and on a GPU whether steps run as CUDA graphs
    and whether acoustic models multiply in TF32."""
    facts: dict[str, str | bool] = {"processor": processor(stack.device), "dtype": stack.decoder.precision}
    on_gpu = {"graphs": stack.decoder.graphed, "tf32": getattr(stack, "tf32", False)}
    return facts | (on_gpu if stack.device.type == "cuda" else {})


def warm_up(stack: Stack, request: Request, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Run the beginning of ``request`` and discard it, unless its method has run so before: a first run also pays for
    memory allocation and kernel selection, which no comparison should include."""
    if stack.method(request.method).warm(request.options):
        return
    unseen = replace(request, capture_attention=False)
    enough, samples = WARM_UP_SECONDS * stack.sample_rate, 0
    for event in generate(stack, unseen, lambda: samples >= enough or should_stop()):
        samples += len(event.samples) if isinstance(event, Audio) else 0


def run(stack: Stack, request: Request) -> Done:
    """Drain ``generate``, for callers that do not stream."""
    for event in generate(stack, replace(request, live=False)):
        pass
    assert isinstance(event, Done)
    return event


@dataclass
class _Run:
    """One run's bookkeeping. torch.inference_mode is entered around single calls only: held across a yield it would
    leak into whatever the consumer does next."""

    stack: Stack
    request: Request
    should_stop: Callable[[], bool]
    meter: Meter
    every: float
    wants_attention: Callable[[], bool]
    pending: list[Tensor] = field(default_factory=list)  # frames not yet vocoded, each [n, K]
    codes: list[np.ndarray] = field(default_factory=list)
    audio: list[np.ndarray] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    traced: int = 0  # steps already sent as Trace
    chunk: float = FIRST_CHUNK
    last_stats: float = 0.0
    frames: int = 0
    waiting: int = 0  # frames in ``pending``
    fed: bool = False  # the vocoder has seen frames
    stopped: bool = False
    truncated: bool = False
    notes: list[str] = field(default_factory=list)

    def events(self) -> Iterator[Event]:
        stack, request = self.stack, self.request
        method: Method = stack.method(request.method)
        options = request.options if request.options is not None else method.Options()
        limit = request.forced_frames or max(1, round(request.max_seconds * stack.frame_rate))
        text = request.text.strip()
        segments = [text] if request.forced_frames else list(stack.split(text))
        if not any(segments):
            raise UserError("There is nothing to say: type some text.")
        where = str(stack.device), processor(stack.device), stack.decoder.precision, stack.name, stack.checkpoint_hash
        yield Started(request, request.seed, segments, *where, not method.warm(options))
        generator = generator_for(stack.device, request.seed)
        vocoder = stack.vocoder(request.prompt, method.output_codebooks(options), request.live)
        guard = LoopGuard(stack.frame_rate, stack.sample_rate)
        finished: list[tuple[State, int, int]] = []  # state, first frame, end frame of each segment
        for index, segment in enumerate(segments):
            with torch.inference_mode():
                prefix = stack.prefix(request.prompt, segment)
                first, room = self.frames, prefix.room(limit - self.frames, bool(request.forced_frames))
                with self.meter.measure("lm"):
                    state = method.prefill(
                        prefix, options, request.sampling, generator, room, bool(request.forced_frames)
                    )
                    synchronize(stack.device)
            self.meter.memory(state.caches)
            guard.reset()
            done = False
            while not done and not self.stopped:
                done = self._step(method, state, first + room)
                self.stopped = not done and self.should_stop()
                if self.waiting >= max(1, round(self.chunk * stack.frame_rate)):
                    yield from self._vocode(vocoder, guard)
                    if request.capture_attention and not done and self.wants_attention():
                        with self.meter.held():
                            so_far = self._attention(method, [*finished, (state, first, self.frames)])
                        yield AttentionUpdate(so_far)
                    if guard.tripped and not request.forced_frames:
                        done = True
                        self._cut("it repeated itself or fell silent", index, segments)
                elif self.meter.now() - self.last_stats >= self.every:
                    yield from self._report()
            finished.append((state, first, self.frames))
            yield from self._vocode(vocoder, guard, vocoder.end_segment)
            if self.stopped:
                break
            if request.forced_frames:
                break
            if self.frames >= limit:
                self._cut(f"the length limit is {limit / stack.frame_rate:g} s", index, segments)
                break
            if self.frames - first >= room:
                self._cut(f"nobody needs more than {room / stack.frame_rate:.1f} s for these words", index, segments)
        yield from self._vocode(vocoder, guard, vocoder.finish)
        snapshot = self.meter.snapshot()
        with self.meter.held():
            attention = self._attention(method, finished) if request.capture_attention else None
        audio = np.concatenate(self.audio) if self.audio else np.zeros(0, np.float32)
        if not self.stopped or len(audio) >= WARM_UP_SECONDS * stack.sample_rate:
            method.has_run(options)
        codes = np.concatenate(self.codes) if self.codes else np.zeros((0, 1), np.int64)
        trace, segment_ends = Trace(tuple(self.steps)), tuple(end for _, _, end in finished)
        yield Done(
            audio, codes, snapshot, trace, attention, self.stopped, self.truncated, tuple(self.notes), segment_ends
        )

    def _cut(self, why: str, index: int, segments: list[str]) -> None:
        """Note that segment ``index`` did not end by itself."""
        self.truncated = True
        where = f", in sentence {index + 1} of {len(segments)}" if len(segments) > 1 else ""
        self.notes.append(f"The speech was cut short{where}: {why}.")

    def _step(self, method: Method, state: State, limit: int) -> bool:
        """One step of the method; returns whether the segment is over: at frame ``limit`` of the run at the latest."""
        with self.meter.measure("lm"), torch.inference_mode():
            step = method.step(state)
        frames = step.frames[: limit - self.frames]  # a patch or chunk may overshoot the limit
        count = len(frames)
        self.steps.append(self.meter.step(step, count, state.caches, self.meter.took))
        if count:
            self.pending.append(frames)
            self.frames += count
            self.waiting += count
        return step.done or self.frames >= limit

    def _vocode(
        self, vocoder: Vocoder, guard: LoopGuard, owed: Callable[[], np.ndarray] | None = None
    ) -> Iterator[Event]:
        """Vocode what waits, then what is ``owed`` (a method of the vocoder). Then report."""
        samples = []
        if self.pending:
            codes = torch.cat(self.pending).to("cpu", torch.long)
            self.pending.clear()
            self.waiting, self.fed = 0, True
            self.codes.append(codes.numpy())
            self.chunk = min(2 * self.chunk, LONGEST_CHUNK)
            with self.meter.measure("vocoder"), torch.inference_mode():
                samples.append(vocoder.push(codes))
            guard.codes(codes[:, 0].tolist())
        if owed is not None and self.fed:
            with self.meter.measure("vocoder"), torch.inference_mode():
                samples.append(owed())
        samples = np.concatenate(samples).astype(np.float32, copy=False) if samples else np.zeros(0, np.float32)
        if len(samples):
            self.meter.first_audio()
            guard.samples(samples)
            self.audio.append(samples)
            yield Audio(samples)
        yield from self._report()

    def _report(self) -> Iterator[Event]:
        self.last_stats = self.meter.now()
        yield Stats(self.meter.snapshot())
        if self.traced < len(self.steps):
            new, self.traced = tuple(self.steps[self.traced :]), len(self.steps)
            yield Trace(new)

    def _attention(self, method: Method, finished: list[tuple[State, int, int]]) -> AttentionMap | None:
        maps = []
        for state, first, end in finished:
            with torch.inference_mode():
                replay = method.replay(state)
            weights = capture(
                replay.decoder, replay.x, replay.positions, replay.mask, replay.rows, state.prefix.text, replay.hook
            )
            start = np.minimum(first + np.asarray(replay.first_frame), end)
            stop = np.minimum(start + np.asarray(replay.frames_of), end)
            rate = self.stack.frame_rate
            maps.append(
                AttentionMap(
                    weights, state.prefix.labels, (start / rate).astype(np.float32), (stop / rate).astype(np.float32)
                )
            )
        return join(maps) if maps else None


class LoopGuard:
    """Notices a run that will not end by itself: a short cycle of codes repeated for two seconds, or three seconds of
    silence. Looked at once a chunk, on codes that are on the host anyway."""

    def __init__(self, frame_rate: float, sample_rate: int) -> None:
        self._frames = round(LOOP_SECONDS * frame_rate)
        self._quiet_limit = round(SILENCE_SECONDS * sample_rate)
        self.reset()

    def reset(self) -> None:
        """A new segment begins."""
        self._recent: list[int] = []
        self._quiet = 0
        self.tripped = False

    def codes(self, codes: list[int]) -> None:
        self._recent = (self._recent + codes)[-self._frames :]
        full, r = len(self._recent) == self._frames, self._recent
        self.tripped |= full and any(r[p:] == r[:-p] for p in range(1, LOOP_PERIOD + 1))

    def samples(self, samples: np.ndarray) -> None:
        loud = np.flatnonzero(np.abs(samples) > SILENCE_LEVEL)
        self._quiet = len(samples) - 1 - int(loud[-1]) if len(loud) else self._quiet + len(samples)
        self.tripped |= self._quiet >= self._quiet_limit
