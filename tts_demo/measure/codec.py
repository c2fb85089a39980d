"""What the codec alone does to speech (QTTS, section 3.2 and Table 5): recordings against their decoded selves, for a
growing number of codebooks and for the first one with the refiner's guess of the rest.

``python -m tts_demo.measure.codec --list FILE`` takes the list that ``evaluate`` takes and uses its recordings: the
last column where there is one, else the voice prompts. Every figure compares with the same recording; WER is also given
for the recording itself, because no decoded speech can be expected to be heard better.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from .. import audio
from ..cli.settings import exit_code
from ..config import SAMPLE_RATE, UserError
from ..report import results
from . import judges

BOOKS = (1, 2, 4, 8)
REFINED = "first book, refined"
VOICE = "the voice in another recording"  # how like itself a voice is
RECORDING = "recording"
PACKAGES = {"STOI": "pystoi", "PESQ": "pesq"}
COLUMNS = (
    ("stoi", "STOI", 1),
    ("pesq", "PESQ-WB", 1),
    ("si_sdr", "SI-SDR dB", 1),
    ("log_mel", "log-mel", 1),
    ("sim", "SIM", 1),
    ("wer", "WER %", 100),
    ("per", "PER %", 100),
)


@dataclass(frozen=True)
class Speech:
    """One recording: samples [N] at 16 kHz, its words, and other speech of the same voice [N'] for the refiner."""

    samples: np.ndarray
    text: str
    voice: np.ndarray


def missing() -> dict[str, str]:
    """Figure -> what to install for it, for everything this table cannot measure here."""
    absent = {
        figure: f"pip install {name}" for figure, name in PACKAGES.items() if importlib.util.find_spec(name) is None
    }
    return absent | {f: fix for f, fix in judges.missing().items() if f in ("WER", "SIM")}


def codec_table(
    codec: Any, refiner: Any, speaker: Any, recordings: list[Speech], judge: judges.Judges
) -> dict[str, dict[str, float]]:
    """Row (``recording``, ``1 book`` ... and the refined one) -> its figures, means over recordings; error rates pool
    errors over words or phonemes. A figure whose package is absent is left out: ``missing`` says what to install."""
    if not recordings:
        raise UserError("The codec table needs at least one recording: give a list with --list.")
    records: dict[str, list[dict[str, Any]]] = {}
    for speech in recordings:
        whole = len(speech.samples) // codec.config.hop * codec.config.hop
        reference = audio.level(speech.samples[:whole]).samples
        truth = judge.voice(reference)
        for row, decoded in {RECORDING: reference, **decode(codec, refiner, speaker, reference, speech.voice)}.items():
            records.setdefault(row, []).append(_compare(reference, decoded, speech.text, truth, judge))
        if speech.voice is not speech.samples:
            records.setdefault(VOICE, []).append(
                {"sim": judges.similarity(truth, judge.voice(audio.level(speech.voice).samples))}
            )
    return {row: _summary(each) for row, each in records.items()}


@torch.no_grad()
def decode(codec: Any, refiner: Any, speaker: Any, samples: np.ndarray, voice: np.ndarray) -> dict[str, np.ndarray]:
    """samples [N], a whole number of frames -> row -> decoded samples [N]."""
    codes = codec.encode(torch.from_numpy(samples)[None])
    rows = {
        f"{k} book{'s' * (k > 1)}": codec.decode_codes(codes[..., :k]) for k in BOOKS if k <= codec.config.codebooks
    }
    prompt = torch.from_numpy(audio.level(voice).samples)[None]
    latent = codec.quantizer.decode(codec.encode(prompt))
    rows[REFINED] = codec.decode_latent(refiner(codes[..., 0], speaker(prompt), latent))
    return {row: decoded[0].numpy() for row, decoded in rows.items()}


def _compare(
    reference: np.ndarray, decoded: np.ndarray, text: str, truth: np.ndarray | None, judge: judges.Judges
) -> dict[str, Any]:
    """Every figure of one recording; ``words`` and ``phonemes`` are (errors, length)."""
    absent, record = missing(), {"log_mel": log_mel_distance(reference, decoded)}
    if decoded is not reference:  # the recording against itself is infinite
        record["si_sdr"] = si_sdr(reference, decoded)
    if "STOI" not in absent:
        from pystoi import stoi

        record["stoi"] = float(stoi(reference, decoded, SAMPLE_RATE))
    if "PESQ" not in absent:
        from pesq import NoUtterancesError, pesq

        try:
            record["pesq"] = float(pesq(SAMPLE_RATE, reference, decoded, "wb"))
        except NoUtterancesError:  # PESQ found no speech in it (a short or very quiet recording): it has no figure
            pass
    heard = judge.words(decoded)
    if heard is not None:
        record["words"] = judges.word_errors(text, heard)
    return record | {"sim": judges.similarity(truth, judge.voice(decoded))}


def si_sdr(reference: np.ndarray, decoded: np.ndarray) -> float:
    """Scale-invariant signal-to-distortion ratio in dB."""
    reference, decoded = (x.astype(np.float64) - x.mean(dtype=np.float64) for x in (reference, decoded))
    target = reference * (decoded @ reference) / max(reference @ reference, 1e-12)
    noise = decoded - target
    return float(10 * np.log10(max(target @ target, 1e-12) / max(noise @ noise, 1e-12)))


def log_mel_distance(reference: np.ndarray, decoded: np.ndarray) -> float:
    """Mean absolute difference of natural-log power mel spectra: 80 bands, 64 ms windows, 16 ms apart."""
    from torchaudio.functional import melscale_fbanks

    bank = melscale_fbanks(513, 0.0, SAMPLE_RATE / 2, 80, SAMPLE_RATE)
    window = torch.hann_window(1024)
    spectra = [
        torch.stft(torch.from_numpy(x), 1024, 256, window=window, return_complex=True).abs().square()
        for x in (reference, decoded)
    ]
    a, b = (torch.log((s.T @ bank).clamp(min=1e-5)) for s in spectra)
    return float(F.l1_loss(a, b))


def _summary(records: list[dict[str, Any]]) -> dict[str, float]:
    out: dict[str, float] = {"recordings": len(records)}
    for key in ("stoi", "pesq", "si_sdr", "log_mel", "sim"):
        values = [r[key] for r in records if r.get(key) is not None]
        if values:
            out[key] = float(np.mean(values))
    for name, key in (("wer", "words"), ("per", "phonemes")):
        counts = np.asarray([r[key] for r in records if r.get(key)], dtype=float)
        if len(counts):
            out[name] = float(counts[:, 0].sum() / max(counts[:, 1].sum(), 1))
    return out


def format_table(table: dict[str, dict[str, float]]) -> str:
    width = max(map(len, table))
    lines = [" " * width + "".join(f"{head:>11}" for _, head, _ in COLUMNS)]
    for row, figures in table.items():
        cells = [f"{figures[k] * scale:11.3f}" if k in figures else f"{'-':>11}" for k, _, scale in COLUMNS]
        lines.append(f"{row:<{width}}" + "".join(cells))
    return "\n".join(lines)


def read_recordings(path: str, limit: int | None) -> list[Speech]:
    """The recordings of an ``evaluate`` list. Without its last column, a line's prompt and its words are the
    recording."""
    from .cases import read_cases

    found = []
    for case in read_cases(path, limit):
        voice = audio.read(case.prompt).samples
        if case.recording:
            found.append(Speech(audio.read(case.recording).samples, case.text, voice))
        elif case.prompt_text:
            found.append(Speech(voice, case.prompt_text, voice))
    if not found:
        raise UserError(
            f"{path} names no recording with known words: write text|prompt.wav|words of the prompt|recording.wav."
        )
    return found


def main(words: list[str]) -> None:
    from .. import checkpoints

    parser = argparse.ArgumentParser(prog="python -m tts_demo.measure.codec", description=__doc__.splitlines()[0])
    parser.add_argument("--list", required=True, help="lines of text|prompt.wav|words of the prompt|recording.wav")
    parser.add_argument("--limit", type=int, help="only the first so many lines")
    parser.add_argument("--stack", default="nano", help="checkpoint to take codec, refiner and speaker encoder from")
    parser.add_argument("--json", help="also write the figures here")
    parser.add_argument("--keep", action="store_true", help="store the figures in results.json and in the README")
    args = parser.parse_args(words)
    root = checkpoints.resolve(args.stack)
    parts = [checkpoints.load_module(root, name) for name in ("codec", "refiner", "speaker")]
    recordings = read_recordings(args.list, args.limit)
    table = codec_table(*parts, recordings, judges.Judges())
    print(format_table(table))
    for figure, fix in missing().items():
        print(f"{figure} was not measured: {fix}.")
    result = {
        "command": "python -m tts_demo.measure.codec --list LIST" + (f" --limit {args.limit}" if args.limit else ""),
        "conditions": {"checkpoint": checkpoints.checkpoint_hash(root)},
        "recordings": len(recordings),
        "rows": table,
    }
    if args.keep:
        made_of = results.made_of(("codec", "refiner", "speaker"))
        results.keep("codec", result | {"made_of": dict.fromkeys(table, made_of)})
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
