"""The goal lines of our specification, each judged by the measured figures alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import machines as results_machines

Results = dict[str, Any]
LONG, SIGHT, PLAIN = "compressed window=50 group=10 text=0", "compressed window=50 group=10 text=30", "baseline"
DELAY, NESTED = (f"qtts strategy={name} codebooks=8 delay=1" for name in ("delay", "hierarchical"))
LEARNED, RANDOM = "dcar chunk_range=2,3,4", "dcar chunk_range=random:2,3,4"


@dataclass(frozen=True)
class Goal:
    """``value(results)`` is the measured figure, met when ``sign * value >= sign * bound``; ``interval(results)`` its
    95 %."""

    what: str
    bound: float
    higher: bool
    value: Callable[[Results], float]
    digits: int = 2
    interval: Callable[[Results], list[float]] | None = None


def find_row(results: Results, section: str, start: str) -> dict[str, Any]:
    """The row of a section with this label, else the first whose label goes on from it with another option."""
    rows = results[section]["rows"]
    return rows[start] if start in rows else next(row for label, row in rows.items() if label.startswith(start + " "))


def comparable(results: Results, *sections: str) -> bool:
    """Whether the rows of these sections may be joined: all are there, measured with one checkpoint, or with two that
    differ only in weights that no speed follows from (``NanoStack.pace``)."""
    found = [results.get(section, {}).get("conditions", {}) for section in sections]
    return any(all(c.get(key) for c in found) and len({c[key] for c in found}) == 1 for key in ("checkpoint", "pace"))


def _figure(section: str, start: str, key: str, scale: float = 1.0) -> Callable[[Results], float]:
    return lambda r: scale * find_row(r, section, start)[key]


def _over(section: str, start: str, key: str, base: str = PLAIN) -> Callable[[Results], float]:
    return lambda r: find_row(r, section, start)[key] / find_row(r, section, base)[key]


def _points(what: str, bound: float, start: str) -> Goal:
    """WER above the baseline's on the same texts."""
    return Goal(
        f"{what}: WER above the baseline's, points",
        bound,
        False,
        _figure("evaluate", start, "wer_above_baseline", 100),
        interval=lambda r: [100 * end for end in find_row(r, "evaluate", start)["wer_above_baseline_interval"]],
    )


def _analysis(results: Results, name: str, label: str) -> dict[str, Any]:
    return results["analyses"]["rows"][name][label]


def _long(seconds: int) -> Callable[[Results], float]:
    """LM-RTF of the first so many seconds over the baseline's."""
    return lambda r: _analysis(r, "lengths", LONG)["at"][str(seconds)]["lm_rtf_over_baseline"]


