"""``python -m tts_demo report``: the newest complete set of records -> ``checkpoints/nano/RESULTS.md``, the README's
small table and its plot. Figures get into the README this way only."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..config import UserError
from ..measure import analyses, codec, heads, speed
from ..measure.carry import REWEIGHTED
from ..measure.intervals import mean, rate
from ..measure.quality import NATURAL, TEACHER
from ..measure.records import RECORDS, ROOT, Records
from ..measure.rows import BASELINE, OTHER_PAIRS, Row, defaults
from ..measure.summary import (
    MARGIN,
    Results,
    changed,
    contenders,
    fastest_within,
    newest,
    on_shared_pairs,
    rescored,
    speed_table,
    trade_off,
)
from ..methods import METHODS
from . import goals, gpu, many, plot
from .markdown import Column, between, columns, plain, table
from .papers import papers
from .papers.sentences import sentences
from .papers.table import render as papers_tables

README, RESULTS = ROOT / "README.md", ROOT / "checkpoints" / "nano" / "RESULTS.md"
PLOT = "assets/quality-speed.svg"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def write(records: Path = RECORDS, results: Path = RESULTS, readme: Path | None = README) -> str:
    """Render everything; returns the sentence that says which set it was. readme None: the page and its plot alone."""
    runs, as_they_were = rescored(Records(records).read())
    found = newest(runs)
    tokens = found.speed["frames_per_step"].dropna()
    page = render(found, earlier(runs, found), gpu.section(runs), gpu.at_scale(runs, tokens))
    if as_they_were:
        page += f"\n{as_they_were} older records hold no transcript or text: their words count as they did then.\n"
    points = trade_off(found)
    if readme is None:
        results.write_text(page.replace(f"../../{PLOT}", f"{results.stem}.svg"), encoding="utf-8")
        results.with_suffix(".svg").write_text(plot.draw(points), encoding="utf-8")
        return conditions(found)
    results.write_text(page, encoding="utf-8")
    (readme.parent / PLOT).write_text(plot.draw(points), encoding="utf-8")
    before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
    readme.write_text(f"{before}{BEGIN}\n{summary(found)}\n{END}{rest.split(END)[1]}", encoding="utf-8")
    return conditions(found)


def summary(results: Results) -> str:
    """The small table with its conditions and the plot: what the README shows, and RESULTS.md too."""
    verdicts = [text for paper in papers() for text in sentences(paper, results, codec_table(results), readme=True)]
    parts = [small_table(results), conditions(results), " ".join(verdicts), f"![Word errors against speed]({PLOT})"]
    return "\n\n".join(filter(None, parts))


def small_table(results: Results) -> str:
    """Natural recordings, the teacher where it was measured, the baseline, every method at its defaults, and the
    fastest of the well measured settings that is understood as well."""
    both = results.quality.join(results.speed.drop(columns=results.quality.columns, errors="ignore"))
    rows = [(label.capitalize(), both.loc[label]) for label in (NATURAL, TEACHER) if label in both.index]
    rows += [(f"{row.method.title} (`{row.method.name}`)", both.loc[row.label]) for row in defaults()]
    if best := fastest_within(results):
        caption = f"Fastest of {len(contenders(results))} settings timed on one machine, within {MARGIN:g} points"
        caption += " of the baseline's errors (95 %), chosen on these runs"
        rows.append((f"{caption}: {described(best)}", both.loc[best]))
    return table("", columns("small").values(), rows)


def described(label: str) -> str:
    """'tldr patch_size=2' -> '`tldr`, patch size 2': the options that are not the defaults."""
    return ", ".join([f"`{label.split()[0]}`", *changed(label)])


def conditions(results: Results) -> str:
    w, ours = results.where, results.runs[results.runs["checkpoint"] != ""]
    rows = list(filter(None, [*(row.label for row in defaults()), fastest_within(results)]))  # of the small table
    base, texts = results.speed.loc[rows[0]], between(results.quality.loc[rows, "texts"])
    busy = f" at a load average of {base['load']:.1f}" if base.get("load", np.nan) == base.get("load") else ""
    return (
        f"Checkpoint {w['checkpoint']}, {w['dtype']}, until {ours['date'].max()[:10]}, commit "
        f"{ours['commit'].iloc[-1]}. {texts} texts a row, {between(results.quality.loc[rows, 'runs'])} runs, in "
        "natural and bundled voices, ± half of a 95 % interval; words by Whisper tiny.en, voices by Resemblyzer. "
        f"Speeds: on {w['machine']}, medians of {between(results.speed.loc[rows, 'rounds'])} rounds"
        f"{_spoken(results, rows)} beside the baseline, whose RTF is {base['rtf']:.2f}{busy}"
        f"{_elsewhere(results, rows)}{_reweighted(results.runs, rows)}. "
        f"{_always_began(results.runs, rows)}{_on_other_machines(results)}"
        f"KV: live bytes of speech ({1e-6 * base['kv_12s']:.1f} MB for the baseline)."
    )


def _spoken(results: Results, labels: Sequence[str]) -> str:
    """How many sentences, each in a voice of its own, the rounds said; older ones do not say which."""
    rounds = results.runs[(results.runs["kind"] == speed.KIND) & results.runs["row"].isin(labels)]
    said = rounds["said"].nunique() if "said" in rounds else 0
    return f" ({said} sentences and voices)" if said > 1 else ""


def _elsewhere(results: Results, labels: Sequence[str]) -> str:
    """Which of these rows have the gains of another machine."""
    of = {m: [f"`{row.split()[0]}`" for row in rows if row in labels] for m, rows in results.elsewhere.items()}
    return "".join(f"; of {' and '.join(methods)} on {machine}" for machine, methods in of.items() if methods)


def _on_other_machines(results: Results) -> str:
    """The default rows' gains on other machines: on a faster or slower one they are not the same."""
    labels, base, said = [row.label for row in defaults()], Row.of(BASELINE).label, ""
    for machine, rounds in results.others.items():
        there = speed_table(rounds)
        times = there.loc[base, "lm_rtf"] / results.speed.loc[base, "lm_rtf"]
        gains = ", ".join(f"`{x.split()[0]}` {there.loc[x, 'lm_gain']:.2f}" for x in labels if x != base)
        said += f"LM gains on {machine}, where the baseline's LM-RTF is {times:.1f} times this one's: {gains}"
        said += f"{_reweighted(rounds, labels)}. "
    return said


