"""Each paper's own main table beside our figures. A paper's numbers stand here once and go into its columns only; ours
come from results.json; the sentence under a table is worked out from the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..config import FRAME_RATE
from .goals import find_row

Results = dict[str, Any]
Figures = dict[str, float]
NEAR = 0.15  # speed-ups within this share of each other agree
POINTS = 1.0  # changes of WER within so many points of each other agree


@dataclass(frozen=True)
class Line:
    """``label``: our row; ``name``: the paper's; ``published``: its figures, by key of MEASURES. ``lacks``: the line of
    an ablation, by the labels of what the paper and what we compare it with."""

    label: str
    name: str
    published: Figures
    lacks: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Paper:
    """The first line is what the others are compared with; ``headline``: the line that the sentence is about."""

    title: str
    setting: str
    columns: tuple[str, ...]
    headline: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Measure:
    head: str
    digits: int
    ours: Callable[[Results, str], float]


def _of(section: str, key: str, scale: float = 1.0) -> Callable[[Results, str], float]:
    return lambda results, label: scale * find_row(results, section, label)[key]


MEASURES = {
    "rtf": Measure("RTF (ours: LM-RTF)", 3, _of("bench", "lm_rtf")),
    "gain": Measure("speed-up", 2, _of("bench", "lm_gain")),
    "step": Measure("tokens a step", 2, _of("bench", "frames_per_step")),
    "kv": Measure(
        "KV of 12 s over the baseline's",
        2,
        lambda r, label: (
            find_row(r, "bench", label)["kv_speech_12s"] / find_row(r, "bench", "baseline")["kv_speech_12s"]
        ),
    ),
    "first": Measure("first frame, ms", 1, _of("bench", "first_frame_ms")),
    "frame": Measure("ms a frame", 2, _of("bench", "lm_rtf", 1000 / FRAME_RATE)),
    "wer": Measure("WER %", 2, _of("evaluate", "wer", 100)),
    "sim": Measure("SIM", 3, _of("evaluate", "sim")),
}

WHOLE = ("tldr patch_size=4", "tldr-short patch_size=4")  # the paper's whole model, and ours trained like the ablations
PAPERS = (
    Paper(
        "TLDR",
        "CosyVoice3 0.5B at 25 tokens a second, A100, SeedTTS-EN; patches of 4 and two larger sizes, which the published "
        "text lost and we read as 6 and 8",
        ("rtf", "kv", "wer", "sim"),
        "tldr patch_size=4",
        (
            Line("baseline", "CosyVoice3", {"rtf": 0.605, "wer": 2.02, "sim": 0.691, "kv": 1.0}),
            Line("tldr patch_size=4", "patch 4", {"rtf": 0.336, "wer": 2.03, "sim": 0.684, "kv": 0.26}),
            Line("tldr patch_size=6", "larger", {"rtf": 0.278, "wer": 2.10, "sim": 0.686}),
            Line("tldr patch_size=8", "largest", {"rtf": 0.248, "wer": 2.49, "sim": 0.688}),
            Line("tldr-short patch_size=4", "patch 4, trained as briefly as the next four", {}),
            Line("tldr-no-lora patch_size=4", "no LoRA", {"wer": 7.66}, WHOLE),
            Line("tldr-no-speaker patch_size=4", "no speaker", {"wer": 1.77, "sim": 0.580}, WHOLE),
            Line("tldr-mean-pool patch_size=4", "mean pool", {"wer": 2.66}, WHOLE),
            Line("tldr-parallel patch_size=4", "parallel heads", {"wer": 4.85, "sim": 0.631}, WHOLE),
        ),
    ),
    Paper(
        "DCAR",
        "HuBERT tokens at 50 a second",
        ("gain", "step", "wer", "sim"),
        "dcar chunk_range=2,3,4",
        (
            Line("baseline", "FAR", {"gain": 1.0, "step": 1.0, "wer": 9.99, "sim": 0.885}),
            Line("dcar chunk_range=2", "fixed 2", {"gain": 1.89, "step": 2.0, "wer": 3.04, "sim": 0.886}),
            Line("dcar chunk_range=3", "fixed 3", {"gain": 2.83, "step": 3.0, "wer": 2.99, "sim": 0.885}),
            Line("dcar chunk_range=4", "fixed 4", {"gain": 3.60, "step": 4.0, "wer": 3.09, "sim": 0.885}),
            Line("dcar chunk_range=2,3", "[2,3]", {"gain": 2.39, "step": 2.78, "wer": 2.82, "sim": 0.885}),
            Line("dcar chunk_range=2,3,4", "[2,3,4]", {"gain": 2.61, "step": 3.08, "wer": 2.77, "sim": 0.885}),
            Line("dcar chunk_range=3,4", "[3,4]", {"wer": 2.84}),
            Line("dcar chunk_range=2,3,4,5", "[2,3,4,5]", {"wer": 3.04}),
            Line("dcar chunk_range=free", "free", {"wer": 3.30}),
        ),
    ),
    Paper(
        "QTTS",
        "8 codebooks at 25 frames a second, H20, input of 64",
        ("first", "frame", "wer", "sim"),
        "qtts strategy=delay codebooks=8 delay=1",
        (
            Line("qtts strategy=hierarchical codebooks=8 delay=1", "hierarchical, 200M", {"first": 7.0, "frame": 6.0}),
            Line("qtts strategy=delay codebooks=8 delay=1", "delay multihead, 120M", {"first": 4.0, "frame": 5.0}),
        ),
    ),
    Paper(
        "Compressed-to-fine",
        "VALL-E on EnCodec at 50 frames a second, LibriSpeech; no window in the refiner",
        ("wer", "sim"),
        "compressed window=50 group=10 text=0",
        (
            Line("baseline", "VALL-E", {"wer": 5.23, "sim": 0.5664}),
            Line("compressed window=50 group=0 text=0", "window 50 alone", {"wer": 4.07, "sim": 0.5742}),
            Line("compressed window=50 group=5 text=0", "50, G 5", {"wer": 3.30, "sim": 0.5798}),
            Line("compressed window=50 group=10 text=0", "50, G 10", {"wer": 2.87, "sim": 0.5776}),
            Line("compressed window=50 group=15 text=0", "50, G 15", {"wer": 3.84, "sim": 0.5662}),
            Line("compressed window=30 group=10 text=0", "30, G 10", {"wer": 2.95, "sim": 0.5741}),
            Line("compressed window=120 group=10 text=0", "120, G 10", {"wer": 4.66, "sim": 0.5727}),
        ),
    ),
    Paper(
        "SSD",
        "CosyVoice2 at 25 tokens a second, A100, draft of 3",
        ("rtf", "wer", "sim"),
        "ssd tolerance=0.4 draft_length=3",
        (
            Line("baseline", "CosyVoice2", {"rtf": 0.504, "wer": 3.67, "sim": 0.62}),
            Line("ssd tolerance=0.0 draft_length=3", "tolerance 0", {"rtf": 0.509, "wer": 6.34}),
            Line("ssd tolerance=0.1 draft_length=3", "tolerance 0.1", {"rtf": 0.444, "wer": 5.71}),
            Line("ssd tolerance=0.2 draft_length=3", "tolerance 0.2", {"rtf": 0.408, "wer": 6.08}),
            Line("ssd tolerance=0.3 draft_length=3", "tolerance 0.3", {"rtf": 0.386, "wer": 6.29}),
            Line("ssd tolerance=0.4 draft_length=3", "tolerance 0.4", {"rtf": 0.360, "wer": 5.70, "sim": 0.63}),
            Line("ssd-draft-alone", "draft alone", {"rtf": 0.222, "wer": 16.13, "sim": 0.61}),
        ),
    ),
)


def ours(results: Results, label: str) -> Figures:
    """Every measure of one of our rows that results.json holds."""
    found = {}
    for key, measure in MEASURES.items():
        try:
            found[key] = measure.ours(results, label)
        except (KeyError, StopIteration, TypeError):  # not measured
            continue
    return found


def render(results: Results) -> str:
    head = (
        "**The papers' tables.** Each paper's figures, as published, beside ours. Models, data, judges and machines differ, so "
        "compare what a method changes, not the figures themselves."
    )
    return "\n\n".join([head, *(_table(paper, results) for paper in PAPERS)])


def _table(paper: Paper, results: Results) -> str:
    heads = [f"{MEASURES[key].head}: {whose}" for key in paper.columns for whose in ("paper", "ours")]
    lines = [
        f"*{paper.title}* ({paper.setting})",
        "",
        "| paper | ours | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 2) + "|",
    ]
    for line in paper.lines:
        mine = ours(results, line.label)
        cells = [
            f"{side[key]:.{MEASURES[key].digits}f}" if key in side else ""
            for key in paper.columns
            for side in (line.published, mine)
        ]
        lines.append(f"| {line.name} | `{line.label}` | " + " | ".join(cells) + " |")
    without = ablations(paper, results)
    return "\n".join([*lines, "", sentence(paper, results), *(["", without] if without else [])])


def ablations(paper: Paper, results: Results) -> str:
    """What each ablation changes, in the paper and here, and whether in the same direction; "" where nothing was
    measured."""
    published, parts = {line.label: line.published for line in paper.lines}, []
    for line in paper.lines:
        theirs, mine = (
            ({key: row[key] - whole[key] for key in ("wer", "sim") if key in row and key in whole})
            for row, whole in (
                (line.published, published.get(line.lacks[0], {})),
                (ours(results, line.label), ours(results, line.lacks[1])),
            )
        )
        said = [
            f"{MEASURES[key].head} {theirs[key]:+.{MEASURES[key].digits}f} in the paper, {mine[key]:+.{MEASURES[key].digits}f} here "
            f"({'the same direction' if theirs[key] * mine[key] > 0 else 'the other direction'})"
            for key in theirs
            if key in mine
        ]
        parts += [f"{line.name}: {', '.join(said)}"] if said else []
    if not parts:
        return ""
    return f"What an ablation changes against the whole model, trained alike: {'; '.join(parts)}. Chance here: see the intervals above."


def sentence(paper: Paper, results: Results) -> str:
    """Whether our headline row changes against our first row what the paper's does against the paper's, and by how
    much."""
    first, line = paper.lines[0], next(each for each in paper.lines if each.label == paper.headline)
    published = _change(first.published, line.published)
    measured = _change(ours(results, first.label), ours(results, line.label))
    parts = []
    if "gain" in published and "gain" in measured:
        parts.append(_speed(published["gain"], measured["gain"]))
    if "wer" in published and "wer" in measured:
        row = find_row(results, "evaluate", line.label)  # where the first row is the baseline the same texts count
        change = 100 * row["wer_above_baseline"] if "wer_above_baseline" in row else measured["wer"]
        parts.append(_errors(published["wer"], change, row.get("wer_above_baseline_interval"), row["texts"]))
    return f"{line.name} against {first.name}: {'; '.join(parts)}." if parts else "Not measured here yet."


def _change(base: Figures, row: Figures) -> Figures:
    """gain: how many times as fast; wer: change in points."""
    change = {}
    if "gain" in row:
        change["gain"] = row["gain"] / base.get("gain", 1.0)
    for key in ("rtf", "frame"):
        if key in row and key in base and "gain" not in change:
            change["gain"] = base[key] / row[key]
    if "wer" in row and "wer" in base:
        change["wer"] = row["wer"] - base["wer"]
    return change


def _speed(published: float, measured: float) -> str:
    apart = measured / published - 1
    verdict = (
        "agrees"
        if abs(apart) <= NEAR
        else f"does not agree, ours is {abs(apart):.0%} {'higher' if apart > 0 else 'lower'}"
    )
    return f"speed-up {published:.2f} in the paper, {measured:.2f} here, which {verdict}"


def _errors(published: float, measured: float, interval: list[float] | None, texts: int) -> str:
    apart = measured - published
    half = 100 * (interval[1] - interval[0]) / 2 if interval else 0.0
    if abs(apart) <= POINTS:
        verdict = "agrees"
    elif abs(apart) <= half:
        verdict = f"{texts} texts cannot tell apart (± {half:.1f})"
    else:
        verdict = f"does not agree, ours is {abs(apart):.1f} points {'worse' if apart > 0 else 'better'}"
    return f"WER changes by {published:+.2f} points in the paper, by {measured:+.2f} here, which {verdict}"
