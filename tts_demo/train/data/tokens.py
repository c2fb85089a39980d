"""A corpus in the terms of a released model: ids of its text tokenizer, codes of its speech tokenizer, vectors of its
speaker encoder. All of it is made once and kept; recordings are not copied."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from ...config import SAMPLE_RATE
from ...stacks.cosyvoice import download, frontend
from ...stacks.cosyvoice.configs import TOKEN_RATE
from ...stacks.cosyvoice.prompt import MAX_SECONDS, VoiceEncoder
from ...stacks.cosyvoice.tokenizer import TextTokenizer
from ..loop import TrainOptions
from .corpora import Corpus, Utterance, listing_hash, load_audio, read_corpora

SHORTEST = 0.5  # seconds
SPEAKER = 192  # width of a speaker vector


@dataclass(frozen=True)
class Tokens:
    """Stands where the bundled stack has its ``CodeCache`` and ``Alignments``: codes [all F] of all utterances in turn,
    offsets [utterances + 1], speakers [utterances, 192]."""

    codes: np.ndarray
    offsets: np.ndarray
    speakers: np.ndarray

    def get(self, index: int) -> np.ndarray:
        """int64 [F, 1]."""
        return self.codes[self.offsets[index] : self.offsets[index + 1], None].astype(np.int64)


class Unaligned:
    """-1 for every frame of an utterance; None for one without codes or text, which is never drawn."""

    def __init__(self, tokens: Tokens, ids: list[list[int]]) -> None:
        self.tokens, self.ids = tokens, ids

    def get(self, index: int) -> np.ndarray | None:
        count = len(self.tokens.get(index))
        return np.full(count, -1, dtype=np.int64) if count and self.ids[index] else None


class TokenCache(Corpus):
    """What ``Sequences`` draws from. An utterance longer than the speech tokenizer takes has no codes. ``lead``: ids
    that stand before every text (the system prompt)."""

    def __init__(self, options: TrainOptions) -> None:
        folder, config = download.resolve(options.stack)
        self.utterances = read_corpora(options.data)
        tokenizer = TextTokenizer(folder / download.TEXT_FOLDER, config.version)
        self.lead = tokenizer.encode(config.system_prompt)
        self.ids = [tokenizer.encode(frontend.normalise(u.text)) for u in self.utterances]
        name = f"tokens-{download.fingerprint(folder, config)}-{listing_hash(self.utterances)}.npz"
        path = options.work / "cache" / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            encode_all(self.utterances, VoiceEncoder(folder, config, torch.device(options.device)), path)
        with np.load(path) as stored:
            self.codes = Tokens(**stored)
        self.alignments = Unaligned(self.codes, self.ids)

    def seconds(self, index: int) -> float:
        return len(self.codes.get(index)) / TOKEN_RATE


def encode_all(utterances: list[Utterance], voice: VoiceEncoder, path: Path) -> None:
    """Write the three arrays of ``Tokens``, renamed last, so that a killed run leaves no half cache behind."""
    codes, speakers, offsets = [], [], [0]
    for u in tqdm(utterances, desc="tokenising speech", unit="utt", mininterval=2.0):
        wave = torch.from_numpy(load_audio(u.path))
        fits = SHORTEST <= len(wave) / SAMPLE_RATE <= MAX_SECONDS
        codes.append(voice.tokens(wave).numpy().astype(np.uint16) if fits else np.empty(0, dtype=np.uint16))
        speakers.append(voice.embedding(wave)[0].numpy() if fits else np.zeros(SPEAKER, dtype=np.float32))
        offsets.append(offsets[-1] + len(codes[-1]))
    part = path.with_suffix(".part.npz")
    np.savez(part, codes=np.concatenate(codes), offsets=np.asarray(offsets), speakers=np.stack(speakers))
    part.rename(path)
