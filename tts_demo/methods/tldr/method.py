"""TLDR decoding: one backbone step a patch of P tokens, whose tokens a small extractor decodes (section 3.5)."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor, nn

from ...lm import BufferPool, Decoder, KVCache, LanguageModel, Prefix
from ...lm.sampling import Sampler, numbers
from ..base import Method, Options, Picture, Replay, Start, State, Step, dial, first_pass, plain_replay
from .local import PatchDecoder, PatchEncoder
from .modules import LARGEST, TLDRAdapter, TLDRConfig, patch_position


@dataclass(frozen=True)
class TLDROptions(Options):
    patch_size: int = dial(
        4,
        "Patch size",
        "Speech tokens the language model covers in one step. Larger is faster and "
        "keeps less in memory; too large costs intelligibility.",
        min=1,
        max=LARGEST,
        step=1,
        unit="tokens",
    )
    confidence: float = dial(
        0.0,
        "End patches early",
        "A patch ends before a token whose likeliest value is less probable than this: the big model decides that one. "
        "0: patches are always whole.",
        min=0.0,
        max=0.9,
        step=0.05,
    )


@dataclass(kw_only=True)
class TLDRState(State):
    recent: Tensor  # [1, W] the last tokens, oldest first, -1 = none
    prompt: Tensor  # [N P] prompt tokens, cut to whole patches
    speaker_term: Tensor  # [1, H] the speaker's part of every patch context
    hidden: Tensor  # [1, H] g_k, backbone output that decides the next patch
    patches: list[Tensor] = field(default_factory=list)  # each [n] as sampled; the last is not fed back yet
    sampled: int = 0  # tokens in them

    @property
    def size(self) -> int:
        return self.start.options.patch_size


class TLDR(Method):
    name = "tldr"
    title = "Patches (TLDR)"
    paper = "TLDR: Compressing Audio Tokens for Efficient Autoregressive Text-to-Speech"
    arxiv = "2606.09019"
    idea = (
        "Several speech tokens are compressed into one patch, so the big model takes one step for all of them; a small "
        "model that knows the voice decodes the tokens of each patch."
    )
    cached = "every text token, one slot per patch of speech, and the few tokens of the patch at hand"
    emits = "one patch of 1 to 8 tokens"
    picture = Picture("pppp zzzz", "ssss")
    presets = ({"patch_size": 8}, {"patch_size": 4}, {"patch_size": 2})
    Options = TLDROptions
    needs_weights = ("tldr",)
    ablate: ClassVar[str] = "none"

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        return {cls.needs_weights[0]: TLDRAdapter(lm, TLDRConfig.of(lm.config, cls.ablate))}

    @classmethod
    def paced_by_weights(cls, options: TLDROptions) -> bool:
        return options.confidence > 0

    def parts(self) -> dict[str, BufferPool | None]:
        compressor = None if self.encoder.pool_only else self.encoder.decoder.pool
        own = {"compressor": compressor, "backbone": self.decoder.pool}
        return {**own, "extractor, logits and sampling": self.extractor.pool}

    @property
    def adapter(self) -> TLDRAdapter:
        return self.modules[self.needs_weights[0]]

    @cached_property
    def decoder(self) -> Decoder:
        """The backbone with the patch LoRA merged in."""
        lora = self.adapter.lora
        return self.base.decoder if lora is None else self.base.merged(lora)

    @cached_property
    def encoder(self) -> PatchEncoder:
        return PatchEncoder(self.adapter.compressor, self.base.decoder)

    @cached_property
    def extractor(self) -> PatchDecoder:
        return PatchDecoder(self.adapter.extractor, self.base.decoder)

    def begin(self, start: Start) -> TLDRState:
        prefix, size = start.prefix, start.options.patch_size
        prompt = self.prompt_patches(prefix, size)
        local = self.encoder.new_cache(len(prompt))
        x, positions = self.inputs(prefix, prompt, size, local)
        most = start.ending.longest if start.options.confidence else -(-start.ending.longest // size)
        cache = self.decoder.new_cache(len(x) + most)
        caches = {"backbone": cache, "extractor": self.extractor.new_cache()}
        if local is not None:
            caches["compressor"] = local
        return TLDRState(
            start=start,
            caches=caches,
            recent=torch.full((1, start.sampling.repeat_window), -1, device=x.device),
            prompt=prompt,
            speaker_term=self.extractor.speaker_term(prefix.speaker),
            hidden=first_pass(self.decoder, prefix, x, cache, positions)[:, 0],
        )

    def step(self, state: TLDRState) -> Step:
        size, caches = state.size, state.caches
        if state.patches:  # the first patch is decided by the first pass
            fed = state.patches[-1]
            z = self.encoder.encode(fed, len(fed), caches.get("compressor"))
            position = patch_position(len(state.prefix.x), len(state.prompt) + state.sampled)
            state.hidden = self.decoder.forward(z[None], caches["backbone"], position)[:, -1]
        patch, tokens = self._patch(state)
        state.patches.append(patch)
        state.sampled += len(patch)
        if state.sampling.repeat_window:
            state.recent = torch.cat([state.recent, patch[None]], 1)[:, -state.sampling.repeat_window :]
        count = state.accept(tokens)  # end of speech anywhere in the patch ends the run
        return Step(
            frames=patch[:count, None],
            done=state.done,
            marks=("patch|", *["patch"] * size)[:count],
            stats={
                "patch_size": size,
                "patches": len(state.patches),
                "prompt_patches": len(state.prompt) // size,
                "local_steps": state.sampled,
            },
        )

    def _patch(self, state: TLDRState) -> tuple[Tensor, list[int]]:
        """The tokens [n] of the patch that ``state.hidden`` decides, on the device and on the host."""
        size, cache, confidence = state.size, state.caches["extractor"], state.start.options.confidence
        sampler = state.sampler(numbers(state.sampling, self.lm.config.vocab, size))
        inputs, given = (state.hidden, state.speaker_term, size, cache), (state.recent, state.forbidden(size))
        if self.extractor.pool is None:
            patch = self.extractor.decode(*inputs, sampling_in_patch(sampler, *given), confidence)[0]
            return patch, patch.tolist()
        found = self.extractor.launch(*inputs, sampler, sampling_in_patch, *given, confidence=confidence)
        count, *tokens = found.tolist()
        return found[1 : 1 + count], tokens[:count]

    def replay(self, state: TLDRState) -> Replay:
        """Rows are patches: each decided one patch. Latents are computed again from the tokens, all in one pass."""
        sizes = [len(patch) for patch in state.patches]
        tokens = torch.cat([state.prompt, *state.patches[:-1]])
        cache, prompt = self.encoder.new_cache(len(tokens)), len(state.prompt)
        z = [self.encoder.encode(state.prompt, state.size, cache)]
        for size, alike in itertools.groupby(zip(sizes[:-1], state.patches), key=lambda pair: pair[0]):
            z.append(self.encoder.encode(torch.cat([patch for _, patch in alike]), size, cache))
        fed = [state.size] * (prompt // state.size) + sizes[:-1]
        x, positions = self._inputs(state.prefix, torch.cat(z), fed)
        before = itertools.accumulate(sizes[:-1], initial=0)
        frames_of = [max(0, min(size, state.emitted - earlier)) for size, earlier in zip(sizes, before)]
        return plain_replay(self.decoder, state.prefix, x, frames_of, positions)

    def prompt_patches(self, prefix: Prefix, size: int) -> Tensor:
        """The tokens [N P] of the prompt's whole patches; the rest is cut off at the far end (section 3.5)."""
        codes = prefix.prompt_codes[:, 0]
        return codes[len(codes) % size :]

    def inputs(self, prefix: Prefix, prompt: Tensor, size: int, cache: KVCache | None = None) -> tuple[Tensor, Tensor]:
        """Backbone inputs [T + N, H] of prefix and ``prompt_patches``, and positions. cache: the compressor's."""
        cache = cache or self.encoder.new_cache(len(prompt))
        return self._inputs(prefix, self.encoder.encode(prompt, size, cache), [size] * (len(prompt) // size))

    def _inputs(self, prefix: Prefix, z: Tensor, sizes: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Backbone inputs [T + N, H] of a prefix and N patches of these sizes, and their positions."""
        start, device = len(prefix.x), z.device
        patches = patch_position(start, torch.tensor(sizes, dtype=torch.long, device=device).cumsum(0))
        return prefix.followed_by(z), torch.cat([torch.arange(start, device=device), patches])


def sampling_in_patch(sampler: Sampler, recent: Tensor, forbid: Tensor | None) -> Callable[[Tensor], Tensor]:
    """A function that samples a patch's tokens in order, logits [1, V] -> [1]. recent [1, W]: the last tokens before
    the patch, oldest first; forbid: [V] or a row for each of its tokens."""
    before: list[Tensor] = []

    def sample(logits: Tensor) -> Tensor:
        history = torch.cat([recent, *(token[None] for token in before)], 1)[:, len(before) :]
        row = forbid[len(before)] if forbid is not None and forbid.dim() == 2 else forbid
        before.append(sampler.sample(logits, history, row))
        return before[-1]

    return sample


class Ablation(TLDR):
    """A comparison model of the paper (tables 5, 6 and 9), with an adapter of its own in a folder of its name. They are
    trained more briefly than the method, so ``Short`` is what the others are compared with."""

    variant_of = TLDR.name

    def __init_subclass__(cls) -> None:
        cls.needs_weights = (cls.name,)


class Short(Ablation):
    name, title = "tldr-short", "TLDR, trained as briefly as its comparison models"


class WithoutLora(Ablation):
    name, title, ablate = "tldr-no-lora", "TLDR without LoRA", "no-lora"


class WithoutSpeaker(Ablation):
    name, title, ablate = "tldr-no-speaker", "TLDR without the speaker", "no-speaker"


class MeanPooled(Ablation):
    name, title, ablate = "tldr-mean-pool", "TLDR with mean-pooled patches", "mean-pool"


class Parallel(Ablation):
    name, title, ablate = "tldr-parallel", "TLDR, tokens of a patch at once", "parallel"


class MultiToken(Ablation):
    name, title, ablate = "tldr-mtp", "TLDR, tokens of a patch by additional heads", "mtp"