def _always_began(runs: pd.DataFrame, labels: Sequence[str]) -> str:
    """Whether any of these rows were timed when a row began every round, and the baseline found the decoder's code in
    the cache."""
    rounds = runs[(runs["kind"] == speed.KIND) & runs["row"].isin(labels)]
    if speed.BEGAN in rounds and rounds[speed.BEGAN].notna().all():
        return ""
    return (
        f"Timed at commit {rounds['commit'].iloc[-1]}, when rows always began, on a colder cache: times to first audio "
        "are too long and speed-ups of everything too low, by as much as the baseline's own row shows. "
    )


def _reweighted(runs: pd.DataFrame, labels: Sequence[str]) -> str:
    """Which of these rows were timed with earlier weights, where none of them decides the speed (measure/carry.py)."""
    rounds = runs[(runs["kind"] == speed.KIND) & runs["row"].isin(labels)]
    rows = rounds.loc[rounds[REWEIGHTED].notna(), "row"].unique() if REWEIGHTED in rounds else ()
    methods = " and ".join(f"`{row.split()[0]}`" for row in labels if row in rows)
    return f"; of {methods} with earlier weights of the same shapes" if methods else ""


def earlier(records: list[dict[str, Any]], now: Results) -> str:
    """What more training changed: WER of the default rows with these weights and with earlier ones."""
    sets, left = [now], records
    while left := [r for r in left if r["checkpoint"] != sets[-1].where["checkpoint"]]:
        try:
            sets.append(newest(left))
        except UserError:
            break
    labels, rows = [row.label for row in defaults()], []
    for s in sets:
        found = {f"{x}{end}": s.quality.loc[x, f"wer{end}"] for x in labels for end in ("", "_low", "_high")}
        rows.append((s.where["checkpoint"], found | {"texts": s.quality.loc[labels, "texts"].min()}))
    chosen = [columns("small")["texts"], *(Column(x, f"`{x}`", 100, 1, interval=True) for x in labels)]
    caption = "WER % of the same rows with these and earlier weights, newest first; texts: of the row with fewest.\n\n"
    return caption + table("checkpoint", chosen, rows) if len(sets) > 1 else ""


