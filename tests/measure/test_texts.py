"""The evaluation set: its size and mixture, and recordings that are found where the texts say they are."""

from collections import Counter
from pathlib import Path

import pytest

from tts_demo.config import UserError
from tts_demo.measure import texts
from tts_demo.metrics import plain_words


def test_the_set_is_what_it_says() -> None:
    rows = texts.table("evaluation.tsv")
    kinds = Counter(row["kind"] for row in rows)
    assert kinds["question"] == 12 and kinds["greeting"] == 8 and kinds["number"] == 6 and kinds["everyday"] == 14
    assert kinds["arctic"] >= 30 and kinds["lj"] >= 16
    assert all(row["list"] in texts.LISTS for row in rows)
    assert all(len(row["text"].split()) <= 3 for row in rows if row["kind"] == "greeting")
    assert all(any(c.isdigit() for c in row["text"]) for row in rows if row["kind"] == "number")
    assert all(row["text"].endswith("?") for row in rows if row["kind"] == "question")
    prompts = {row["recording"].split("/")[1] for row in texts.table("voices.tsv")}
    assert not prompts & {row["id"] for row in rows}, "a prompt's own text must not be spoken in its voice"


def test_no_text_stands_twice_and_both_lists_hold_every_kind() -> None:
    rows = texts.table("evaluation.tsv")
    assert len({plain_words(row["text"]) for row in rows}) == len({row["id"] for row in rows}) == len(rows)
    kinds = {which: {row["kind"] for row in rows if row["list"] == which} for which in texts.LISTS}
    assert kinds["report"] == kinds["development"]
    assert len({case.kind for case in texts.cases("report", limit=10)}) >= 4, "the first few are a mixture"


def corpora(root: Path) -> Path:
    names = [row["recording"] for row in texts.table("voices.tsv")]
    ids = [row["id"] for row in texts.table("evaluation.tsv") if row["kind"] == "arctic"]
    for name in [*names, *(f"{speaker}/{i}" for speaker in ("slt", "bdl") for i in ids)]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / f"{name}.opus").touch()
    return root


def test_voices_take_turns_and_natural_ones_need_a_folder(tmp_path: Path) -> None:
    alone = texts.cases("report")
    assert len({case.voice.name for case in alone}) == 4 and all(case.voice.path.is_file() for case in alone)
    both = texts.cases("report", corpora(tmp_path), 16)
    assert Counter(case.voice.name for case in both).most_common()[-1][1] == 2 and len(both) == 16
    assert sum(case.voice.name in texts.unheard() for case in both) == 8


def test_every_other_case_is_in_a_natural_voice_and_seeds_change_a_texts_voice(tmp_path: Path) -> None:
    found = texts.cases("report", corpora(tmp_path), takes=3, seed=5)
    assert len(found) >= 200 and {case.seed for case in found} == {5, 6, 7}
    assert len({(case.id, case.seed) for case in found}) == len(found)
    natural = [case for case in found if case.voice.name in texts.unheard()]
    assert abs(len(natural) - len(found) / 2) <= 2 and len({case.voice.name for case in natural}) == 4
    assert all(len({case.voice.name for case in found if case.id == name}) == 3 for name in {c.id for c in found})
    assert found[: len(found) // 3] == texts.cases("report", tmp_path, seed=5), "more takes leave the first as it is"


def test_speed_is_measured_on_long_sentences_each_in_its_own_voice() -> None:
    said, spoken_in = zip(*texts.timed())
    assert len(set(said)) == len(set(spoken_in)) == texts.BUNDLED_VOICES
    assert all(len(text.split()) >= 22 for text in said), (
        "more than six seconds each: a timed run does not reach its end"
    )
    assert set(said) <= {case.text for case in texts.cases("report")}


def test_natural_voices_need_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--data"):
        texts.cases("report", tmp_path / "none")
    with pytest.raises(UserError, match="--list"):
        texts.cases("tuning")


def test_a_natural_recording_is_compared_with_another_of_its_speaker(tmp_path: Path) -> None:
    found = texts.natural("report", corpora(tmp_path))
    assert {case.recording.parent.name for case in found} == {"slt", "bdl"}
    assert all(case.recording.parent == case.voice.path.parent != case.recording for case in found)
    assert all(case.recording.stem == case.id for case in found)


def test_a_teacher_is_heard_in_many_voices(tmp_path: Path) -> None:
    lines = [f"k{voice:03d}-{i}|Some words.|1.0" for i in range(2) for voice in range(9)] + ["k100-0|Alone.|1.0"]
    (tmp_path / "metadata.csv").write_text("\n".join(lines) + "\n")
    for line in lines:
        (tmp_path / f"{line.split('|')[0]}.flac").touch()
    found = texts.teacher(tmp_path, 6)
    assert len({case.voice.name for case in found}) == 6 and all(case.voice.path != case.recording for case in found)
    assert len(texts.teacher(tmp_path, 100)) == 9, "a voice that is heard once has nothing to be compared with"
