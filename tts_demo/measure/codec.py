"""What the codec alone does to speech (QTTS, section 3.2 and Table 5): recordings against their decoded selves, for a
growing number of codebooks and for the first one with the refiner's guess of the rest, once as the ears hear it and,
where its entries belong to sounds, once as the recording's words tell it, which is how all training speech is encoded.

Every figure compares with the same recording; errors and sound are also given of the recording itself, because no
decoded speech can be expected to be heard better.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from .. import audio
from ..config import SAMPLE_RATE
from ..stacks.nano import NanoStack
from .judges import similarity, word_errors
from .quality import Evaluation
from .records import key
from .texts import Case

KIND, RECORDING = "codec", "recording"
BOOKS = (1, 2, 4, 8)
SECONDS = 25.0  # a recording takes one core, about
PACKAGES = {"STOI": "pystoi", "PESQ": "pesq"}


def missing() -> dict[str, str]:
    """Figure -> what to install for it."""
    return {f: f"pip install {name}" for f, name in PACKAGES.items() if importlib.util.find_spec(name) is None}


def run(evaluation: Evaluation, cases: list[Case]) -> None:
    """Measure the recordings of ``cases`` that have no record yet. A stack without a codec of its own is passed by."""
    if not isinstance(evaluation.stack, NanoStack):
        return
    known = evaluation.records.keys()
    for case in tqdm(cases, desc="codec", unit="recording", disable=not cases):
        if key(KIND, RECORDING, case.id, 0, evaluation.where) in known:
            continue
        samples, hop = audio.read(str(case.recording)).samples, evaluation.stack.codec.config.hop
        whole = audio.level(samples[: len(samples) // hop * hop])
        decoded_as = decode(evaluation.stack, whole.samples, case.text)
        for row, decoded in reversed(decoded_as.items()):  # the recording last: it says that the others are there
            figures = compare(whole.samples, decoded, case.text, evaluation.judge)
            evaluation.records.append(KIND, row, case.id, 0, evaluation.where, figures)


@torch.no_grad()
def decode(stack: NanoStack, samples: np.ndarray, words: str) -> dict[str, np.ndarray]:
    """samples [N], a whole number of frames, and what is said in them -> row -> samples [N]: the recording, some books,
    the first one refined in the recording's own voice."""
    codec, prompt = stack.codec, stack.encode_prompt(samples, SAMPLE_RATE)
    wave = torch.from_numpy(samples)[None].to(stack.device)
    codes, books = stack.codes(wave), codec.config.codebooks
    rows = {RECORDING: samples} | {
        f"{k} book{'s' * (k > 1)}": codec.decode_codes(codes[..., :k])[0].cpu().numpy() for k in BOOKS if k <= books
    }
    refined = {"first book, refined": codes[..., :1], f"{books} books, refined": codes}
    if codec.config.first_by_sound:
        refined["first book of the known words, refined"] = stack.codes(wave, words)[..., :1]
    for row, some in refined.items():
        vocoder = stack.vocoder(prompt, some.shape[-1])
        rows[row] = np.concatenate([vocoder.push(some[0]), vocoder.finish()])
    return rows


def compare(reference: np.ndarray, decoded: np.ndarray, text: str, judge: Any) -> dict[str, Any]:
    """Every figure of one recording. What a figure compares with itself (si_sdr) is left out of the recording's own."""
    absent, heard = missing(), judge.words(decoded)
    figures: dict[str, Any] = {
        "distilmos": judge.distilmos(decoded),
        "sim": similarity(judge.voice(reference), judge.voice(decoded)),
    }
    if decoded is not reference:
        figures["si_sdr"] = si_sdr(reference, decoded)
    if "STOI" not in absent:
        from pystoi import stoi

        figures["stoi"] = float(stoi(reference, decoded, SAMPLE_RATE))
    if "PESQ" not in absent:
        from pesq import NoUtterancesError, pesq

        try:
            figures["pesq"] = float(pesq(SAMPLE_RATE, reference, decoded, "wb"))
        except NoUtterancesError:  # PESQ found no speech in it (a short or very quiet recording): it has no figure
            pass
    if heard is not None:
        figures["errors"], figures["words"] = word_errors(text, heard)
    return figures


def si_sdr(reference: np.ndarray, decoded: np.ndarray) -> float:
    """Scale-invariant signal-to-distortion ratio in dB."""
    reference, decoded = (x.astype(np.float64) - x.mean(dtype=np.float64) for x in (reference, decoded))
    target = reference * (decoded @ reference) / max(reference @ reference, 1e-12)
    noise = decoded - target
    return float(10 * np.log10(max(target @ target, 1e-12) / max(noise @ noise, 1e-12)))
