"""The command line: what it writes, and that every mistake ends with exit code 2 and one sentence."""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from tests.conftest import real_voice
from tts_demo import audio, checkpoints, engine, voices
from tts_demo.cli import main as cli
from tts_demo.cli.settings import pairs
from tts_demo.methods import METHODS
from tts_demo.text.sentences import encode

sys.path.insert(0, str(Path(__file__).parents[1] / "stacks"))
from nano_tiny import make_checkpoint, voice


@dataclass(frozen=True)
class Place:
    """A folder with every kind of file a person may bring, and a tiny checkpoint."""

    folder: Path
    stack: str

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("cli")
    stack = make_checkpoint(folder / "stack")

    def save(name: str, samples: np.ndarray, rate: int = 16000, **kw) -> None:
        soundfile.write(folder / name, samples, rate, **kw)

    save("voice.wav", real_voice())
    save("silent.wav", np.zeros(32000, np.float32))
    save("blip.wav", voice(0.2))
    save("mostly_silent.wav", np.concatenate([np.zeros(40000, np.float32), voice(0.3)]))
    save("ten_minutes.flac", np.zeros(16000 * 600, np.int16))
    save("eight_channels.wav", np.stack([real_voice()] * 8, 1))
    save("telephone_codec.wav", real_voice()[::2], 8000, subtype="GSM610")
    save("unknown_codec.aiff", voice(), format="AIFF", subtype="DWVW_16")
    save("telephone.wav", voice(2, 6000), 6000)
    for name, value in (("nan.wav", np.nan), ("infinite.wav", np.inf)):
        save(name, np.append(voice(), value).astype(np.float32), subtype="FLOAT")
    (folder / "empty.wav").write_bytes(b"")
    (folder / "text.wav").write_text("I am a text file.\n" * 40)
    (folder / "torn.wav").write_bytes((folder / "voice.wav").read_bytes()[:20])
    shutil.copytree(stack, folder / "corrupted")
    weights = folder / "corrupted" / "lm" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    shutil.copytree(stack, folder / "no_codec")
    shutil.rmtree(folder / "no_codec" / "codec")
    shutil.copytree(stack, folder / "no_manifest")
    (folder / "no_manifest" / "manifest.json").unlink()
    np.savez(folder / "wrong_codes.npz", codes=np.full((10, 8), 5000))
    np.savez(folder / "no_codes.npz", other=np.zeros(3))
    np.savez(folder / "objects.npz", codes=np.array([{}], dtype=object))
    return Place(folder, str(stack))


def run(*words: str) -> int:
    return cli.main(list(words))


def say(place: Place, text: str = "Hello there.", **changes: str | None) -> list[str]:
    """Words of a good ``say``; changes: option name -> other value, None = leave it out."""
    options = {
        "prompt": place["voice.wav"],
        "stack": place.stack,
        "output": place["out.wav"],
        "device": "cpu",
        "max_seconds": "1",
    } | changes
    words = ["say", text]
    for name, value in options.items():
        if value is not None:
            words += ["--" + name.replace("_", "-"), value]
    return words