def render(results: Results, before: str = "", on_gpu: str = "", at_scale: Mapping[str, str] | None = None) -> str:
    """The whole page. before: table of earlier weights; on_gpu: section; at_scale: row -> sentence about it."""
    codec_rows = codec_table(results)
    sections = {
        "": summary(results).replace(f"({PLOT})", f"(../../{PLOT})"),
        "Goals": "Speed-ups are of runs in turns; other times are those of this machine, busy as it was. In brackets "
        "95 % intervals; open: the goal lies within, or there is none.\n\n" + goals.render(results, codec_rows),
        "Quality": "Every row speaks the first of the same texts; over the baseline: in pairs of the same text, seed "
        "and voice, resampled by text. WER: lower is better; DistilMOS, DNSMOS and SIM: higher."
        + _one_draw(results)
        + "\n\n"
        + table("row", columns("quality").values(), ((f"`{label}`", row) for label, row in results.quality.iterrows())),
        "Speed and memory": _speed(results),
        "Methods together": _combined(results),
        "Codec": table("", columns("codec").values(), codec_rows.iterrows()) if len(codec_rows) else "",
        "The papers' tables": "Models, data, judges and machines differ: compare what a method changes, not the "
        "figures themselves.\n\n" + papers_tables(results, codec_rows, at_scale or {}),
        "Chunks and drafts": _choices(results),
        "Where the models look": _alignment(results),
        "Which head predicts a token best": _heads(results),
        "A minute and more in one run": _long(results),
        "Several requests in one step": many.batched(results.runs),
        "On a GPU": on_gpu,
        "Earlier weights": before,
    }
    measured = {title: body for title, body in sections.items() if body}
    absent = [title for title, body in sections.items() if not body and title != "Earlier weights"]
    note = f"\n\nNot measured in this set: {', '.join(absent)}." if absent else ""
    parts = [f"## {title}\n\n{body}" if title else body for title, body in measured.items()]
    return "# Results\n\n" + "\n\n".join(parts) + note + "\n"


def _one_draw(results: Results) -> str:
    """How the baseline did on the runs that all rows of few pairs are compared with: its luck there is in each of
    them."""
    base, pairs = Row.of(BASELINE).label, results.quality.get("pairs")
    few = [] if pairs is None else [*pairs.index[pairs == OTHER_PAIRS]]
    if len(few) < 2:
        return ""
    there, everywhere = (100 * t.loc[base, "wer"] for t in (on_shared_pairs(results, [base, *few]), results.quality))
    return (
        f" The {len(few)} rows of {OTHER_PAIRS} pairs share these, on which the baseline errs in {there:.1f} % of "
        f"words ({everywhere:.1f} % on all of its own): read what they add beside each other first, then beside zero."
    )


def _speed(results: Results) -> str:
    settings = sorted(of_kind(results, speed.KIND)["text"].unique(), key=lambda s: float(s.split()[0]))
    parts = ["LM gain: over a run of the baseline beside it; the baseline's own says how far to trust the others."]
    parts += [
        f"Rows without times were timed beside the baseline on another machine, {machine}."
        for machine in results.elsewhere
    ]
    base = results.speed.loc[Row.of(BASELINE).label]
    if (costs := base.filter(like="pass_of_").dropna()).size:
        passes = ", ".join(f"{name.rpartition('_')[2]} {times:.2f}" for name, times in costs.items())
        parts.append(
            f"A step of the baseline takes {1 / base['ceiling_share']:.1f} times as long as reading weights and cache. "
            f"What a pass over several tokens takes here, in passes over a single one: {passes}. So much is lost of "
            "what chunks and drafts gain where a pass is bound by reading weights, as on the papers' GPUs."
        )
    for setting in settings:
        rows = speed_table(results.runs, setting)
        ours = rows.drop(index=speed.PEER, errors="ignore")
        note = " (what is understood of it: A minute and more in one run)" if float(setting.split()[0]) >= 60 else ""
        lines = table("row", columns("speed").values(), ((f"`{label}`", row) for label, row in ours.iterrows()))
        parts.append(f"{setting}{note}:\n\n{lines}")
        if speed.PEER in rows.index:
            peer = rows.loc[speed.PEER]
            parts.append(
                f"transformers' own `generate` with the same weights: {peer['ms_per_step']:.2f} ms a token; a step of "
                f"our baseline takes {peer['ours_over_peer']:.2f} of that."
            )
    return "\n\n".join(parts)


def of_kind(results: Results, kind: str) -> pd.DataFrame:
    return results.runs[results.runs["kind"] == kind]


