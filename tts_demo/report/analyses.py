"""Section ``analyses`` of results.json for people: one small table each, left out where it was not measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .goals import comparable

Figures = dict[str, Any]


def trade_off(results: Figures) -> list[Figures]:
    """QTTS: quality against speed for strategy x codebooks x delay, joined from the rows of evaluate and bench
    where they were measured with the same weights."""
    if not comparable(results, "evaluate", "bench"):
        return []
    quality, speed = (results[section]["rows"] for section in ("evaluate", "bench"))
    keys = (
        ("wer", quality),
        ("per", quality),
        ("sim", quality),
        ("mos", quality),
        ("lm_rtf", speed),
        ("rtf", speed),
        ("ttfa", speed),
        ("first_frame_ms", speed),
        ("codes_per_second", speed),
    )
    return [
        row["options"] | {key: rows[label][key] for key, rows in keys if rows.get(label, {}).get(key) is not None}
        for label, row in speed.items()
        if row.get("method") == "qtts"
    ]


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Numbers with three digits that say something; None is an empty cell."""
    cell = lambda value: "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join([title, "", *lines, *("| " + " | ".join(map(cell, row)) + " |" for row in rows)])


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _guidance(f: Figures) -> str:
    return table(
        f"*DCAR, fixed chunk sizes*: {f['figure'].upper()} of each; the guidance range is {', '.join(map(str, f['best']))}.",
        ["size", *f["error_rates"]],
        [[f"{f['figure'].upper()} %", *map(_percent, f["error_rates"].values())]],
    )


def _chunks(f: Figures) -> str:
    sizes = [str(size) for size in range(1, 8)]
    rows = [
        [label, each["mean"], _percent(each["policy_share_of_time"])]
        + [_percent(each["sizes"].get(size, 0) / sum(each["sizes"].values())) for size in sizes]
        for label, each in f.items()
    ]
    return table(
        "*DCAR, chunk sizes chosen*, % of steps", ["setting", "mean", "policy's share of LM time %", *sizes], rows
    )


def _heads(f: Figures) -> str:
    rows = [
        [name, *map(scale, f[key])]
        for name, key, scale in (
            ("best, %", "best", _percent),
            ("worst, %", "worst", _percent),
            ("cross-entropy", "loss", float),
        )
    ]
    return table(
        f"*DCAR, which head predicts a position best* (0 = the base head), {f['positions']} positions of {f['recordings']} "
        f"recordings, teacher-forced",
        ["head", *map(str, range(len(f["best"])))],
        rows,
    )


def _alignment(f: Figures) -> str:
    rows = [
        [label, each["diagonality"], each["monotonicity"], each["coverage"], each["runs"]] for label, each in f.items()
    ]
    return table(
        "*Alignment of speech and text* (higher is better)",
        ["setting", "diagonality", "monotonicity", "coverage", "runs"],
        rows,
    )


def _refiner(f: Figures) -> str:
    rows = [
        [
            label,
            _percent(each.get("wer")),
            _percent(each.get("per")),
            each.get("sim"),
            each.get("mos"),
            each.get("ms_per_second"),
        ]
        for label, each in f.items()
    ]
    return table(
        "*The refiner's attention window*: the same codes refined",
        ["window", "WER %", "PER %", "SIM", "MOS", "ms a second of audio"],
        rows,
    )


def _finer(f: Figures) -> str:
    rows = [
        [label, _percent(each.get("wer")), _percent(each.get("per")), each.get("sim"), each.get("mos")]
        for label, each in f.items()
    ]
    return table(
        f"*What QTTS's finer books are worth*: the same codes of {next(iter(f.values()))['runs']} texts, decoded in three ways",
        ["codes", "WER %", "PER %", "SIM", "MOS"],
        rows,
    )