# Name -> (words of the command as a function of the place, what the sentence must mention).
BAD = {
    "no such prompt": (lambda p: say(p, prompt=p["none.wav"]), "none.wav"),
    "empty file": (lambda p: say(p, prompt=p["empty.wav"]), "empty"),
    "text renamed to wav": (lambda p: say(p, prompt=p["text.wav"]), "WAV, MP3, M4A"),
    "torn wav": (lambda p: say(p, prompt=p["torn.wav"]), "WAV, MP3, M4A"),
    "folder as prompt": (lambda p: say(p, prompt=str(p.folder)), "folder"),
    "silent": (lambda p: say(p, prompt=p["silent.wav"]), "silent"),
    "0.2 seconds": (lambda p: say(p, prompt=p["blip.wav"]), "at least 1 s"),
    "mostly silent": (lambda p: say(p, prompt=p["mostly_silent.wav"]), "at least 1 s"),
    "ten minutes": (lambda p: say(p, prompt=p["ten_minutes.flac"]), "at most 5 minutes"),
    "unknown codec": (lambda p: say(p, prompt=p["unknown_codec.aiff"]), "WAV, MP3, M4A"),
    "6 kHz": (lambda p: say(p, prompt=p["telephone.wav"]), "16 kHz"),
    "NaN samples": (lambda p: say(p, prompt=p["nan.wav"]), "NaN"),
    "infinite samples": (lambda p: say(p, prompt=p["infinite.wav"]), "infinity"),
    "empty text": (lambda p: say(p, ""), "at least one word"),
    "blank text": (lambda p: say(p, " \n\t "), "at least one word"),
    "emoji only": (lambda p: say(p, "😀🎉"), "English words"),
    "punctuation only": (lambda p: say(p, "?! ..."), "English words"),
    "20,000 characters": (lambda p: say(p, "word " * 4000), "at most 5,000"),
    "Cyrillic": (lambda p: say(p, "Привет, мир"), "English only"),
    "Chinese": (lambda p: say(p, "你好 world"), "English only"),
    "an endless word": (lambda p: say(p, "bando" * 200), "put spaces"),
    "prompt text in Greek": (lambda p: say(p, prompt_text="καλημέρα"), "English only"),
    "unknown method": (lambda p: say(p, method="telepathy"), "baseline"),
    "unknown option": (lambda p: say(p, set="wings=2"), "wings"),
    "option without value": (lambda p: say(p, set="temperature"), "key=value"),
    "option given twice": (lambda p: [*say(p, set="top_k=3"), "--set", "top-k=4"], "'3' and '4'"),
    "option out of range": (lambda p: say(p, set="temperature=9"), "between 0 (greedy) and 2"),
    "option not a number": (lambda p: say(p, set="top_k=many"), "whole number"),
    "top_p of nothing": (lambda p: say(p, set="top_p=0"), "top_p"),
    "no seconds": (lambda p: say(p, max_seconds="0"), "--max-seconds"),
    "NaN seconds": (lambda p: say(p, max_seconds="nan"), "--max-seconds"),
    "negative seed": (lambda p: say(p, seed="-1"), "--seed"),
    "seed in words": (lambda p: say(p, seed="seven"), "seven"),
    "unknown device": (lambda p: say(p, device="abacus"), "cpu"),
    "a GPU that is not there": (lambda p: say(p, device="cuda:63"), "cpu"),
    "unknown precision": (lambda p: say(p, dtype="float3"), "float32"),
    "no such stack": (lambda p: say(p, stack="nowhere to be found"), "nano"),
    "corrupted checkpoint": (lambda p: say(p, stack=p["corrupted"]), "fetch it again"),
    "module missing": (lambda p: say(p, stack=p["no_codec"]), "train codec"),
    "manifest missing": (lambda p: say(p, stack=p["no_manifest"]), "manifest.json"),
    "output into no folder": (lambda p: say(p, output=p["none/out.wav"]), "no folder"),
    "output onto a folder": (lambda p: say(p, output=str(p.folder)), "folder"),
    "json into no folder": (lambda p: say(p, json=p["none/out.json"]), "no folder"),
    "no command": (lambda p: [], "COMMAND"),
    "unknown command": (lambda p: ["sing"], "say"),
    "unknown switch": (lambda p: say(p) + ["--loudly"], "--loudly"),
    "encode a text file": (lambda p: ["encode", p["text.wav"], "-o", p["c.npz"]], "WAV, MP3, M4A"),
    "decode nothing": (lambda p: ["decode", p["none.npz"], "-o", p["d.wav"]], "none.npz"),
    "decode a wav": (lambda p: ["decode", p["voice.wav"], "-o", p["d.wav"]], "tts_demo encode"),
    "decode other arrays": (lambda p: ["decode", p["no_codes.npz"], "-o", p["d.wav"]], "tts_demo encode"),
    "decode objects": (lambda p: ["decode", p["objects.npz"], "-o", p["d.wav"]], "tts_demo encode"),
    "decode foreign codes": (
        lambda p: ["decode", p["wrong_codes.npz"], "-o", p["d.wav"], "--stack", p.stack],
        "tts_demo encode",
    ),
    "say a transcript of nothing": (lambda p: say(p, prompt=None, prompt_text="So it goes."), "--prompt-text"),
    "say into mp3": (lambda p: say(p, output=p["out.mp3"]), "only wav"),
    "say into no format": (lambda p: say(p, output=p["out.xyz"]), "only wav"),
    "decode into mp3": (lambda p: ["decode", p["no_codes.npz"], "-o", p["d.mp3"]], "only wav"),
    "report into no folder": (lambda p: ["report", "-o", p["none/R.md"]], "no folder"),
    "report a text": (lambda p: ["report", "--records", p["text.wav"]], "holds no records"),
    "evaluate into a text": (lambda p: ["evaluate", "--records", p["text.wav"]], "holds no records"),
    "evaluate into no folder": (lambda p: ["evaluate", "--records", p["none/r.jsonl"]], "no folder"),
    "evaluate no text": (lambda p: ["evaluate", "--limit", "0"], "--limit"),
    "evaluate less than none": (lambda p: ["evaluate", "--limit", "-3"], "--limit"),
    "evaluate back in time": (lambda p: ["evaluate", "--minutes", "-1"], "--minutes"),
    "evaluate no methods": (lambda p: ["evaluate", "--methods", ""], "--methods is empty"),
    "evaluate an unknown option": (lambda p: ["evaluate", "--set", "nope=1"], "nope"),
    "evaluate an option of another": (
        lambda p: ["evaluate", "--methods", "baseline", "--set", "delay=1"],
        "they have temperature",
    ),
    "say a sampling setting misspelt": (lambda p: say(p, set="temprature=0.5"), "did you mean 'temperature'"),
    "say an option misspelt": (lambda p: say(p, method="tldr", set="patch_sise=4"), "did you mean 'patch_size'"),
    "say a method misspelt": (lambda p: say(p, method="tdlr"), "did you mean 'tldr'"),
    "evaluate a setting misspelt": (lambda p: ["evaluate", "--set", "temprature=0"], "did you mean 'temperature'"),
    "evaluate every dial at one value": (lambda p: ["evaluate", "--all", "--set", "patch_size=8"], "--all"),
    "bench every dial at one value": (lambda p: ["bench", "--all", "--set", "patch_size=8"], "--all"),
    "bench the first minutes of one method": (lambda p: ["bench", "--gpu", "--methods", "tldr"], "--methods has no"),
    "bench the first minutes in one process": (
        lambda p: ["bench", "--gpu", "--set", "temperature=0", "--batch", "4"],
        "--batch, --set have no effect with --gpu",
    ),
    "bench random weights of a folder": (
        lambda p: ["bench", "--shape", "nano", "--stack", p.stack],
        "--stack has no effect",
    ),
    "record runs with names": (lambda p: ["record", "runs", "--names", "Maya"], "--names has no effect"),
    "record voices by a method": (lambda p: ["record", "voices", p["voice.wav"], "--methods", "tldr"], "--methods"),
    "record runs in two voices": (lambda p: ["record", "runs", p["voice.wav"], p["voice.wav"]], "one source, not 2"),
    "train with the size of no pack": (lambda p: ["train", "ears", "--mib", "9"], "without --pack"),
    "train a handful of many steps": (
        lambda p: ["train", "ears", "--preset", "smoke", "--steps", "900"],
        "--preset has no effect with --steps",
    ),
    "train from a pack and a corpus": (
        lambda p: ["train", "decoder", "--packed", p["no.pack"], "--data", p["none"]],
        "--data has no effect with --packed",
    ),
    "bench into a text": (lambda p: ["bench", "--records", p["text.wav"]], "holds no records"),
    "bench back in time": (lambda p: ["bench", "--minutes", "-1"], "--minutes"),
    "bench fewer than no rounds": (lambda p: ["bench", "--rounds", "-1"], "--rounds"),
    "record a missing voice": (lambda p: ["record", "voices", p["none.wav"], "--stack", p["none"]], "none.wav"),
    "record nothing said": (lambda p: ["record", "runs", "--text", "", "--stack", p["none"]], "at least one word"),
    "record no page": (lambda p: ["record", "screenshots", "http://127.0.0.1:1"], "no page at"),
    "record backwards": (lambda p: ["record", "runs", "--max-seconds", "-3", "--stack", p["none"]], "--max-seconds"),
    "train fewer than no steps": (lambda p: ["train", "ears", "--data", p["none"], "--steps", "-5"], "--steps"),
    "train at a negative rate": (lambda p: ["train", "ears", "--data", p["none"], "--lr", "-1"], "--lr"),
    "train at no rate at all": (lambda p: ["train", "ears", "--data", p["none"], "--lr", "nan"], "--lr"),
    "train back in time": (lambda p: ["train", "ears", "--data", p["none"], "--minutes", "-1"], "--minutes"),
    "teach back in time": (lambda p: ["teach", p["text.wav"], "-o", p["t"], "--minutes", "-1"], "--minutes"),
    "train an unknown recipe": (lambda p: ["train", "soup", "--data", str(p.folder)], "codec"),
    "train on no data": (lambda p: ["train", "ears", "--data", p["none"], "--work", p["work"]], "metadata.csv"),
}


