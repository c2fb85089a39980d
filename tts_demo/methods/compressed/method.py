"""Compressed-to-fine language modelling: the prompt and the last N tokens as they are, everything between as summaries.

Section 3.3: after every G speech tokens a learned summary token W is inserted, which attends to the tokens of its span
and to itself, predicts nothing and carries no loss. The token that decides y_t attends to the whole prompt (text and
reference speech), to the W of every span that lies wholly before its window, and to y_{t-N} .. y_{t-1}: k = floor((t -
N) / G) summaries.

Positions are logical. W takes the position of the last token of its span, so that speech keeps the positions the frozen
base model was trained with, whatever N and G are. ``masks`` (layout.py) states the definition once; training and replay
use it. Decoding evicts instead (ring.py), with equal logits.

The text is visible as a whole, as in the paper, or (option ``text``, an addition to the paper) through a window around
the current symbol, which moves along with speech (text_position.py), with an adapter trained for it: in a minute of
speech from one run, the long text causes more errors than the long speech."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ...config import UserError
from ...lm import Base, BufferPool, Decoder, KVCache, LoraFactors, LoraSpec
from ...lm.launch import Function
from ...lm.model import ALIGNMENT_LAYERS, LanguageModel
from ...lm.sampling import Sampler, special_ids
from ..base import Options, Picture, Replay, Start, Step, dial, token_inputs
from ..baseline import Baseline, BaselineState
from .layout import Layout, masks, prompt_mask
from .ring import RingCache, launch
from .text_position import Shifts, TextFilter, TextPosition, prefix_shifts, replay_hook

FULL_TEXT, TEXT_WINDOW = "compressed", "compressed-text"  # adapters: for the full text, for a window of it
WINDOWS = (30, 200)  # shortest and longest
GROUPS = (0, 5, 10, 15)
TEXTS = (0, 20, 30, 40, 60)
Pass = Callable[..., Tensor]  # ``run`` of ``launch``
# Columns before speech that are further apart do not see each other where a text is seen through a window: how a symbol
# sounds depends on a few words, and speaker, SOS and TASK have never lain a thousand symbols away.
NEIGHBOURS = 60


@dataclass(frozen=True)
class CompressedConfig:
    hidden: int
    rank: int
    alpha: float


class SummaryAdapter(nn.Module):
    """What is trained: LoRA and the embedding of W. A fresh one changes nothing; its W is the mean speech embedding."""

    def __init__(self, lm: LanguageModel) -> None:
        super().__init__()
        rank = 64 if lm.config.hidden >= 896 else 16
        self.config = CompressedConfig(lm.config.hidden, rank, float(rank))
        self.spec = LoraSpec(rank, float(rank))
        self.lora = LoraFactors(lm.backbone, self.spec)
        self.summary = nn.Parameter(lm.speech_embedding.weight.detach().mean(0).clone())  # [H]

    def row(self, decoder: Decoder) -> Tensor:
        """[1, H] the embedding of W for ``decoder``."""
        return self.summary.detach()[None].to(decoder.device, decoder.dtype)


@dataclass(frozen=True)
class WindowOptions(Options):
    window: int = dial(
        50,
        "Window",
        "Recent speech tokens that are attended to one by one, 50 a second: 30 at least. 0: all of them.",
        min=0,
        max=WINDOWS[1],
        step=10,
        unit="tokens",
    )
    group: int = dial(
        10, "Group", "Older speech is summarised, this many tokens to one. 0 drops it.", choices=GROUPS, unit="tokens"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.window < WINDOWS[0]:
            raise UserError(f"window must be 0 (off) or lie between {WINDOWS[0]} and {WINDOWS[1]}, not {self.window}.")


@dataclass(frozen=True)
class CompressedOptions(WindowOptions):
    text: int = dial(
        0,
        "Text window",
        "Symbols of the text attended to on either side of the one being spoken. 0: all of it. A longer text is spoken "
        "without the prompt's own words and sounds as context.",
        choices=TEXTS,
        unit="symbols",
    )


@dataclass(kw_only=True)
class CompressedState(BaselineState):
    summary: Tensor  # [1, H] the embedding of W
    position: TextPosition | None = None  # with a window on the text
    full_prefix: KVCache | None = None  # everything before speech, where only a window of it is in the ring
    indices: list[int] = field(default_factory=list)  # of the current symbol, when each token was fed


class Compressed(Baseline):
    name = "compressed"
    title = "Compressed context"
    paper = "Speech Token Prediction via Compressed-to-fine Language Modeling"
    arxiv = "2505.24496"
    idea = (
        "The model keeps the text, the prompt and the last second or so; older speech is compressed into a few "
        "learned summary tokens."
    )
    cached = "every text and prompt token, a summary of each older span, the last tokens"
    emits = "1 token"
    picture = Picture("pppp wxxxwxxxw ssss", "s")
    presets = ({"window": 30, "group": 15}, {"window": 50, "group": 10}, {"window": 100, "group": 5})
    Options = CompressedOptions
    neutral = {"window": 0}
    needs_weights = (FULL_TEXT,)  # a window on the text needs the other adapter as well
    reads = (TEXT_WINDOW,)

    def __init__(self, base: Base, modules: dict[str, nn.Module] | None = None, weights_hash: str = "") -> None:
        super().__init__(base, modules, weights_hash)
        self.plain = Baseline(base)  # with the window off: no adapter

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        return {FULL_TEXT: SummaryAdapter(lm), TEXT_WINDOW: SummaryAdapter(lm)}

    def parts(self) -> dict[str, BufferPool | None]:
        windowed = {"backbone with a window on the text": self.windowed.pool} if TEXT_WINDOW in self.modules else {}
        return super().parts() | windowed

    @cached_property
    def decoder(self) -> Decoder:
        return self.base.merged(self.modules[FULL_TEXT].lora)

    @cached_property
    def windowed(self) -> Decoder:
        """With the adapter for a window on the text."""
        return self.base.merged(self.modules[TEXT_WINDOW].lora)

    def check(self, options: CompressedOptions) -> None:
        if not (options.window and options.text):
            return
        if self.lm.config.layers <= max(ALIGNMENT_LAYERS):
            raise UserError("This language model has no layers that follow the text: set text to 0.")
        if TEXT_WINDOW not in self.modules:
            raise UserError(
                f"A window on the text has no trained weights ({TEXT_WINDOW}) here: make them with "
                f"'python -m tts_demo train {TEXT_WINDOW}', or set text to 0."
            )

    def begin(self, start: Start) -> BaselineState:
        options = start.options
        if not options.window:
            return self.plain.begin(start)
        decoder = self.windowed if options.text else self.decoder
        position = TextPosition(start.prefix.text, options.text, self.lm.device) if options.text else None
        if position and position.moves and start.prefix.transcript:
            # In training a text that moves stands behind no other: it would say words of that one too.
            start = replace(start, prefix=start.prefix.without_prompt())
            position = TextPosition(start.prefix.text, options.text, self.lm.device)
        x, text = token_inputs(decoder, start.prefix), start.prefix.text
        full_prefix, slots = None, len(x)
        if position and position.moves:
            full_prefix, symbols = decoder.new_cache(len(x)), text.stop - text.start
            slots += min(symbols, 2 * options.text + 1) - symbols
        cache = RingCache.new(decoder, slots, options.window, options.group, start.ending.longest)
        neighbours, bidirectional = NEIGHBOURS if full_prefix else 0, self.lm.config.bidirectional_text
        mask = prompt_mask(len(start.prefix.x), len(x), bidirectional, x.device, neighbours)
        state = CompressedState(
            start=start,
            caches={"backbone": cache},
            history=start.history(),
            hidden=decoder.forward(x[None], full_prefix or cache, 0, mask, last=True),
            summary=self.modules[TEXT_WINDOW if options.text else FULL_TEXT].row(decoder),
            position=position,
            full_prefix=full_prefix,
        )
        if full_prefix is not None:
            self._show_prefix(state)  # what is cached is counted from the first step on
        return state

    def step(self, state: BaselineState) -> Step:
        cache = state.caches["backbone"]
        if not isinstance(cache, RingCache):
            return self.plain.step(state)
        if not state.tokens:  # the first token is decided by the first pass
            step = self.sample_token(state)
        elif state.position is None:
            step = self.emit(state, self._next_token(state))
        else:
            step = self._step_in_text(state)
        return replace(step, stats={"summaries": cache.summaries, "slots": cache.length})

    def _next_token(self, state: CompressedState) -> Tensor:
        """Feed the last token and, when summaries are due, those in the same pass; sample the next [1]."""
        decoder = self.decoder

        def decide(run: Pass, sampler: Sampler, history: Tensor, forbid: Tensor | None) -> tuple[Tensor, Tensor]:
            hidden = run()
            return sampler.sample(decoder.logits(hidden[:, -1]), history, forbid), hidden

        token, state.hidden = self._launch(state, decoder, decide, super().forbidden(state))
        return token

    def _step_in_text(self, state: CompressedState) -> Step:
        """The same with a window on the text, whose current symbol is found from the attention of the pass."""
        decoder, text = self.windowed, state.position
        if state.full_prefix is not None:
            self._show_prefix(state)

        def decide(
            run: Pass, sampler: Sampler, history: Tensor, early: Tensor | None, special: Tensor, *of_text: Tensor
        ) -> tuple[Tensor, ...]:
            frame = TextFilter(*of_text)
            hidden = run(frame.observe)
            posterior, symbol = frame.advance()
            forbid = frame.forbidden(symbol, special) if early is None else early
            token = sampler.sample(decoder.logits(hidden[:, -1]), history, forbid)
            return torch.cat([token, symbol[None]]), hidden, posterior

        inputs = super().forbidden(state), self.special, *text.inputs
        found, state.hidden, posterior = self._launch(state, decoder, decide, *inputs)
        token, symbol = found.tolist()
        state.indices.append(text.index)
        text.move(posterior, symbol)
        return self.emit(state, found[:1], [token])

    def _launch(self, state: CompressedState, decoder: Decoder, decide: Function, *inputs: Tensor | None) -> Any:
        given = self.sampler(state), state.tokens[-1], state.history.tokens, *inputs
        return launch(decoder, state.caches["backbone"], "token", decide, state.summary, *given)

    def _show_prefix(self, state: CompressedState) -> None:
        """Show the visible part of the prefix, shifted, to the next token."""
        text, full_prefix, cache = state.position, state.full_prefix, state.caches["backbone"]
        start, end, prompt = text.text.start, text.text.stop, len(state.prefix.prompt_codes)
        by = prefix_shifts(start, full_prefix.length, prompt, text.reach, text.index, cache.generated)
        parts = slice(0, start), text.window(text.index), slice(end, full_prefix.length)
        cache.show_prefix(full_prefix, parts, by)

    @cached_property
    def special(self) -> Tensor:
        """[V] bool: the ids that are not speech."""
        return special_ids(self.lm.config.speech_codes, self.lm.config.vocab, self.lm.device)

    def forbidden(self, state: BaselineState) -> Tensor | None:
        """The first token ends no speech whose text goes on beyond the window. Later ones: see ``TextFilter``."""
        early, text = super().forbidden(state), getattr(state, "position", None)
        return early if early is not None or text is None or text.end_visible else self.special

    def replay(self, state: BaselineState) -> Replay:
        cache = state.caches["backbone"]
        if not isinstance(cache, RingCache):
            return self.plain.replay(state)
        decoder, prefix = self.windowed if state.position else self.decoder, state.prefix
        prompt = len(prefix.prompt_codes)
        layout = Layout.of(prompt, cache.generated, cache.group, prefix.x.device)
        codes = torch.cat([prefix.prompt_codes[:, 0], *state.tokens[: cache.generated]])
        x, positions = layout.inputs(prefix, decoder.embed(codes), state.summary)
        before = layout.fed.new_tensor([len(prefix.x) + prompt - 1])  # what decides the first token
        return Replay(
            x=x,
            positions=positions,
            mask=self._mask(state, layout),
            rows=torch.cat([before, layout.fed + len(prefix.x)])[: len(state.frames_of)],
            frames_of=tuple(state.frames_of),
            decoder=decoder,
            hook=replay_hook(decoder, self._shifts(state, layout)) if state.full_prefix else None,
        )

    def _shifts(self, state: CompressedState, layout: Layout) -> Shifts:
        """The shifts that ``_show_prefix`` used before each token was fed."""
        text, prompt, first = state.position.text, len(state.prefix.prompt_codes), len(state.prefix.x)
        fixed, rows = first + prompt, layout.fed + first
        symbols = torch.tensor(state.indices, device=rows.device)
        generated = torch.arange(len(symbols), device=rows.device)
        by = prefix_shifts(text.start, fixed, prompt, state.position.reach, symbols, generated)
        offsets = rows.new_zeros(len(by), first + len(layout.index))
        offsets[:, rows] = torch.stack(by)
        return tuple(zip((text.start, text.stop - text.start, fixed - text.stop), offsets))

    def _mask(self, state: CompressedState, layout: Layout) -> Tensor:
        """[T, T] of a finished run."""
        cache, first, text = state.caches["backbone"], len(state.prefix.x), state.position
        neighbours, bidirectional = NEIGHBOURS if state.full_prefix else 0, self.lm.config.bidirectional_text
        mask = masks(first, layout, cache.window, cache.group, bidirectional, neighbours=neighbours)
        if text is not None:
            for row, index in zip((layout.fed + first).tolist(), state.indices):
                mask[row, state.position.text] = False
                mask[row, state.position.window(index)] = True
        return mask