GOALS = (
    Goal(
        "baseline: PocketSphinx WER over that of natural recordings of the same texts",
        1.6,
        False,
        _over("evaluate", PLAIN, "wer_recorded", "recordings"),
    ),
    Goal("baseline: share of runs cut at the limit, %", 2, False, _figure("evaluate", PLAIN, "truncated", 100)),
    Goal(
        "baseline: nearest of the prompt voices is the right one, %",
        80,
        True,
        _figure("evaluate", PLAIN, "nearest", 100),
    ),
    Goal("baseline: RTF", 0.5, False, _figure("bench", PLAIN, "rtf")),
    Goal("baseline: TTFA, s", 0.6, False, _figure("bench", PLAIN, "ttfa")),
    Goal("baseline: LM-RTF", 0.2, False, _figure("bench", PLAIN, "lm_rtf"), 3),
    Goal(
        "baseline: step time over transformers' generate", 0.75, False, lambda r: r["bench"]["peer"]["ours_over_peer"]
    ),
    Goal("tldr, patch 4: LM gain", 1.8, True, _figure("bench", "tldr patch_size=4", "lm_gain")),
    Goal("tldr, patch 8: LM gain", 2.4, True, _figure("bench", "tldr patch_size=8", "lm_gain")),
    Goal(
        "tldr, patch 4: the big model's KV of 12 s of speech over the baseline's",
        0.26,
        False,
        lambda r: (
            (
                find_row(r, "bench", "tldr patch_size=4")["kv_speech_12s"]
                - find_row(r, "bench", "tldr patch_size=4")["kv_small_12s"]
            )
            / find_row(r, "bench", PLAIN)["kv_speech_12s"]
        ),
        3,
    ),
    _points("tldr, patch 4", 1, "tldr patch_size=4"),
    Goal(
        "tldr, patch 4: SIM below the baseline's",
        0.01,
        False,
        _figure("evaluate", "tldr patch_size=4", "sim_above_baseline", -1),
        3,
    ),
    Goal("dcar, 2,3,4: LM gain", 2.4, True, _figure("bench", LEARNED, "lm_gain")),
    _points("dcar, 2,3,4", 0, LEARNED),
    Goal(
        "dcar, 2,3,4: WER below the random policy's, points",
        0.01,
        True,
        lambda r: 100 * (find_row(r, "evaluate", RANDOM)["wer"] - find_row(r, "evaluate", LEARNED)["wer"]),
    ),
    _points("qtts, delay (single is the baseline)", 3, DELAY),
    _points("qtts, hierarchical (single is the baseline)", 3, NESTED),
    *(
        _points(f"qtts, {name} with {books} books", 3, f"qtts strategy={name} codebooks={books} delay=1")
        for books in (4, 2)
        for name in ("delay", "hierarchical")
    ),
    # both over a run beside them
    Goal("qtts: hierarchical's LM-RTF over delay's", 1.4, True, _over("bench", DELAY, "lm_gain", NESTED)),
    Goal("codec, 8 codebooks: STOI", 0.94, True, _figure("codec", "8 books", "stoi"), 3),
    Goal("codec, 8 codebooks: PESQ wide band", 2.6, True, _figure("codec", "8 books", "pesq")),
    Goal("codec, 8 codebooks: similarity to the recording", 0.95, True, _figure("codec", "8 books", "sim"), 3),
    Goal(
        "compressed, 50 and 10: KV of 20 s of speech over the baseline's",
        0.35,
        False,
        _over("bench", LONG, "kv_speech_20s"),
    ),
    Goal(
        "compressed, 50 and 10: growth of KV a second over the baseline's",
        0.12,
        False,
        lambda r: (
            _analysis(r, "lengths", LONG)["kv_bytes_per_second"] / _analysis(r, "lengths", PLAIN)["kv_bytes_per_second"]
        ),
        3,
    ),
    Goal("compressed, 50 and 10: LM-RTF of 10 s over the baseline's", 1, False, _long(10)),
    Goal("compressed, 50 and 10: LM-RTF of 60 s over the baseline's", 1, False, _long(60)),
    Goal("compressed, 50 and 10: LM-RTF of 180 s over the baseline's", 1, False, _long(180)),
    _points("compressed, 50 and 10", 0, LONG),
    Goal(
        "compressed, 50 and 10: monotonicity above the baseline's",
        0,
        True,
        lambda r: _analysis(r, "alignment", LONG)["monotonicity"] - _analysis(r, "alignment", PLAIN)["monotonicity"],
        3,
    ),
    Goal(
        "compressed, a minute in one run: WER of the last third over the first's",
        1.3,
        False,
        lambda r: _analysis(r, "long form", LONG)["last_over_first"],
    ),
    Goal(
        "compressed, the same with 30 symbols of text in sight",
        1.3,
        False,
        lambda r: _analysis(r, "long form", SIGHT)["last_over_first"],
    ),
    Goal("ssd, tolerance 0.4: LM gain", 1.4, True, _figure("bench", "ssd tolerance=0.4 draft_length=3", "lm_gain")),
    Goal(
        "ssd, tolerance 0, auto: LM gain",
        1.15,
        True,
        _figure("bench", "ssd tolerance=0.0 draft_length=auto", "lm_gain"),
    ),
    _points("ssd, tolerance 0.4", 2, "ssd tolerance=0.4 draft_length=3"),
)


def render(results: Results) -> str:
    others = results_machines.elsewhere(results.get("bench", {}))
    lines = [
        "**Goals.** Each line of our specification, measured above; what misses is said. In brackets the 95 % interval of a "
        "change in WER, from pairs of the same texts."
        + " Where another machine's speeds are known too, they stand behind ours."
        * bool(others),
        "",
        "| goal | wanted | measured | |",
        "|---|---|---|---|",
    ]
    for goal in GOALS:
        value = _measured(goal, results)
        there = {name: _measured(goal, results | {"bench": section}) for name, section in others.items()}
        there = {name: other for name, other in there.items() if other not in (None, value)}
        shown = "" if value is None else f"{value:.{goal.digits}f}"
        if value is not None and goal.interval:
            low, high = goal.interval(results)
            shown += f" ({low:.{goal.digits}f} to {high:.{goal.digits}f})"
        shown = "; ".join([shown, *(f"{other:.{goal.digits}f} on {name}" for name, other in there.items())])
        verdict = "; ".join(_verdict(goal, each) for each in (value, *there.values()))
        lines.append(f"| {goal.what} | {'≥' if goal.higher else '≤'} {goal.bound:g} | {shown} | {verdict} |")
    return "\n".join(lines)


def _measured(goal: Goal, results: Results) -> float | None:
    try:
        return goal.value(results)
    except (KeyError, StopIteration, TypeError, ZeroDivisionError):  # a section, a row or a figure is missing
        return None


def _verdict(goal: Goal, value: float | None) -> str:
    sign = 1 if goal.higher else -1
    return "not measured" if value is None else "met" if sign * value >= sign * goal.bound else "**missed**"
