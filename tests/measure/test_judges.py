"""Judges: what they hear on speech we ship, and what they say of nothing."""

from pathlib import Path

import numpy as np
import pytest

from tts_demo import audio
from tts_demo.config import SAMPLE_RATE
from tts_demo.measure import judges
from tts_demo.measure.judges import Judges, missing, similarity


def test_similarity_is_a_cosine_and_absent_where_a_voice_is() -> None:
    a, b = np.eye(4)[0], np.eye(4)[1]
    assert similarity(a, a) == 1 and similarity(a, b) == 0 and similarity(a, None) is None


def test_silence_and_nothing_have_no_figure() -> None:
    judge = Judges(download=False)
    nothing = np.zeros(0, np.float32)
    assert judge.transcribe(nothing) in ("", None)
    assert judge.distilmos(nothing) is None and judge.dnsmos(nothing) is None and judge.voice(nothing) is None


def test_what_is_not_installed_has_no_figure_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges.importlib.util, "find_spec", lambda name: None)
    judge = Judges(download=False)
    noise = np.random.default_rng(0).normal(0, 0.1, SAMPLE_RATE).astype(np.float32)
    assert set(missing()) == {"WER", "DistilMOS", "DNSMOS", "SIM"} and "faster-whisper" in missing()["WER"]
    assert [judge.transcribe(noise), judge.distilmos(noise), judge.dnsmos(noise), judge.voice(noise)] == [None] * 4


def test_the_judges_that_are_here_judge_speech_alike_each_time() -> None:
    from tts_demo.voices import ASSETS

    samples = audio.read(sorted((ASSETS / "prompts").glob("*.wav"))[0]).samples
    judge, absent = Judges(download=False), missing()
    if "DistilMOS" not in absent:
        assert 1 < judge.distilmos(samples) == judge.distilmos(samples) < 5
    if "DNSMOS" not in absent:
        assert 1 < judge.dnsmos(samples) < 5
    if "SIM" not in absent:
        assert similarity(judge.voice(samples), judge.voice(samples)) == pytest.approx(1, abs=1e-5)
    if judge.transcribe(samples) is not None:
        assert judge.transcribe(samples) == judge.transcribe(samples) != ""


def test_no_more_is_heard_than_can_be_said_in_the_time() -> None:
    """Whisper's decoder falls into loops of two hundred words on two seconds of an odd sound."""
    judge = Judges(download=False)
    asked = {}

    class Whisper:
        def transcribe(self, samples: np.ndarray, **options: object) -> tuple[list[object], None]:
            asked.update(options)
            return [], None

    judge.__dict__["_whisper"] = Whisper()
    for seconds, most in ((0.5, 15), (2, 30), (20, 210), (90, 210)):
        judge.transcribe(np.zeros(int(seconds * SAMPLE_RATE), np.float32))
        assert asked["max_new_tokens"] <= most


def test_whisper_is_fetched_only_where_that_was_allowed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    asked = []

    def download(repository: str, local_files_only: bool) -> str:
        asked.append((repository, local_files_only))
        if local_files_only:
            raise LocalEntryNotFoundError("not here")
        return str(tmp_path)

    monkeypatch.setattr(judges.importlib.util, "find_spec", lambda name: None)  # nor is the package that ships it
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert judges.whisper_folder(download=False) is None and judges.whisper_folder(download=True) == tmp_path
    assert asked == [(judges.WHISPER, True), (judges.WHISPER, False)]


def test_long_recordings_are_cut_where_they_are_quiet() -> None:
    """Nothing is lost or heard twice, and no piece is longer than what Whisper hears at once."""
    rng, seconds = np.random.default_rng(0), 70
    samples = rng.standard_normal(seconds * SAMPLE_RATE).astype(np.float32)
    for second in (15, 29, 46, 60):
        samples[second * SAMPLE_RATE : second * SAMPLE_RATE + SAMPLE_RATE // 2] *= 0.01
    pieces = judges.pieces(samples)
    assert np.array_equal(np.concatenate([samples[piece] for piece in pieces]), samples)
    assert max(piece.stop - piece.start for piece in pieces) <= judges.LONGEST
    assert [piece.stop // SAMPLE_RATE for piece in pieces] == [15, 29, 46, 60, seconds]
    assert judges.pieces(samples[: 5 * SAMPLE_RATE]) == [slice(0, 5 * SAMPLE_RATE)]
