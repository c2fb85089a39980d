"""Records summed up with pandas: one row of figures a setting, of one checkpoint, its times on one machine. A row that
was only timed elsewhere has no times, but what it gains over the baseline that ran beside it there.

Error rates pool errors over words; everything else of a run is a mean. Intervals are 95 %, by bootstrap over texts, and
what a row adds to the baseline is resampled in pairs of the same texts, because a hard text is hard for both. Those of
speed are over rounds (``of_rounds``).
"""

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..config import UserError
from ..methods import METHODS, find
from ..metrics import WORD_SCORE, word_errors
from . import batch, quality, requests, speed
from .intervals import bootstrap, mean, rate, ratio
from .records import RECORDS, UNTIMED, Records
from .rows import BASELINE, OTHER_PAIRS, Row, defaults
from .texts import table, unheard

SET = ("stack", "checkpoint", "dtype")  # what figures of one set share
PAIR = ("text", "seed", "voice")  # what two runs share that are compared
MEANS = ("distilmos", "dnsmos", "sim", "frames_per_step", "kv_peak", "cut", "acceptance", "seconds")
MEDIANS = (
    "lm_gain rtf_gain ttfa_share load lm_rtf rtf ttfa acoustics_rtf frames_per_step acceptance first_frame_ms "
    "ms_per_step ceiling_share bandwidth_gb_s kv_prefix kv_12s kv_20s kv_small_12s kv_small_20s ours_over_peer "
    "pass_of_2 pass_of_4 pass_of_8"
).split()
TIMES = (  # of ``MEDIANS``: what compares with the same machine's alone
    "load lm_rtf rtf ttfa acoustics_rtf first_frame_ms ms_per_step ceiling_share bandwidth_gb_s ours_over_peer "
    "pass_of_2 pass_of_4 pass_of_8"
).split()
NAMED = (batch.KIND, requests.KIND)  # kinds that are kept of every machine: their tables name it
MARGIN = 2.0  # points over the baseline's WER: what still counts as understood as well, if the interval lies below
TOO_MANY = 2.0  # times the baseline's errors: a setting that the picture leaves out, unless it is a method's default


