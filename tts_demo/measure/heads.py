"""Head preference on natural recordings (DCAR, section 3.2.3, figure 4), of a method that predicts several tokens of
one hidden state: under teacher forcing, which of its heads predicts a token best, for all tokens and for each kind of
sound. Records hold sums, so that they add up."""

from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from .. import audio, checkpoints
from ..config import SAMPLE_RATE
from ..methods import METHODS
from ..methods.base import Method
from ..stacks.nano import NanoStack
from ..text import sentences
from ..text.symbols import IDS, VOWELS
from .quality import Evaluation, Measurement
from .rows import Row
from .texts import Case

KIND = "heads"
ALL = "all tokens"
SOUNDS = {
    "vowels": "".join(VOWELS),
    "plosives and affricates": "pbtdkɡTʧʤ",
    "fricatives": "fvθðszʃʒh",
    "nasals and approximants": "mnŋlɹjw",
}
PAUSE = "pauses"
SCORES = ("best", "worst", "right", "loss")


class HeadAccuracy(Measurement):
    """A recording and its text."""

    kind, usual = KIND, 2.0

    def figures(self, evaluation: Evaluation) -> dict[str, dict[str, Any]]:
        return {self.label: preference(evaluation.stack, self.row.method, self.case)}


def measurements(stack: Any, recordings: list[Case]) -> list[Measurement]:
    """Of the bundled stack, for each method with heads whose weights it has; a combination has another's heads."""
    if not isinstance(stack, NanoStack) or stack.root is None:
        return []
    several = [method for method in METHODS.values() if method.predicted > 1 and not method.combines]
    have = [m for m in several if all(checkpoints.available(stack.root, name) for name in m.needs_weights)]
    # options play no part, so the row has those that every checkpoint can serve
    return [HeadAccuracy(case, Row.of(method, **method.neutral or {})) for method in have for case in recordings]


@torch.no_grad()
def preference(stack: NanoStack, method: type[Method], case: Case) -> dict[str, Any]:
    """Sums of ``head_scores`` of one recording, and how many tokens they are of, by kind of sound."""
    samples = audio.level(audio.read(str(case.recording)).samples).samples
    wave = torch.from_numpy(samples)[None].to(stack.device)
    codes = stack.codes(wave, case.text)[0, :, 0]
    prompt = stack.encode_prompt(samples, SAMPLE_RATE)  # its voice; without a transcript no speech stands in front
    predicted = stack.method(method.name).head_logits(stack.prefix(prompt, case.text), codes)
    first = method.predicted - 1
    tokens = codes[first:]
    found = {ALL: torch.ones_like(tokens, dtype=torch.bool)}
    if stack.codec.config.first_by_sound:
        phonemes = [n for n in stack.tokenize(case.text)[0].tolist() if n in sentences.sounds()]
        sounds = stack.codec.align(stack.codec.phonetic(stack.codec.pad(wave)), phonemes)
        found |= kinds(sounds[0, first:]) if sounds is not None else {}
    return {
        kind: {"tokens": int(chosen.sum())}
        | {name: sums.tolist() for name, sums in head_scores(predicted[:, chosen], tokens[chosen]).items()}
        for kind, chosen in found.items()
        if bool(chosen.any())
    }


def head_scores(logits: torch.Tensor, codes: torch.Tensor) -> dict[str, torch.Tensor]:
    """logits [P, N, V] of ``Method.head_logits`` and the tokens [N] they predict -> sums over these tokens, each [P]:
    how often each head has the lowest cross-entropy of all, how often the highest, how often its likeliest token is the
    right one, and its cross-entropy in nats."""
    losses = torch.stack([F.cross_entropy(row, codes, reduction="none") for row in logits])  # [P, N]
    count = lambda index: torch.bincount(index, minlength=len(losses)).double()
    return {
        "best": count(losses.argmin(0)),
        "worst": count(losses.argmax(0)),
        "right": (logits.argmax(-1) == codes).double().sum(1),
        "loss": losses.double().sum(1),
    }


def kinds(sounds: torch.Tensor) -> dict[str, torch.Tensor]:
    """The phoneme of each frame [N], 0 = a pause -> which frames are of each kind of sound."""
    members = {kind: torch.tensor([IDS[s] for s in symbols], device=sounds.device) for kind, symbols in SOUNDS.items()}
    return {kind: torch.isin(sounds, ids) for kind, ids in members.items()} | {PAUSE: sounds == 0}


def table(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Records -> kind of sound -> its tokens, the shares [7] at which each head is best, worst and right, and the mean
    cross-entropy [7] in nats."""
    sums: dict[str, dict[str, Any]] = {}
    found = runs[runs["kind"] == KIND]
    for kind in (ALL, *SOUNDS, PAUSE) if len(found) and ALL in found else ():
        parts = [part for part in found.get(kind, pd.Series(dtype=object)) if isinstance(part, dict)]
        if tokens := sum(part["tokens"] for part in parts):
            means = {name: np.sum([part[name] for part in parts], axis=0) / tokens for name in SCORES}
            sums[kind] = {"tokens": tokens} | {name: values.tolist() for name, values in means.items()}
    return sums