def _long_form(f: Figures) -> str:
    rows = [
        [
            label,
            each["runs"],
            sum(each["seconds"]) / len(each["seconds"]),
            each["truncated"],
            _percent(each.get("wer")),
            *(map(_percent, each.get("wer_of_thirds", (None,) * 3))),
            each.get("last_over_first"),
            each["kv_peak"] / 1e6,
        ]
        for label, each in f.items()
    ]
    return table(
        "*A minute and more in one run*, WER of the thirds",
        [
            "setting",
            "paragraphs",
            "seconds each",
            "cut",
            "WER %",
            "first",
            "middle",
            "last",
            "last over first",
            "KV peak MB",
        ],
        rows,
    )


def _lengths(f: Figures) -> str:
    seconds = list(next(iter(f.values()))["at"])
    rows = [
        [
            label,
            *(
                each["at"][s][key] * scale
                for key, scale in (("lm_rtf", 1), ("lm_rtf_over_baseline", 1), ("kv_bytes", 1e-6))
                for s in seconds
            ),
            each["kv_bytes_per_second"] / 1e6,
        ]
        for label, each in f.items()
    ]
    return table(
        "*As speech gets longer*; over the baseline: in the same round, median",
        [
            "setting",
            *(f"LM-RTF {s} s" for s in seconds),
            *(f"over the baseline's {s} s" for s in seconds),
            *(f"KV MB {s} s" for s in seconds),
            "KV MB a second",
        ],
        rows,
    )


def _draft(f: Figures) -> str:
    passes = table(
        f"*SSD, cost of a pass over n tokens, their laws and the verdict*, between passes of the draft as in a run; one of those, with "
        f"drawing, costs {f['draft_ms']:.2f} ms",
        ["n", *f["pass_ms"]],
        [["ms", *f["pass_ms"].values()]],
    )
    rows = [
        [t, each["rate"], each["best"], each["gain"], each.get("gain_if_even")] for t, each in f["tolerances"].items()
    ]
    return (
        passes
        + "\n\n"
        + table(
            "*SSD, the draft length these costs imply* (0 = do not draft), and the gain there would be if a pass "
            "over n tokens cost what one over one does",
            ["tolerance", "a token is accepted", "best length", "gain it implies", "gain if it cost the same"],
            rows,
        )
    )


def _semantic(f: Figures) -> str:
    rows = [
        [
            label,
            _percent(each["phoneme_error"]),
            each["perplexity"],
            f"`{each['made_by'].split(' (')[0]}`" if label != "the published codec" else "see its card",
        ]
        for label, each in f.items()
    ]
    return table(
        f"*QTTS, the semantic loss on the first codebook*: share of {next(iter(f.values()))['frames']} held-out frames whose "
        f"phoneme a small probe gets wrong (lower is better)",
        ["codec", "phoneme error %", "perplexity of the codes", "trained by"],
        rows,
    )


def _trade(rows: list[Figures]) -> str:
    keys = ("strategy", "codebooks", "delay", "lm_rtf", "first_frame_ms", "codes_per_second", "wer", "sim", "mos")
    heads = ["strategy", "codebooks", "delay", "LM-RTF", "first frame ms", "codes a second", "WER %", "SIM", "MOS"]
    return table(
        "*QTTS, quality against speed*",
        heads,
        [[_percent(row.get(k)) if k == "wer" else row.get(k) for k in keys] for row in rows],
    )


SECTIONS: dict[str, Callable[[Any], str]] = {
    "guidance": _guidance,
    "chunks": _chunks,
    "heads": _heads,
    "semantic loss": _semantic,
    "qtts trade-off": _trade,
    "finer books": _finer,
    "alignment": _alignment,
    "lengths": _lengths,
    "long form": _long_form,
    "refiner window": _refiner,
    "draft lengths": _draft,
}


def render(analyses: Figures) -> str:
    rows = analyses.get("rows", {})
    parts = [section(rows[name]) for name, section in SECTIONS.items() if rows.get(name)]
    return "\n\n".join(["**Analyses.** What the papers look into, on our stack.", *parts]) if parts else ""
