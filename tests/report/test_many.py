"""Tables of what many requests meet: made-up records, each machine by itself."""

from __future__ import annotations

from typing import Any

from measure.test_summary import BASE, record
from report.test_report import everything

from tts_demo.measure import requests, summary
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
