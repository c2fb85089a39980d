"""Refiner: first codebook + voice -> everything the codec's decoder needs, in one non-autoregressive pass.

One-pass prediction of the decoder's latent, trained through the decoder, instead of VALL-E's level-by-level code
prediction: it needs less data and one pass instead of seven. A semantic code leaves the pitch open, and the mean of all
pitches is a mumble; so pitch is guessed first, and the latent for that pitch (FastSpeech 2, section 2.3). Its attention
is limited to the prompt and a local window (compressed-to-fine, section 3.3), which also bounds what a stream must
recompute."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import CodecConfig, RefinerConfig
from ..rotary import rotary_factors, rotate
from .layers import ShiftedConv

PITCH_LOW, PITCH_HIGH = 60.0, 420.0  # Hz, centres of the lowest and the highest class


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """q, k, v, result [B, A, T, D], mask [T, T] bool. In training written out: a third of the fused time on a CPU."""
    if not q.requires_grad:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1).to(v.dtype) @ v


class RefinerLayer(nn.Module):
    """Windowed self-attention, attention to the prompt, feed-forward; the voice scales and shifts each norm."""

    def __init__(self, c: RefinerConfig) -> None:
        super().__init__()
        self.heads = c.heads
        self.norms = nn.ModuleList(nn.LayerNorm(c.width, elementwise_affine=False) for _ in range(3))
        self.voice = nn.Linear(c.speaker, 6 * c.width)
        nn.init.zeros_(self.voice.weight)
        nn.init.zeros_(self.voice.bias)
        self.qkv = nn.Linear(c.width, 3 * c.width)
        self.self_out = nn.Linear(c.width, c.width)
        self.cross_q = nn.Linear(c.width, c.width)
        self.cross_kv = nn.Linear(c.width, 2 * c.width)
        self.cross_out = nn.Linear(c.width, c.width)
        self.grow = nn.Linear(c.width, c.ffn)
        self.shrink = nn.Linear(c.ffn, c.width)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, prompt: Tensor, speaker: Tensor, mask: Tensor) -> Tensor:
        """x [B, F, width], prompt [B, F', width], speaker [B, speaker], mask [F, F] bool."""
        shifts = self.voice(speaker)[:, None].chunk(6, dim=-1)
        normed = [lambda h, i=i: self.norms[i](h) * (1 + shifts[2 * i]) + shifts[2 * i + 1] for i in range(3)]
        q, k, v = (self._split(t) for t in self.qkv(normed[0](x)).chunk(3, dim=-1))
        rotation = rotary_factors(torch.arange(x.shape[1], device=x.device), q.shape[-1], 10_000.0)
        y = attend(rotate(q, *rotation), rotate(k, *rotation), v, mask)
        x = x + self.self_out(y.transpose(1, 2).flatten(2))
        q = self._split(self.cross_q(normed[1](x)))
        k, v = (self._split(t) for t in self.cross_kv(prompt).chunk(2, dim=-1))
        x = x + self.cross_out(attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.shrink(F.gelu(self.grow(normed[2](x)), approximate="tanh"))


class Pitch(nn.Module):
    """Predicts a pitch class for each frame and embeds it: class 0 is unvoiced, 1 to ``classes`` are log-spaced."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(width, classes + 1)
        self.table = nn.Embedding(classes + 1, width)
        nn.init.zeros_(self.table.weight)

    def guess(self, x: Tensor) -> Tensor:
        """x [..., width] -> logits [..., classes + 1]."""
        return self.head(F.layer_norm(x, x.shape[-1:]))

    def forward(self, logits: Tensor) -> Tensor:
        """logits [..., classes + 1] -> [..., width] of the expected pitch, between the two nearest classes."""
        chance = logits.float().softmax(-1)
        voiced = chance[..., 1:]
        weighted = (voiced * torch.arange(voiced.shape[-1], device=logits.device)).sum(-1)
        position = weighted / voiced.sum(-1).clamp(min=1e-6)
        low = position.long().clamp(max=voiced.shape[-1] - 2)
        voiced_embedding = torch.lerp(
            self.table(low + 1), self.table(low + 2), (position - low)[..., None].to(self.table.weight.dtype)
        )
        return torch.where(chance[..., :1] < 0.5, voiced_embedding, self.table.weight[0])


class Refiner(nn.Module):
    def __init__(self, config: RefinerConfig = RefinerConfig()) -> None:
        super().__init__()
        self.config = c = config
        self.embedding = nn.Embedding(c.entries, c.width)
        self.stem = ShiftedConv(c.width, c.width, 5, right=2)
        self.prompt_in = nn.Linear(c.latent, c.width)
        self.no_prompt = nn.Parameter(torch.zeros(1, 1, c.width))
        self.layers = nn.ModuleList(RefinerLayer(c) for _ in range(c.layers))
        self.pitch = Pitch(c.width, c.pitch_classes)
        self.base = nn.Embedding(c.entries, c.latent)  # what the first codebook itself says: the rest is added to it
        nn.init.normal_(self.base.weight, std=0.02)
        self.norm = nn.LayerNorm(c.width)
        self.out = nn.Linear(c.width, c.latent)
        # frames of past and future that one output frame can depend on
        self.left = c.layers * c.left + self.stem.left
        self.right = c.layers * c.right + self.stem.right

    def forward(self, codes: Tensor, speaker: Tensor, prompt: Tensor | None = None) -> Tensor:
        """First codebook [B, F], speaker [B, E], prompt [B, F', latent] -> decoder latent [B, F, latent]."""
        return self.refine(codes, speaker, prompt)[0]

    def refine(
        self, codes: Tensor, speaker: Tensor, prompt: Tensor | None = None, pitch: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """-> decoder latent [B, F, latent], pitch logits [B, F, classes + 1]; the latent is for ``pitch`` [B, F], a
        class a frame, where it is given (training), else for the guessed one."""
        x, logits = self._hidden(self.embedding(codes), speaker, prompt, pitch)
        return self.base(codes) + self.out(x), logits

    def _hidden(self, x: Tensor, speaker: Tensor, prompt: Tensor | None, pitch: Tensor | None) -> tuple[Tensor, Tensor]:
        """Frames [B, F, width] as they come in -> as they go out, and pitch logits."""
        c, count = self.config, x.shape[1]
        x = self.stem(x.transpose(1, 2)).transpose(1, 2)
        memory = self.no_prompt.expand(len(x), -1, -1)
        if prompt is not None:
            memory = torch.cat([memory, self.prompt_in(prompt[:, : c.prompt_frames])], dim=1)
        offset = torch.arange(count, device=x.device)
        offset = offset[None, :] - offset[:, None]
        mask = (offset >= -c.left) & (offset <= c.right)
        x = self.layers[0](x, memory, speaker, mask)
        logits = self.pitch.guess(x)
        x = x + (self.pitch(logits) if pitch is None else self.pitch.table(pitch))
        for layer in self.layers[1:]:
            x = layer(x, memory, speaker, mask)
        return self.norm(x), logits


class CodebookRefiner(Refiner):
    """The refiner of several codebooks that a language model generated (QTTS). Generated codes differ a little from a
    recording's, and the codec's decoder alone turns that into misheard words. This one reads the generated codes beside
    the first codebook, learns how far to trust them, and fills in the codebooks that were not generated.

    Before training it equals the refiner that it starts from, and all but ignores the finer codebooks."""

    def __init__(self, config: RefinerConfig = RefinerConfig()) -> None:
        super().__init__(config)
        self.finer = nn.Linear(config.latent, config.width, bias=False)
        self.count_embedding = nn.Embedding(CodecConfig.codebooks, config.width)  # row K - 1: K were generated
        self.trust = nn.Linear(config.width, config.latent)  # share of their latent that is taken as it is
        for weight in (self.finer.weight, self.count_embedding.weight, self.trust.weight):
            nn.init.zeros_(weight)
        nn.init.constant_(self.trust.bias, -5.0)

    def refine_codebooks(
        self,
        codes: Tensor,
        finer: Tensor,
        codebooks: Tensor,
        speaker: Tensor,
        prompt: Tensor | None = None,
        pitch: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """codes [B, F] of the first codebook, finer [B, F, latent] what the codebooks above it add
        (``ResidualQuantizer.finer``), codebooks [B] how many were generated -> as ``refine``."""
        x = self.embedding(codes) + self.finer(finer) + self.count_embedding(codebooks - 1)[:, None]
        x, logits = self._hidden(x, speaker, prompt, pitch)
        return self.base(codes) + self.out(x) + self.trust(x).sigmoid() * finer, logits
