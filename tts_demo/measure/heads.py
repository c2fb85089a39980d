"""Head preference of DCAR on natural recordings (section 3.2.3, figure 4): under teacher forcing, which of the seven
heads predicts a token best, for all tokens and for each kind of sound. Records hold sums, so that they add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from .. import audio, checkpoints
from ..config import SAMPLE_RATE
from ..methods import METHODS
from ..methods.dcar.analysis import head_logits, head_scores
from ..methods.dcar.ranges import LONGEST
from ..stacks.nano import NanoStack
from ..text import sentences
from ..text.symbols import IDS, VOWELS
from .quality import Evaluation, Job
from .rows import Row
from .texts import Case

KIND = "heads"
DCAR = METHODS["dcar"]
ALL = "all tokens"
SOUNDS = {
    "vowels": "".join(VOWELS),
    "plosives and affricates": "pbtdkɡTʧʤ",
    "fricatives": "fvθðszʃʒh",
    "nasals and approximants": "mnŋlɹjw",
}
PAUSE = "pauses"
SCORES = ("best", "worst", "right", "loss")


class Heads(Job):
    """A recording and its text."""

    kind, usual = KIND, 2.0

    def figures(self, evaluation: Evaluation) -> dict[str, dict[str, Any]]:
        return {self.label: preference(evaluation.stack, self.case)}


def jobs(stack: Any, recordings: list[Case]) -> list[Job]:
    """Of the bundled stack, where it has DCAR's heads."""
    row = Row.of(DCAR, chunk_range="3")  # any row of these heads: the size plays no part
    if not isinstance(stack, NanoStack) or stack.root is None:
        return []
    has = all(checkpoints.available(stack.root, name) for name in DCAR.needs_weights)
    return [Heads(case, row) for case in recordings] if has else []


@torch.no_grad()
def preference(stack: NanoStack, case: Case) -> dict[str, Any]:
    """Sums of ``head_scores`` of one recording, and how many tokens they are of, by kind of sound."""
    samples = audio.level(audio.read(str(case.recording)).samples).samples
    wave = torch.from_numpy(samples)[None].to(stack.device)
    codes = stack.codes(wave, case.text)[0, :, 0]
    prompt = stack.encode_prompt(samples, SAMPLE_RATE)  # its voice; without a transcript no speech stands in front
    predicted = head_logits(stack.method(DCAR.name), stack.prefix(prompt, case.text), codes)
    tokens = codes[LONGEST - 1 :]
    found = {ALL: torch.ones_like(tokens, dtype=torch.bool)}
    if stack.codec.config.first_by_sound:
        spoken = [n for n in stack.tokenize(case.text)[0].tolist() if n in sentences.sounds()]
        sounds = stack.codec.align(stack.codec.phonetic(stack.codec.pad(wave)), spoken)
        found |= kinds(sounds[0, LONGEST - 1 :]) if sounds is not None else {}
    return {
        kind: {"tokens": int(chosen.sum())}
        | {name: sums.tolist() for name, sums in head_scores(predicted[:, chosen], tokens[chosen]).items()}
        for kind, chosen in found.items()
        if bool(chosen.any())
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
