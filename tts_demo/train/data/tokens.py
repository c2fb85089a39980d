"""A corpus in the terms of a released model: ids of its text tokenizer, codes of its speech tokenizer, vectors of its
speaker encoder. All of it is made once and kept; recordings are not copied."""

import functools
from dataclasses import dataclass

import numpy as np
import torch

from ...config import SAMPLE_RATE
from ...stacks.cosyvoice import download, frontend
from ...stacks.cosyvoice.configs import TOKEN_RATE
from ...stacks.cosyvoice.prompt import MAX_SECONDS, VoiceEncoder
from ...stacks.cosyvoice.tokenizer import TextTokenizer
from ..task import TrainOptions
from .corpora import Corpus, Kept, load_audio, read_corpora

SHORTEST = 0.5  # seconds
SPEAKER = 192  # width of a speaker vector


@dataclass(frozen=True)
class Tokens:
    """Stands where the bundled stack has its ``Codes``: a row of codes for each utterance, speakers [utterances,
    192]."""

    codes: Kept
    speakers: np.ndarray

    def get(self, index: int) -> np.ndarray:
        """int64 [F, 1]."""
        return self.codes.get(index)[:, None].astype(np.int64)


class TokenCache(Corpus):
    """The corpus of ``Sequences``. An utterance longer than the speech tokenizer takes has no codes. ``lead``: ids
    that stand before every text (the system prompt)."""

    def __init__(self, options: TrainOptions) -> None:
        folder, config = download.resolve(options.stack)
        super().__init__(read_corpora(options.data), options.work / "cache")
        tokenizer = TextTokenizer(folder / download.TEXT_FOLDER, config.version)
        self.lead = tokenizer.encode(config.system_prompt)
        self.texts = [tokenizer.encode(frontend.normalise(u.text)) for u in self.utterances]
        # Loaded when the first utterance is to be encoded: most runs find them all encoded.
        voice = functools.cache(lambda: VoiceEncoder(folder, config, torch.device(options.device)))
        made_by = download.fingerprint(folder, config)

        def codes(index: int) -> np.ndarray:
            wave = self._wave(index)
            return np.empty(0, np.uint16) if wave is None else voice().tokens(wave).numpy().astype(np.uint16)

        def speaker(index: int) -> np.ndarray:
            wave = self._wave(index)
            return np.zeros((1, SPEAKER), np.float32) if wave is None else voice().embedding(wave).numpy()

        vectors = self.kept(f"voice-{made_by}", speaker)
        speakers = np.concatenate([vectors.get(i) for i in range(len(self))])
        self.codes = Tokens(self.kept(f"codes-{made_by}", codes), speakers)

    def _wave(self, index: int) -> torch.Tensor | None:
        """Samples [N], or None where the speech tokenizer would not take so many."""
        wave = torch.from_numpy(load_audio(self.utterances[index].path))
        return wave if SHORTEST <= len(wave) / SAMPLE_RATE <= MAX_SECONDS else None

    def seconds(self, index: int) -> float:
        return self.codes.codes.length(index) / TOKEN_RATE

    def ids(self, index: int) -> np.ndarray:
        return np.asarray(self.texts[index], dtype=np.int64)

    def alignment(self, index: int) -> np.ndarray | None:
        count = self.codes.codes.length(index)
        return np.full(count, -1, dtype=np.int64) if count and self.texts[index] else None