@dataclass(frozen=True)
class Results:
    """``quality`` and ``speed``: figures by row label; ``runs``: all records of the set, one a line. where: ``SET`` and
    the machine of the times. others: machine -> rounds of the default rows where all were timed there too."""

    where: dict[str, str]
    runs: pd.DataFrame
    quality: pd.DataFrame
    speed: pd.DataFrame
    others: dict[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def elsewhere(self) -> dict[str, list[str]]:
        """Other machines -> the rows whose gains were measured there."""
        rounds = self.runs[(self.runs["kind"] == speed.KIND) & (self.runs["machine"] != self.where["machine"])]
        return {machine: list(rows.unique()) for machine, rows in rounds.groupby("machine")["row"]}

    def timed_alike(self, labels: Collection[str]) -> bool:
        """Whether the gains of these rows are of one machine: only then they compare with each other."""
        machines = {label: machine for machine, rows in self.elsewhere.items() for label in rows}
        return len({machines.get(label) for label in labels}) == 1


def newest(records: list[dict[str, Any]]) -> Results:
    """The newest complete set of one checkpoint: the baseline and every method at its defaults, spoken and timed
    (``_on_one_machine``). Raises UserError where there is none."""
    if not records:
        raise UserError("Nothing is measured yet: run 'python -m tts_demo evaluate' and 'python -m tts_demo bench'.")
    runs = frame(records)
    ours = runs[runs["checkpoint"] != ""]
    wanted, lacking = {row.label for row in defaults()}, ""
    order = ours.groupby(list(SET))["date"].max().sort_values(ascending=False).index
    for which in order:
        those = ours[(ours[list(SET)] == list(which)).all(axis=1)]
        machine, found = _on_one_machine(those, wanted)
        for kind, command in ((quality.KIND, "evaluate"), (speed.KIND, "bench")):
            if absent := wanted - set(found.loc[found["kind"] == kind, "row"]):
                lacking = lacking or f"{sorted(absent)[0]!r} with 'python -m tts_demo {command}'"
                break
        else:
            natural = runs[(runs["checkpoint"] == "") & (runs["kind"] == quality.KIND)]
            natural = natural.drop_duplicates(["row", "text"], keep="last")
            own = pd.concat([natural, _once(found)], ignore_index=True)
            where = dict(zip(SET, which)) | {"machine": machine}
            others = _on_other_machines(those, wanted, machine)
            return Results(where, own, quality_table(own[own["kind"] == quality.KIND]), speed_table(own), others)
    raise UserError(f"No set of measurements is complete: measure {lacking}.")


def _on_one_machine(runs: pd.DataFrame, wanted: Collection[str]) -> tuple[str, pd.DataFrame]:
    """The machine that most of the ``wanted`` rows were timed on (the latest of several), and the runs that count:
    speech and ``NAMED`` kinds of any machine, times of that one, and of rows that were timed only on others, the latest
    of them, their rounds without ``TIMES``."""
    rounds = runs[runs["kind"] == speed.KIND]
    timed = rounds[rounds["row"].isin(wanted)].groupby("machine").agg({"row": "nunique", "date": "max"})
    if not len(timed):
        return "", runs[runs["kind"].isin((*UNTIMED, *NAMED))]
    machine = timed.sort_values(["row", "date"]).index[-1]
    here = runs["kind"].isin((*UNTIMED, *NAMED)) | (runs["machine"] == machine)
    known = {Row.of(BASELINE).label, speed.PEER, *rounds.loc[rounds["machine"] == machine, "row"]}
    others = rounds[~rounds["row"].isin(known)]
    others = others[others["machine"] == others.groupby("row")["machine"].transform("last")]
    return machine, pd.concat([runs[here], others.drop(columns=TIMES, errors="ignore")]).sort_index()


def _on_other_machines(runs: pd.DataFrame, wanted: Collection[str], machine: str) -> dict[str, pd.DataFrame]:
    """Each other machine that all ``wanted`` rows were timed on -> their rounds there: a gain hangs on how much of a
    step is spent on what a method saves."""
    rounds = runs[(runs["kind"] == speed.KIND) & runs["row"].isin(wanted) & (runs["machine"] != machine)]
    return {other: here for other, here in rounds.groupby("machine") if here["row"].nunique() == len(wanted)}


def _once(runs: pd.DataFrame) -> pd.DataFrame:
    """``runs`` without duplicates: of speech that was judged more than once (by two evaluations) the last record."""
    keys = [name for name in PAIR if name in runs]
    return runs[(runs["kind"] != quality.KIND) | ~runs.duplicated(["kind", "row", *keys], keep="last")]


def rescored(records: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The records with word errors counted again by ``metrics.word_errors`` from the recorded transcript, and how many
    keep their old count because transcript or text is missing."""
    texts = {row["id"]: row["text"] for row in table("evaluation.tsv")}
    found, as_they_were = [], 0
    for record in records:
        figures, text = record["figures"], texts.get(record["text"])
        if record["kind"] == quality.KIND and "errors" in figures and figures.get("score") != WORD_SCORE:
            if text is not None and "heard" in figures:
                errors, words = word_errors(text, figures["heard"])
                record = record | {"figures": figures | {"errors": errors, "words": words, "score": WORD_SCORE}}
            else:
                as_they_were += 1
        found.append(record)
    return found, as_they_were


def frame(records: list[dict[str, Any]]) -> pd.DataFrame:
    """One line a record, oldest first: its fields and its figures as columns. The figure ``kind``, of the text, becomes
    ``text_kind``, because records have a field of that name."""
    flat = [
        {"text_kind" if k == "kind" else k: v for k, v in r["figures"].items()}
        | {k: v for k, v in r.items() if k != "figures"}
        for r in records
    ]
    return pd.DataFrame(flat).sort_values("date", kind="stable", ignore_index=True)


def quality_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Row -> texts, runs, wer with its interval, over (WER above the baseline's on the same texts and seeds, with its
    interval), natural_over and natural_pairs (the same in natural voices), times (the ratio of the two) and
    times_natural (over natural recordings of the same texts), sim_over and distilmos_over, and the means of MEANS."""
    columns = [c for c in (*MEANS, "errors", "words") if c in runs]
    by_text = runs.astype(dict.fromkeys(columns, float)).groupby(["row", "text"], sort=False)[columns].mean()
    of = lambda label: by_text.loc[label] if label in by_text.index else by_text.iloc[:0].droplevel("row")
    base, natural = of(Row.of(BASELINE).label), of(quality.NATURAL)
    rows, unheard_voices = {}, runs[in_natural_voices(runs)]
    for label in by_text.index.get_level_values("row").unique():
        texts = by_text.loc[label]
        row = {"texts": len(texts), "runs": int((runs["row"] == label).sum()), **texts[columns].mean().to_dict()}
        both = texts.merge(base, left_index=True, right_index=True, suffixes=("", "_base"))
        if "errors" in columns:
            recognised = texts.dropna(subset=["errors"])
            row |= rate("wer", recognised["errors"], recognised["words"])
            for name, some in (("over", runs), ("natural_over", unheard_voices)):
                if found := paired(some, label, Row.of(BASELINE).label):
                    row |= {name: found.value / 100, f"{name}_low": found.low / 100, f"{name}_high": found.high / 100}
                    row[name.replace("over", "pairs")] = found.pairs
            if len(pairs := both.dropna(subset=["errors", "errors_base"])):
                row |= rate("times", pairs["errors"], pairs["errors_base"])
            if len(read := natural["errors"].dropna().index.intersection(recognised.index)):
                row |= rate("times_natural", recognised.loc[read, "errors"], natural.loc[read, "errors"])
        for name in (name for name in ("sim", "distilmos") if name in columns):
            row |= mean(name, texts[name]) | mean(f"{name}_over", both[name] - both[f"{name}_base"])
        rows[label] = row
    return pd.DataFrame.from_dict(rows, orient="index").drop(columns=["errors", "words"], errors="ignore")


def on_shared_pairs(results: Results, labels: Sequence[str]) -> pd.DataFrame:
    """``quality_table`` over the texts, seeds and voices that every measured row of ``labels`` has, in the order of
    ``labels``; rows that were not measured are left out."""
    runs = results.runs[(results.runs["kind"] == quality.KIND) & results.runs["row"].isin(labels)]
    rows = runs.groupby([key for key in PAIR if key in runs], dropna=False)["row"].transform("nunique")
    found = quality_table(runs[rows == runs["row"].nunique()])
    return found.loc[[label for label in labels if label in found.index]]


def in_natural_voices(runs: pd.DataFrame) -> pd.Series:
    """Mask of the runs whose voice is natural and in no training set."""
    return runs["voice"].isin(unheard()) if "voice" in runs else pd.Series(False, index=runs.index)


@dataclass(frozen=True)
class Difference:
    """A row's figure less another row's, over ``pairs`` of text and seed, or a figure of speed over as many rounds,
    with its 95 % interval."""

    value: float
    low: float
    high: float
    pairs: int


def difference(results: Results, label: str, other: str) -> Difference | None:
    """Word errors of row ``label`` less those of row ``other``, in points, on the texts, seeds and voices of both; None
    where they share none. The bootstrap resamples texts, each with all its seeds, because runs of one text
    correlate."""
    runs = results.runs[results.runs["kind"] == quality.KIND]
    return paired(runs, label, other)


def paired(runs: pd.DataFrame, label: str, other: str) -> Difference | None:
    """``difference`` within the quality runs given."""
    if "errors" not in runs:
        return None
    counts, own_voice = ["errors", "words"], label in (quality.NATURAL, quality.TEACHER)
    keys = [key for key in PAIR if key in runs and not (own_voice and key == "voice")]
    mine, its = (runs.loc[runs["row"] == name, keys + counts].dropna() for name in (label, other))
    both = mine.merge(its.drop_duplicates(keys, keep="last"), on=keys, suffixes=("", "_other"))
    if not len(both):
        return None
    more = both["errors"] - both["errors_other"]
    by_text = pd.DataFrame({"more": more, "words": both["words"], "text": both["text"]}).groupby("text").sum()
    low, high = bootstrap(by_text["more"].to_numpy(float), by_text["words"].to_numpy(float))
    value = by_text["more"].sum() / max(by_text["words"].sum(), 1)
    return Difference(100 * value, 100 * low, 100 * high, len(both))


def of_rounds(results: Results, label: str, figure: str = "lm_gain", over: str = "") -> Difference | None:
    """A figure of speed, by default the language model's speed-up over the baseline of the same round: median over the
    rounds of the shortest length; with ``over``, over the same figure of that row. None where a row has fewer than two
    rounds, or the two were timed on different machines. Its interval: ``intervals.ratio``."""
    sides = [_rounds(results, name, figure) for name in (label, over) if name]
    if min(map(len, sides)) < 2 or (over and not results.timed_alike((label, over))):
        return None
    value = np.median(sides[0]) / (np.median(sides[1]) if over else 1)
    return Difference(float(value), *ratio(*sides), min(map(len, sides)))


def _rounds(results: Results, label: str, figure: str) -> np.ndarray:
    """A figure of a row in each round of the shortest length."""
    runs = results.runs
    if figure not in runs:
        return np.empty(0)
    rounds = runs[(runs["kind"] == speed.KIND) & (runs["row"] == label)].dropna(subset=[figure])
    return shortest(rounds)[figure].to_numpy(float)


def shortest(rounds: pd.DataFrame) -> pd.DataFrame:
    """Of each row the rounds of the shortest length."""
    seconds = rounds["text"].str.extract(r"^([\d.]+) s", expand=False).astype(float)
    return rounds[seconds == seconds.groupby(rounds["row"]).transform("min")]


def speed_table(runs: pd.DataFrame, setting: str | None = None) -> pd.DataFrame:
    """Row -> medians over rounds, their number, and the KV bytes over the baseline's (kv_12s_share, kv_20s_share, and
    kv_growth: that of a further second). setting: '60 s, eager'; None: the shortest there is of each row."""
    rounds = runs[runs["kind"] == speed.KIND]
    if not len(rounds):
        return pd.DataFrame()
    rounds = rounds[rounds["text"] == setting] if setting else shortest(rounds)
    columns = [c for c in MEDIANS if c in rounds]
    table = rounds.groupby("row", sort=False)[columns].median()
    table["rounds"] = rounds.groupby("row").size()
    if {"kv_12s", "kv_20s"} <= set(columns) and (label := Row.of(BASELINE).label) in table.index:
        base = table.loc[label]
        for length in ("12s", "20s"):
            table[f"kv_{length}_share"] = table[f"kv_{length}"] / base[f"kv_{length}"]
        if "kv_small_12s" in columns:
            table["kv_big_12s_share"] = (table["kv_12s"] - table["kv_small_12s"]) / base["kv_12s"]
        table["kv_growth"] = (table["kv_20s"] - table["kv_12s"]) / (base["kv_20s"] - base["kv_12s"])
    return table


@dataclass(frozen=True)
class Point:
    """A setting in the picture of speed against errors. time: the language model's over the baseline's beside it;
    errors: the baseline's WER and what the setting adds to it on the same texts, %."""

    label: str
    time: float
    errors: float
    texts: int

    @property
    def method(self) -> str:
        return self.label.split()[0]

    @property
    def short(self) -> str:
        return " ".join([self.method, *changed(self.label)])


def dials(label: str) -> dict[str, str]:
    """'tldr patch_size=2' -> {'patch_size': '2'}: those of a row's label that are not the defaults."""
    name, *words = label.split()
    usual = find(name).Options()
    return {dial: value for dial, value in (w.split("=", 1) for w in words) if str(getattr(usual, dial, None)) != value}


def changed(label: str) -> list[str]:
    """'tldr patch_size=2' -> ['patch size 2']"""
    return [f"{dial} {value}".replace("_", " ") for dial, value in dials(label).items()]


def trade_off(results: Results) -> list[Point]:
    """Points of the picture: every method at its defaults, and each other setting with quality and speed measured and
    at most ``TOO_MANY`` times the baseline's errors."""
    base = results.quality.loc[Row.of(BASELINE).label, "wer"]
    both = choices(results).dropna(subset=["over", "lm_gain"])
    chosen = (both["times"] <= TOO_MANY) | both.index.isin([row.label for row in defaults()])
    return [
        Point(str(label), 1 / row["lm_gain"], 100 * (base + row["over"]), int(row["texts"]))
        for label, row in both[chosen].iterrows()
    ]


def choices(results: Results) -> pd.DataFrame:
    """Settings with both quality and speed measured, of the methods that users can choose: without comparison models
    and without methods that records still name but the registry no longer has."""
    both = results.quality.join(results.speed[["lm_gain"]], how="inner")
    return both[[str(label).split()[0] in METHODS for label in both.index]]


def contenders(results: Results) -> pd.DataFrame:
    """Those of ``choices`` that were timed on one machine and have at least ``OTHER_PAIRS`` pairs with the baseline
    (fewer where none has as many): the best of many settings with few pairs each would be best by chance."""
    both = choices(results)
    both = both[[results.timed_alike((Row.of(BASELINE).label, label)) for label in both.index]]
    return both[both["pairs"] >= min(OTHER_PAIRS, both["pairs"].max())]


def fastest_within(results: Results) -> str | None:
    """The label of the fastest of the ``contenders`` whose errors over the baseline's lie below ``MARGIN`` points with
    their 95 % interval; None where that is the baseline itself."""
    both = contenders(results)
    fine = both.loc[both["over_high"] <= MARGIN / 100, "lm_gain"]
    best = str(fine.idxmax()) if len(fine) else ""
    gain = of_rounds(results, best) if best and best != Row.of(BASELINE).label else None
    return best if gain and gain.low > 1 else None


@functools.cache
def published(path: Path = RECORDS) -> list[Point]:
    """``trade_off`` of the bundled records, for the page; [] where no set is complete."""
    try:
        return trade_off(newest(Records(path).read()))
    except UserError:
        return []
