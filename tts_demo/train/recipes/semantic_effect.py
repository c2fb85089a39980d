"""What the semantic loss does to the first codebook (QTTS, section 3.1): a small probe, trained alike on the codes of a
codec trained with that loss and of one trained without, says which phoneme is spoken at each frame.

``python -m tts_demo.train.recipes.semantic_effect --data SPEECH --with DIR --without DIR`` takes two checkpoints, for
instance of ``train codec --steps 320 --out DIR`` and the same with ``--set semantic=0``. ``--keep`` stores the figures.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ... import checkpoints
from ...cli.settings import exit_code
from ...codec.model import Codec
from ...report import results
from ...text.symbols import SYMBOLS
from ..data.alignment import Alignments, PhoneticCache
from ..data.corpora import PhonemeCache, SpeechCache
from ..data.load import load_recogniser
from ..data.sequences import tag_of

STEPS, BATCH, CROP, WIDTH, LR = 600, 48, 64, 128, 2e-3


class Probe(nn.Module):
    """Codes [B, F] -> phoneme logits [B, symbols, F], from a frame and its two neighbours."""

    def __init__(self, entries: int, symbols: int = len(SYMBOLS)) -> None:
        super().__init__()
        self.embedding = nn.Embedding(entries, WIDTH)
        self.hidden, self.out = nn.Conv1d(WIDTH, WIDTH, 3, padding=1), nn.Conv1d(WIDTH, symbols, 1)

    def forward(self, codes: Tensor) -> Tensor:
        return self.out(F.gelu(self.hidden(self.embedding(codes).transpose(1, 2))))


def probe_error(
    train: list[tuple[Tensor, Tensor]],
    test: list[tuple[Tensor, Tensor]],
    entries: int,
    seed: int = 0,
    steps: int = STEPS,
) -> float:
    """Share of held-out frames whose phoneme the probe gets wrong. An utterance is codes [F] and phoneme ids [F],
    longer than ``CROP``."""
    torch.manual_seed(seed)
    rng, probe = np.random.default_rng(seed), Probe(entries)
    optimiser = torch.optim.AdamW(probe.parameters(), lr=LR)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LR, total_steps=steps)
    share = np.asarray([len(codes) for codes, _ in train], dtype=float)
    for _ in range(steps):
        codes, labels = zip(*(_crop(rng, *train[i]) for i in rng.choice(len(train), BATCH, p=share / share.sum())))
        loss = F.cross_entropy(probe(torch.stack(codes)), torch.stack(labels))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with torch.inference_mode():
        wrong = [(probe(codes[None])[0].argmax(0) != labels) for codes, labels in test]
    return float(torch.cat(wrong).float().mean())


def _crop(rng: np.random.Generator, codes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    start = int(rng.integers(len(codes) - CROP + 1))
    return codes[start : start + CROP], labels[start : start + CROP]


@torch.no_grad()
def spoken(
    codec: Codec, speech: SpeechCache, phonemes: PhonemeCache, alignments: Alignments, chosen: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """First-book codes [F] and phoneme ids [F] of these utterances."""
    heard, found = PhoneticCache(speech, codec.phonetic, tag_of(codec.phonetic)), []
    for i in chosen:
        labels = torch.tensor(phonemes.ids[i])[torch.from_numpy(alignments.get(i)).long()]
        codes = codec.quantizer.books[0].encode(codec.semantic(torch.from_numpy(heard.get(i)).float()[None]))[0]
        count = min(len(codes), len(labels))
        found.append((codes[:count], labels[:count]))
    return found


def measure(data: str, work: Path, checkpoint: Path, codecs: dict[str, Path]) -> dict[str, Any]:
    """Name -> phoneme error of the probe, perplexity of the codes it reads and the command that trained the codec."""
    speech = SpeechCache(data, work / "cache")
    phonemes, recogniser, rows = PhonemeCache(speech), load_recogniser(checkpoint), {}
    alignments = Alignments(speech, phonemes, recogniser, tag_of(recogniser))
    usable = lambda i: (
        alignments.get(i) is not None and CROP < min(len(alignments.get(i)), int(50 * speech.seconds(i)) - 1)
    )
    train, test = speech.split(usable)
    for name, root in codecs.items():
        codec = checkpoints.load_module(root, "codec").eval()
        pairs = [spoken(codec, speech, phonemes, alignments, chosen) for chosen in (train, test)]
        codes = torch.cat([codes for codes, _ in pairs[1]])
        share = torch.bincount(codes).float() / len(codes)
        rows[name] = {
            "phoneme_error": probe_error(*pairs, codec.config.entries),
            "frames": len(codes),
            "perplexity": float(torch.exp(-(share * share.clamp(min=1e-9).log()).sum())),
            "made_by": checkpoints.how_it_was_made(root, "codec"),
        }
    return rows


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tts_demo.train.recipes.semantic_effect", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--data", required=True, help="folder of speech")
    parser.add_argument(
        "--with", dest="having", required=True, help="checkpoint of a codec trained with the semantic loss"
    )
    parser.add_argument("--without", required=True, help="checkpoint of one trained without it")
    parser.add_argument(
        "--stack", default="nano", help="checkpoint whose recogniser aligned the speech; its codec is probed too"
    )
    parser.add_argument("--work", default=".train", help="where caches are kept")
    parser.add_argument("--keep", action="store_true", help="store the figures in results.json and in the README")
    args = parser.parse_args(words)
    root = checkpoints.resolve(args.stack)
    rows = measure(
        args.data,
        Path(args.work),
        root,
        {"with the semantic loss": Path(args.having), "without it": Path(args.without), "the published codec": root},
    )
    if args.keep:
        results.keep(
            "analyses",
            {
                "command": "python -m tts_demo.train.recipes.semantic_effect --data SPEECH --with DIR --without DIR",
                "conditions": {"checkpoint": checkpoints.checkpoint_hash(root)},
                "rows": {"semantic loss": rows},
                "made_of": {"semantic loss": results.made_of(("codec", "recogniser"))},
            },
        )
    print(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(sys.argv[1:])))
