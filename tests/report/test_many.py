"""Tables of what many requests meet: made-up records, each machine by itself."""

from typing import Any

from measure.test_summary import BASE, record
from report.test_report import everything

from tts_demo.measure import batch, requests, summary
from tts_demo.measure.rows import Row
from tts_demo.methods import METHODS
from tts_demo.report import many, results

QTTS = Row.of(METHODS["qtts"]).label


def asked(row: str, first: float, **more: Any) -> dict[str, Any]:
    figures = {f"ttfa_p{p}": first + p / 1000 for p in requests.PERCENTILES}
    figures |= {f"throughput_{n}": 8.0 / n for n in requests.AT_ONCE} | {"requests": 200}
    return record(row, "200 requests, 6 s", figures, requests.KIND, **more)


def test_first_audio_of_many_requests_stands_under_the_papers_table() -> None:
    found = summary.newest([*everything(), asked(QTTS, 0.5), asked(QTTS, 0.3), asked(BASE, 0.2, machine="there")])
    page = results.render(found)
    under = page.split("*Several codebooks*")[1].split("*Compressed context*")[0]
    assert f"| `{QTTS}` | 0.350 | 0.395 | 0.399 | 8.00 | 4.00 | 2.00 |" in under, "the newest record of a row"
    assert "On here, 200 requests, 6 s of speech each" in under and "On there" in under and page.count("P99, s") == 2
    assert "first audio P50, s, lower is better" in under and "one request, higher is better" in under


def test_the_baseline_alone_makes_no_table_under_a_paper() -> None:
    found = summary.newest([*everything(), asked(BASE, 0.2)])
    assert "P99" not in results.render(found) and many.first_audio(found.runs, [QTTS]) == ""


def test_several_requests_in_a_step_have_a_table_ordered_by_row_and_number() -> None:
    def together(row: str, size: int, ms: float, **more: Any) -> dict[str, Any]:
        figures = {"size": size, "ms_per_step": ms, "speech_a_second": 20.0 * size / ms, "kv_bytes_live": 2e6 * size}
        return record(row, f"{size} requests, 6 s, eager", figures, batch.KIND, **more)

    labels = [row.label for row in batch.BATCHED]
    records = [together(labels[2], 8, 4.0), together(labels[0], 8, 5.0), together(labels[0], 1, 2.0)]
    found = summary.newest(
        [*everything(), *records, together(labels[0], 1, 2.5), together(labels[0], 4, 3, machine="B")]
    )
    shown = results.render(found).split("## Several requests in one step")[1].split("\n## ")[0]
    lines = [line for line in shown.splitlines() if line.startswith("| `")]
    assert lines == [
        "| `baseline` | 1 | 2.50 | 8.00 | 2.0 |",
        "| `baseline` | 8 | 5.00 | 32.00 | 16.0 |",
        "| `tldr patch_size=4` | 8 | 4.00 | 40.00 | 16.0 |",
        "| `baseline` | 4 | 3.00 | 26.67 | 8.0 |",
    ]
    assert "On here, 6 s, eager, one run each" in shown and "On B, 6 s, eager" in shown
    assert "Several requests in one step" in results.render(summary.newest(everything())).splitlines()[-1], (
        "not measured"
    )
