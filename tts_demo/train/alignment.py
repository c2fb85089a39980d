"""Which phoneme is spoken at each codec frame of the training speech, by forced alignment with the bundled recogniser."""

from __future__ import annotations

import numpy as np
import torch
from tqdm import tqdm

from ..recogniser import Recogniser
from .data import PhonemeCache, SpeechCache, is_sound


class Alignments:
    """Per utterance, the index into its full phoneme ids (stress and boundaries counted) spoken at each frame.

    ``tag`` names the recogniser's weights, so that a better one makes its own file. Utterances with more symbols than
    frames have no alignment (``get`` returns None).
    """

    def __init__(self, speech: SpeechCache, phonemes: PhonemeCache, recogniser: Recogniser, tag: str) -> None:
        path = speech.folder / f"alignment-{tag}.npz"
        if not path.exists():
            _align_all(speech, phonemes, recogniser, path)
        stored = np.load(path)
        self.offsets, self.rows = stored["offsets"], stored["rows"]

    def get(self, index: int) -> np.ndarray | None:
        """int16 [F], or None."""
        row = self.rows[self.offsets[index] : self.offsets[index + 1]]
        return row if len(row) else None


def _align_all(speech: SpeechCache, phonemes: PhonemeCache, recogniser: Recogniser, path) -> None:
    rows, offsets = [], [0]
    for i in tqdm(range(len(speech)), desc="aligning", unit="utt", mininterval=2.0):
        ids = phonemes.ids[i]
        places = np.asarray([p for p, symbol in enumerate(ids) if is_sound(symbol)], dtype=np.int16)
        try:
            spoken = recogniser.align(torch.from_numpy(speech.samples(i)), torch.tensor([ids[p] for p in places]))
            row = places[spoken.numpy()]
        except RuntimeError:  # more symbols than frames: the transcript does not fit the recording
            row = np.empty(0, dtype=np.int16)
        rows.append(row)
        offsets.append(offsets[-1] + len(row))
    np.savez(path, rows=np.concatenate(rows), offsets=np.asarray(offsets, dtype=np.int64))