def codec_table(results: Results) -> pd.DataFrame:
    """Row -> figures of the codec alone, with its errors over the recordings' (times); intervals are by bootstrap over
    recordings."""
    runs = of_kind(results, codec.KIND)
    if not len(runs):
        return pd.DataFrame()
    keys = [c for c in ("distilmos", "stoi", "pesq", "sim") if c in runs]
    rows = runs.groupby("row", sort=False)[keys].mean()
    counts = runs.groupby("row")[["errors", "words"]].sum()
    rows["texts"], rows["wer"] = runs.groupby("row").size(), counts["errors"] / counts["words"]
    natural = runs[runs["row"] == codec.RECORDING].set_index("text")["errors"]
    for label, own in runs.groupby("row"):
        found = rate("times", own["errors"], own["text"].map(natural).fillna(0))
        for key in keys:
            found |= mean(key, own[key])
        rows.loc[label, list(found)] = found
    rows.loc[codec.RECORDING, ["stoi", "pesq", "sim"]] = np.nan  # compared with itself
    return rows.rename(index=lambda row: re.sub(r"\bbook", "codebook", row))  # records say book


def _choices(results: Results) -> str:
    """Of methods that take several tokens a step: how often each number was chosen."""
    rows, known = [], results.runs["stats"].notna() if "stats" in results.runs else []
    for label, runs in results.runs[known].groupby("row", sort=False) if len(known) else ():
        counts: Counter[str] = Counter()
        for stats in runs["stats"]:
            counts.update(next((sizes for name, sizes in stats.items() if name.endswith("sizes")), {}))
        if total := counts.total():
            average = sum(int(size) * times for size, times in counts.items()) / total
            rows.append([f"`{label}`", average, *(100 * counts[str(n)] / total for n in range(1, 9))])
    caption = "How many tokens a step took, % of steps.\n\n"
    return caption + plain(["row", "mean", *map(str, range(1, 9))], rows) if rows else ""


def _combined(results: Results) -> str:
    """Of methods that put two together, all timed on one machine: whether their gains multiply."""
    rows, gains = [], results.speed["lm_gain"].dropna()
    for method in METHODS.values():
        labels = [Row.of(kind).label for kind in (method, *map(METHODS.get, method.combines))]
        if method.combines and set(labels) <= set(gains.index) and results.timed_alike(labels):
            got, *each = (float(gains[label]) for label in labels)
            whole = float(np.prod(each))
            rows.append([f"`{labels[0]}`", got, " × ".join(f"{g:.2f}" for g in each), whole, 100 * got / whole])
    heads = ["row", "LM gain", "gains of its methods", "if they multiplied", "of that, %"]
    return plain(heads, rows) if rows else ""


def _alignment(results: Results) -> str:
    rows = [[f"`{label}`", *map(float, row)] for label, row in analyses.alignment(results.runs).iterrows()]
    caption = f"Replayed attention on {analyses.ALIGNED_TEXTS} texts, higher is better.\n\n"
    return caption + plain(["row", *analyses.SCORES], rows) if rows else ""


def _heads(results: Results) -> str:
    """DCAR, figure 4."""
    rows = []
    for kind, found in heads.table(results.runs).items():
        rows += [[kind, found["tokens"], "best of all, %", *(100 * share for share in found["best"])]]
        rows += [["", None, "likeliest token right, %", *(100 * share for share in found["right"])]]
        rows += [["", None, "cross-entropy, nats", *found["loss"]]]
    caption = (
        "Natural recordings under teacher forcing: each token is predicted 1 to 7 tokens ahead, by the base head and "
        "by DCAR's six others (section 3.2.3; in the paper the base head is the best in about 60 % of the cases).\n\n"
    )
    return caption + plain(["sounds", "tokens", "", *(f"{n} ahead" for n in range(1, 8))], rows) if rows else ""


def _long(results: Results) -> str:
    runs, rows = of_kind(results, analyses.LONG), []
    for (_, label), found in runs.groupby([runs["text"].str.startswith("all"), "row"], sort=True):
        counts = np.sum([np.array(t, dtype=float) for t in found["thirds"].dropna()], axis=0)
        if not np.ndim(counts):
            continue
        rates = 100 * counts[:, 0] / counts[:, 1]
        means = [float(found["seconds"].mean()), int(found["cut"].sum()), float(found["kv_peak"].max()) / 1e6]
        rates = [float(rates[i]) for i in (0, len(rates) // 2, -1)]
        rows.append([f"`{label}`", len(found), *means, *rates, rates[2] / max(rates[0], 1e-9)])
    heads = ["row", "texts", "seconds each", "cut", "KV peak MB", "WER % at the start", "in the middle", "at the end"]
    caption = "WER of the first, middle and last third of a minute, or fifth of five minutes.\n\n"
    return caption + plain([*heads, "end over start"], rows) if rows else ""