@pytest.mark.parametrize("case", BAD, ids=lambda c: c.replace(" ", "-"))
def test_every_mistake_ends_with_one_sentence(place: Place, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, mentions = BAD[case]
    code = run(*words(place))
    out, err = capsys.readouterr()
    assert code == 2 and out == ""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert mentions.lower() in lines[0].lower()
    assert lines[0].endswith(".") and len(lines[0]) < 400 and "Traceback" not in err
    assert not (place.folder / "out.wav").exists()  # nothing half-made is left behind


@pytest.fixture(scope="module")
def spoken(place: Place) -> dict:
    files = {"output": place["good.wav"], "json": place["good.json"], "attention": place["good.npz"]}
    words = say(place, "Hello there. Bye.", **files, set="temperature=1", seed="5", prompt_text="so it goes")
    assert run(*words) == 0
    return json.loads((place.folder / "good.json").read_text())


def test_say_reports_everything(place: Place, spoken: dict) -> None:
    for key in (
        "text method options seed device processor dtype stack checkpoint_hash cold audio_seconds lm_seconds "
        "total_seconds lm_rtf rtf ttfa_seconds frames backbone_steps frames_per_step kv_bytes_final kv_bytes_peak "
        "method_stats"
    ).split():
        assert key in spoken
    assert spoken["seed"] == 5 and spoken["sampling"]["temperature"] == 1 and spoken["prompt_text"] == "so it goes"
    assert 0 < spoken["audio_seconds"] <= 1 and spoken["kv_bytes_peak"] >= spoken["kv_bytes_final"] > 0
    assert spoken["rtf"] == pytest.approx(spoken["total_seconds"] / spoken["audio_seconds"])
    work = spoken["lm_seconds"] + spoken["vocoder_seconds"]
    assert spoken["work_rtf"] == pytest.approx(work / spoken["audio_seconds"]) and spoken["work_rtf"] > spoken["lm_rtf"]


def test_say_prints_two_figures_of_one_clock(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*say(place, json=place["clock.json"])) == 0
    made, (out, err) = json.loads((place.folder / "clock.json").read_text()), capsys.readouterr()
    assert f"RTF {made['work_rtf']:.3f} (LM-RTF {made['lm_rtf']:.3f})" in out
    slowed = made["total_seconds"] > 1.6 * (made["lm_seconds"] + made["vocoder_seconds"])
    assert (f"RTF is {made['rtf']:.3f}" in err) == slowed


def test_without_a_limit_there_is_room_for_the_cap_of_every_sentence(place: Place) -> None:
    assert run(*say(place, "777,777. 888,888.", json=place["ample.json"], max_seconds=None)) == 0
    ample = json.loads((place.folder / "ample.json").read_text())
    symbols = sum(len(encode(segment)[0]) for segment in ample["segments"])
    assert len(ample["segments"]) == 2 and ample["max_seconds"] >= (200 + 6.5 * symbols) / 50


def test_say_tells_of_a_limit(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*say(place, json=place["cut.json"], max_seconds="0.1")) == 0
    cut = json.loads((place.folder / "cut.json").read_text())
    (note,) = (n for n in cut["notes"] if "cut short" in n)
    assert cut["truncated"] and "length limit is 0.1 s" in note and note in capsys.readouterr().err.splitlines()


def test_a_transcript_of_more_than_was_kept_is_not_dropped_in_silence(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = real_voice()
    soundfile.write(place["long.wav"], np.tile(whole, 1 + 16000 * 20 // len(whole)), 16000)
    for words, told in (("so it goes", True), (None, False)):
        assert run(*say(place, prompt=place["long.wav"], prompt_text=words, json=place["long.json"])) == 0
        notes = json.loads((place.folder / "long.json").read_text())["notes"]
        assert any("most speech" in note for note in notes)
        assert any("transcript is not used" in note for note in notes) == told
        assert ("transcript is not used" in capsys.readouterr().err) == told


def test_say_writes_labelled_sound(place: Place, spoken: dict) -> None:
    samples, rate = soundfile.read(place["good.wav"])
    assert rate == 16000 and len(samples) == round(spoken["audio_seconds"] * rate)
    note = audio.read_provenance(place["good.wav"])
    assert note["synthetic"] and note["seed"] == 5 and note["checkpoint_hash"] == spoken["checkpoint_hash"]


def test_say_writes_the_attention_map(place: Place, spoken: dict) -> None:
    stored = np.load(place["good.npz"])
    layers, heads, steps, tokens = stored["weights"].shape
    assert (layers, heads) == (2, 4) and len(stored["text_tokens"]) == len(stored["text_words"]) == tokens
    assert len(stored["step_start_seconds"]) == len(stored["step_end_seconds"]) == steps >= spoken["frames"]


def test_the_same_seed_is_the_same_file(place: Place) -> None:
    for name, seed in (("a.wav", "5"), ("b.wav", "5"), ("c.wav", "6")):
        assert run(*say(place, output=place[name], seed=seed)) == 0
    a, b, c = (soundfile.read(place[n])[0] for n in ("a.wav", "b.wav", "c.wav"))
    assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_without_a_prompt_the_first_example_speaks(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(voices, "ASSETS", tmp_path)
    assert run(*say(place, prompt=None)) == 2
    assert "--prompt" in capsys.readouterr().err
    (tmp_path / "prompts").mkdir()
    soundfile.write(tmp_path / "prompts/one.wav", real_voice(), 16000)
    (tmp_path / "prompts/prompts.json").write_text(
        json.dumps([{"file": "one.wav", "name": "One", "text": "so it goes"}])
    )
    assert run(*say(place, prompt=None, output=place["example.wav"], json=place["example.json"])) == 0
    assert json.loads((place.folder / "example.json").read_text())["prompt_text"] == "so it goes"


def test_encode_and_decode(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("encode", place["voice.wav"], "-o", place["codes.npz"], "--stack", place.stack) == 0
    stored = np.load(place["codes.npz"])
    assert stored["codes"].shape == (100, 8) and int(stored["samples"]) == 32000
    assert run("decode", place["codes.npz"], "-o", place["decoded.wav"], "--stack", place.stack) == 0
    assert soundfile.info(place["decoded.wav"]).frames == 32000
    assert audio.read_provenance(place["decoded.wav"])["synthetic"]
    assert "100 frames of 8 codebooks" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["telephone_codec.wav", "eight_channels.wav"])
def test_rare_recordings_are_encoded_and_copied(place: Place, name: str) -> None:
    assert run("encode", place[name], "-o", place["rare.npz"], "--stack", place.stack) == 0
    assert run(*say(place, "Hello.", prompt=place[name])) == 0


def test_methods_are_listed_with_their_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("methods", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(METHODS)
    for row in rows.values():
        assert row["title"] and row["paper"]
        assert all({"name", "type", "default", "help", "min", "max", "choices"} <= set(o) for o in row["options"])
    assert run("methods") == 0
    table = capsys.readouterr().out
    assert all(name in table for name in METHODS)


def test_options_may_share_one_set() -> None:
    assert pairs([["a=1", "b-c=x=y"], ["d=2"]]) == {"a": "1", "b_c": "x=y", "d": "2"}


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--help")
    listed = capsys.readouterr().out
    wanted = "say methods encode decode evaluate bench report teach train record phonemes".split()
    assert set(cli.COMMANDS) == set(wanted) and all(f"    {name}" in listed for name in wanted)
    assert all(module.HELP in " ".join(listed.split()) for module in cli.COMMANDS.values())


def test_phonemes_are_printed_a_line_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("phonemes", "Hello there. It is late, isn't it?") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "," in lines[1] and lines[1].endswith("?") and not any(c.isupper() for c in lines[0][:1])


def test_decoding_fewer_books_changes_the_sound_and_one_goes_through_the_refiner(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("encode", place["voice.wav"], "-o", place["codes.npz"], "--stack", place.stack) == 0
    decoded = {}
    for books in ("1", "2", "8", None):
        words = ["decode", place["codes.npz"], "-o", place["decoded.wav"], "--stack", place.stack]
        assert run(*words, *(["--books", books] if books else [])) == 0
        decoded[books] = soundfile.read(place["decoded.wav"])[0]
    assert np.array_equal(decoded["8"], decoded[None]) and not np.array_equal(decoded["2"], decoded["8"])
    assert all(len(samples) == 32000 for samples in decoded.values())
    codec, decoder = (checkpoints.load_module(Path(place.stack), name) for name in ("codec", "decoder"))
    codes = torch.from_numpy(np.load(place["codes.npz"])["codes"].astype(np.int64))[None]
    plain = decoder.whole(codec.quantizer.decode(codes[..., :1]))[0].numpy()
    assert np.abs(decoded["1"] - plain).max() > 1e-3, "not the first book as it is"
    assert run("decode", place["codes.npz"], "-o", place["decoded.wav"], "--stack", place.stack, "--books", "9") == 2
    assert "between 1 and 8" in capsys.readouterr().err


@pytest.mark.slow
def test_evaluate_and_bench_append_records_and_report_reads_them(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The three commands of measuring, on random weights: baseline alone, so there is no complete set to report."""
    records = str(tmp_path / "records.jsonl")
    place_of = ["--stack", place.stack, "--device", "cpu", "--records", records, "--methods", "baseline"]
    assert run("evaluate", *place_of, "--limit", "1", "--plan") == 0
    assert "1 to do" in " ".join(capsys.readouterr().out.split()) and not Path(records).exists()
    assert run("evaluate", *place_of, "--limit", "1", "--json") == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["baseline"]["texts"] == 1
    monkeypatch.setattr("tts_demo.measure.speed.Bench.kv_bytes", lambda self, row: {"kv_12s": 1, "kv_20s": 2})
    assert run("bench", *place_of, "--seconds", "0.5", "--rounds", "1", "--parts", "--json") == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shown["rows"]["baseline"]["lm_gain"] > 0 and shown["operators"]["baseline"]["a step"] > 20
    lines = [json.loads(line) for line in Path(records).read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["quality", "speed"] and lines[0]["checkpoint"] == lines[1]["checkpoint"]
    assert run("report", "--records", records, "-o", str(tmp_path / "page.md")) == 2
    assert "tts_demo evaluate" in capsys.readouterr().err
    for command in ("evaluate", "bench"):  # one table cannot hold two samplings
        assert run(command, *place_of, "--set", "temperature=0") == 2
        assert "holds runs at default sampling" in capsys.readouterr().err


def test_bench_samples_as_it_is_told(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And its records say so, so that runs at default sampling are kept apart from them."""
    records, sampled = str(tmp_path / "greedy.jsonl"), set()
    monkeypatch.setattr("tts_demo.measure.speed.Bench.kv_bytes", lambda self, row: {"kv_12s": 1, "kv_20s": 2})
    generate = engine.generate
    monkeypatch.setattr(
        engine, "generate", lambda stack, r, *a, **k: sampled.add(r.sampling.temperature) or generate(stack, r, *a, **k)
    )
    words = ["bench", "--stack", place.stack, "--device", "cpu", "--records", records, "--methods", "baseline"]
    words += ["--seconds", "0.5", "--rounds", "1"]
    assert run(*words, "--set", "temperature=0", "top_k=7", "--requests", "2") == 0 and sampled == {0.0}
    lines = [json.loads(line) for line in Path(records).read_text().splitlines()]
    assert [line["sampling"] for line in lines] == ["temperature=0.0 top_k=7"] * 2
    assert run(*words) == 2 and "holds runs at temperature=0.0 top_k=7" in capsys.readouterr().err


def test_several_processes_need_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("evaluate", "--processes", "2", "--set", "temperature=0") == 2
    assert "--records" in capsys.readouterr().err
    assert run("evaluate", "--takes", "0") == 2 and run("evaluate", "--list", "tuning") == 2
