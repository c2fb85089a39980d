"""Several requests in one step on a tiny random stack: a record each, a table without ``--json``."""

import pytest

from tts_demo.cli.main import main
from tts_demo.measure import batch, speed
from tts_demo.measure.records import Records, Where
from tts_demo.measure.rows import Row


class Bench:
    """What ``batch.measure`` needs of ``speed.Bench``."""

    def __init__(self) -> None:
        self.records, self.asked, self.seed, self.setting = Records(), [], 0, "6 s, eager"

    def where_of(self, row: Row) -> Where:
        return Where("nano", "abc", "here", "float32", "2.11", "1234567")

    def batch(self, size: int, method: str, tokens: int) -> dict[str, float]:
        self.asked.append((method, size, tokens))
        return {"size": size, "lm_rtf_each": 0.25}


def test_each_row_is_measured_once_at_one_and_at_many_requests() -> None:
    bench = Bench()
    found = batch.measure(bench, 4, {"dcar", "qtts"})
    assert bench.asked == [("baseline", 1, 1), ("baseline", 4, 1), ("dcar", 1, 3), ("dcar", 4, 3)]
    assert [r["text"] for r in found[:2]] == ["1 requests, 6 s, eager", "4 requests, 6 s, eager"]
    assert found[3]["row"] == "dcar chunk_range=3" and found[3]["figures"]["speech_a_second"] == 4
    batch.measure(bench, 8, {"baseline"})
    assert bench.asked[4:] == [("baseline", 8, 1)] and len(bench.records.read()) == 5


@pytest.mark.slow
def test_bench_prints_them_without_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = "bench --shape nano --device cpu --seconds 0.5 --rounds 1 --methods baseline --batch 2"
    assert main(words.split()) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert "speech s a second, higher is better" in lines[0] and lines[-1].startswith("| `baseline` | 2 |")
    assert speed.KIND != batch.KIND
