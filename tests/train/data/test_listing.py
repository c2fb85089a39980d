"""The list that results are measured with: held-out texts, enough voices, nothing a voice may have said in training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from tts_demo.config import SAMPLE_RATE, UserError
from tts_demo.measure.cases import read_cases
from tts_demo.train.data import listing
from tts_demo.train.data.corpora import is_held_out, read_corpora

SENTENCES = [
    "The floor was on the level of the river, and very damp.",
    "too short.",
    "Nobody in the whole village had ever heard of it.",
    "This sentence is read aloud by a voice of the corpus.",
    "lower case at the start is only half of some sentence.",
]


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    """Three speakers of LibriSpeech, two of them held out, and two voices that read the same prompts."""

    def corpus(name: str, rows: dict[str, tuple[str, float]]) -> None:
        folder = tmp_path / "speech" / name
        folder.mkdir(parents=True)
        for id_, (_, seconds) in rows.items():
            soundfile.write(
                folder / f"{id_}.wav", np.zeros(round(seconds * SAMPLE_RATE), dtype=np.float32), SAMPLE_RATE
            )
        (folder / "metadata.csv").write_text("".join(f"{i}|{text}|{s}\n" for i, (text, s) in rows.items()))

    corpus(
        "librispeech",
        {
            "32-1-0000": ("the prompt of one", 5.0),
            "32-1-0001": ("what one says", 3.0),
            "32-1-0002": ("far too long", 13.0),
            "669-1-0000": ("the prompt of two", 4.9),
            "669-1-0001": ("what two says", 3.0),
            "7-1-0000": ("trained on", 5.0),
        },
    )
    for voice in ("bdl", "slt"):
        corpus(
            voice,
            {
                "arctic_a0001": ("This sentence is read aloud by a voice of the corpus.", 4.0),
                "arctic_b0440": ("Held out in every voice.", 2.0),
                "arctic_b0441": ("And so is this one.", 2.0),
            },
        )
    return tmp_path / "speech"


def test_texts_are_recordings_of_unknown_voices_and_sentences_nobody_read(speech: Path, tmp_path: Path) -> None:
    out = tmp_path / "lists" / "list.txt"
    (tmp_path / "sentences.txt").write_text("\n".join(SENTENCES))
    listing.main(
        ["--data", str(speech), "--sentences", str(tmp_path / "sentences.txt"), "--count", "4", "-o", str(out)]
    )
    found = read_cases(str(out), None)
    assert [c.text for c in found] == ["what one says", "what two says", SENTENCES[0], SENTENCES[2]]
    assert [bool(c.recording) for c in found] == [True, True, False, False]
    assert all(Path(path).is_file() for c in found for path in (c.prompt, c.recording) if path)


def test_voices_begin_with_the_unknown_ones_and_are_never_a_held_out_take_of_a_known_one(speech: Path) -> None:
    prompts = listing.voices_of(read_corpora(speech), 8)
    assert [p.speaker for p in prompts] == ["librispeech-32", "librispeech-669", "bdl", "slt", "librispeech-7"]
    assert [p.id for p in prompts] == ["32-1-0000", "669-1-0000", "arctic_a0001", "arctic_a0001", "7-1-0000"]
    assert len(listing.voices_of(read_corpora(speech), 3)) == 3


def test_recordings_for_the_codec_are_held_out_and_have_other_speech_of_their_voice(speech: Path) -> None:
    found = listing.recordings(read_corpora(speech))
    assert [(Path(c.recording).parent.name, Path(c.recording).stem) for c in found] == [
        ("librispeech", "32-1-0001"),
        ("librispeech", "669-1-0001"),
        ("bdl", "arctic_b0440"),
        ("slt", "arctic_b0441"),
    ]
    for c in found:
        assert is_held_out(Path(c.recording).parent.name, Path(c.recording).stem)
        assert c.prompt != c.recording and Path(c.prompt).parent == Path(c.recording).parent


def test_too_few_sentences_are_said_so(speech: Path) -> None:
    with pytest.raises(UserError, match="100 texts are wanted, but 2 recordings and 2 sentences fit"):
        listing.cases(read_corpora(speech), SENTENCES)
