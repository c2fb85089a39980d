"""Weights of a speech language model and its training-time forward pass.

[speaker, SOS, text, TASK] is the prefix; the prompt's speech tokens and the speech to be predicted follow it. The
backbone is ``transformers.Qwen2Model`` fed with embeddings only. Decoding does not go through here: see decoder.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..config import LMConfig

if TYPE_CHECKING:
    from transformers import Qwen2Config, Qwen2Model

Layers = tuple[int, ...]  # numbers of some blocks
ALIGNMENT_LAYERS = (4, 5, 6, 7)  # their first heads are alignment heads: recipe ``lm`` trains them to follow the text
SOS, TASK = 0, 1  # rows of ``markers``


@dataclass(frozen=True)
class Prefix:
    """[speaker, SOS, text, TASK], and the prompt's speech that follows it.

    x: [T, H] embeddings of everything before the prompt's speech. ``text`` spans the text tokens inside it.
    prompt_codes: [F, K] codec codes of the prompt's speech, empty when the LM gets none (a method embeds them in its
    own way: token by token, patchified, or over several codebooks). ``labels``: one readable label a text token.
    ``shortest``: the least number of frames this text can take; speech does not end before. ``longest``: the most it
    can take; it is cut there (None: no cap). ``transcript``: number of columns right before the text that hold the
    prompt's transcript."""

    x: Tensor
    text: slice
    labels: tuple[str, ...]
    prompt_codes: Tensor
    shortest: int = 0
    longest: int | None = None
    speaker: Tensor | None = None  # [speaker width], for methods that condition their own modules on it
    transcript: int = 0

    def room(self, max_frames: int, forced: bool = False) -> int:
        """The most frames that this text may take, at most ``max_frames``; just that when the length is forced."""
        return max_frames if forced or self.longest is None else min(max_frames, self.longest)

    def without_prompt(self) -> Prefix:
        """The same text without the prompt's speech and its transcript in front of it."""
        start, stop = self.text.start - self.transcript, self.text.stop - self.transcript
        x = torch.cat([self.x[:start], self.x[self.text.start :]])
        return replace(self, x=x, text=slice(start, stop), prompt_codes=self.prompt_codes[:0], transcript=0)

    def followed_by(self, speech: Tensor) -> Tensor:
        """Backbone inputs [T + N, H] for embedded speech [N, H], in its dtype."""
        return torch.cat([self.x.to(speech.dtype), speech])


def backbone_config(config: LMConfig) -> Qwen2Config:
    """The Qwen2 configuration of this shape; the vocabulary is a stub because only embeddings are fed."""
    from transformers import Qwen2Config  # seconds to import: whoever only lists the methods does not wait for it

    return Qwen2Config(
        vocab_size=1,
        hidden_size=config.hidden,
        intermediate_size=config.ffn,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        rms_norm_eps=config.rms_eps,
        max_position_embeddings=config.max_positions,
        tie_word_embeddings=False,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
    )


def new_backbone(config: LMConfig) -> Qwen2Model:
    """Fresh weights of this shape."""
    from transformers import Qwen2Model

    return Qwen2Model(backbone_config(config))


class LanguageModel(nn.Module):
    """A Qwen2 backbone with text, speech and speaker inputs and a speech head of V ids (end-of-speech included)."""

    def __init__(self, config: LMConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = new_backbone(config)
        self.text_embedding = nn.Embedding(config.text_vocab, config.hidden)
        self.speech_embedding = nn.Embedding(config.vocab, config.hidden)
        self.speaker_proj = nn.Linear(config.speaker, config.hidden) if config.speaker else None
        self.markers = nn.Embedding(2, config.hidden)
        self.head = nn.Linear(config.hidden, config.vocab, bias=False)
        for table in (self.text_embedding, self.speech_embedding, self.markers):
            nn.init.normal_(table.weight, std=0.02)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.head.weight.dtype

    def prefix(self, text_ids: Tensor, labels: tuple[str, ...], speaker: Tensor | None, prompt_codes: Tensor) -> Prefix:
        """text_ids [T], speaker [speaker width] or None, prompt_codes [F, K] -> Prefix whose x is
        [speaker, SOS, text, TASK]; the prompt's speech stays apart because each method embeds it in its own way."""
        marker = self.markers.weight
        rows = [marker[SOS : SOS + 1], self.text_embedding(text_ids.to(self.device)), marker[TASK : TASK + 1]]
        if self.speaker_proj is not None:
            if speaker is None:
                raise ValueError("this language model is conditioned on a speaker vector, but none was given")
            rows.insert(0, self.speaker_proj(speaker.to(self.device, self.dtype))[None])
        start = len(rows) - 2  # speaker or not, then SOS
        return Prefix(
            x=torch.cat(rows),
            text=slice(start, start + len(text_ids)),
            labels=labels,
            prompt_codes=prompt_codes.to(self.device),
            speaker=speaker,
        )

    def embed_speech(self, codes: Tensor) -> Tensor:
        """codes [...] of the first codebook -> [..., H]."""
        return self.speech_embedding(codes)

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """x [B, T, H], positions [B, T], mask [B, T, T] (True = attend) -> hidden [B, T, H] after the final norm.

        Differentiable: LoRA in the backbone trains. No row may see nothing."""
        out = self.backbone(
            inputs_embeds=x, position_ids=positions, use_cache=False, attention_mask={"full_attention": mask[:, None]}
        )
        return out.last_hidden_state
