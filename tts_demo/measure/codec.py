"""What the codec alone does to speech (QTTS, section 3.2 and Table 5): recordings against their decoded selves, for a
growing number of codebooks and for the first one with the refiner's guess of the rest, once as the recogniser reads it
and, where its entries belong to sounds, once as the recording's words tell it, which is how all training speech is
encoded.

Every figure compares with the same recording; errors and sound are also given of the recording itself, because no
decoded speech can be expected to be heard better.
"""

from typing import Any

import numpy as np
import torch

from .. import audio
from ..config import SAMPLE_RATE
from ..engine import Stack
from ..metrics import word_errors
from ..stacks.nano import NanoStack
from .judges import missing, similarity
from .quality import Evaluation, Measurement
from .records import Where
from .texts import Case

KIND, RECORDING = "codec", "recording"
CODEBOOK_COUNTS = (1, 2, 4, 8)
PACKAGES = {"STOI": "pystoi", "PESQ": "pesq"}


class Coded(Measurement):
    """A recording through the codec of a stack that has one."""

    kind, usual, label = KIND, 25.0, RECORDING

    def where(self, here: Where) -> Where:
        return here

    def figures(self, evaluation: Evaluation) -> dict[str, dict[str, Any]]:
        samples, hop = audio.read(str(self.case.recording)).samples, evaluation.stack.codec.config.hop
        whole = audio.level(samples[: len(samples) // hop * hop])
        rows = decode(evaluation.stack, whole.samples, self.case.text)
        return {row: compare(whole.samples, rows[row], self.case.text, evaluation.judge) for row in reversed(rows)}


def measurements(stack: Stack, recordings: list[Case]) -> list[Measurement]:
    """Of a stack without a codec of its own: none."""
    return [Coded(case) for case in recordings] if isinstance(stack, NanoStack) else []


@torch.no_grad()
def decode(stack: NanoStack, samples: np.ndarray, transcript: str) -> dict[str, np.ndarray]:
    """samples [N], a whole number of frames, and what is said in them -> row -> samples [N]: the recording, some
    codebooks, the first one refined in the recording's own voice."""
    codec, prompt = stack.codec, stack.encode_prompt(samples, SAMPLE_RATE)
    wave = torch.from_numpy(samples)[None].to(stack.device)
    codes, codebooks = stack.codes(wave), codec.config.codebooks
    decode_codes = lambda some: stack.waveform_decoder.whole(codec.quantizer.decode(some))[0].cpu().numpy()
    counts = [k for k in CODEBOOK_COUNTS if k <= codebooks]
    rows = {RECORDING: samples} | {f"{k} book{'s' * (k > 1)}": decode_codes(codes[..., :k]) for k in counts}
    refined = {"first book, refined": codes[..., :1], f"{codebooks} books, refined": codes}
    if codec.config.first_by_sound:
        refined["first book of the known words, refined"] = stack.codes(wave, transcript)[..., :1]
    for row, some in refined.items():
        vocoder = stack.vocoder(prompt, some.shape[-1])
        rows[row] = np.concatenate([vocoder.push(some[0]), vocoder.finish()])
    return rows


def compare(reference: np.ndarray, decoded: np.ndarray, text: str, judge: Any) -> dict[str, Any]:
    """Every figure of one recording."""
    absent, recognised = missing(PACKAGES), judge.transcribe(decoded)
    sim = similarity(judge.voice(reference), judge.voice(decoded))
    figures: dict[str, Any] = {"distilmos": judge.distilmos(decoded), "sim": sim}
    if "STOI" not in absent:
        from pystoi import stoi

        figures["stoi"] = float(stoi(reference, decoded, SAMPLE_RATE))
    if "PESQ" not in absent:
        from pesq import NoUtterancesError, pesq

        try:
            figures["pesq"] = float(pesq(SAMPLE_RATE, reference, decoded, "wb"))
        except NoUtterancesError:  # PESQ found no speech in it (a short or very quiet recording): it has no figure
            pass
    if recognised is not None:
        figures["errors"], figures["words"] = word_errors(text, recognised)
    return figures
