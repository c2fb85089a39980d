"""What the bundled recogniser knows of the training speech, frame by frame: the phoneme spoken, and its own
features."""

from __future__ import annotations

import numpy as np
import torch
from tqdm import tqdm

from ...codec.recogniser import Recogniser
from ...codec.semantic import PhoneticEncoder
from ...config import HOP
from .corpora import PhonemeCache, SpeechCache, is_sound


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


def sounds_of(spoken: np.ndarray, most: int) -> np.ndarray:
    """The symbols of a stretch of frames, each once: spoken [F] -> at most ``most`` of them."""
    return spoken[np.r_[True, spoken[1:] != spoken[:-1]]][:most]


class PhoneticCache:
    """Features of the frozen phonetic encoder for every utterance, float16 on disk: crops of them see whole
    utterances."""

    def __init__(self, speech: SpeechCache, encoder: PhoneticEncoder, tag: str) -> None:
        path = speech.folder / f"phonetic-{tag}"
        if not path.with_suffix(".npy").exists():
            _encode_all(speech, encoder, path)
        self.offsets = np.load(path.with_suffix(".npy"))
        self.width = encoder.stem.out_channels
        self.rows = np.memmap(path.with_suffix(".f16"), dtype=np.float16, mode="r").reshape(-1, self.width)

    def get(self, index: int) -> np.ndarray:
        """float16 [F, width]."""
        return self.rows[self.offsets[index] : self.offsets[index + 1]]


@torch.no_grad()
def _encode_all(speech: SpeechCache, encoder: PhoneticEncoder, path) -> None:
    offsets = [0]
    with open(path.with_suffix(".f16"), "wb") as out:
        for i in tqdm(range(len(speech)), desc="phonetic features", unit="utt", mininterval=2.0):
            samples = torch.from_numpy(speech.samples(i))
            row = encoder(samples[: len(samples) // HOP * HOP][None].to(encoder.stem.weight.device))[0]
            out.write(row.cpu().numpy().astype(np.float16).tobytes())
            offsets.append(offsets[-1] + len(row))
    np.save(path.with_suffix(".npy"), np.asarray(offsets))
