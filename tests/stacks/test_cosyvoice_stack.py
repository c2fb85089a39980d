"""The whole stack on a tiny random model: load, speak through the engine, and say what is wrong with a download."""

import copy
import dataclasses
import gc
import json

import numpy as np
import pytest
import torch
from cosyvoice_tiny import randomise, released_lm_state, speech_like, tiny, write_model

from tests.conftest import real_voice
from tts_demo import audio, checkpoints, engine
from tts_demo.cli.main import main
from tts_demo.config import Request, Sampling, UserError
from tts_demo.lm import Base
from tts_demo.lm.graphs import BufferPool
from tts_demo.methods import METHODS
from tts_demo.methods.ssd.method import SSDOptions
from tts_demo.stacks import load_stack
from tts_demo.stacks.cosyvoice import CosyVoiceStack, download
from tts_demo.stacks.cosyvoice.configs import END_OF_PROMPT, RELEASED_SAMPLING, VERSION_2, VERSION_3
from tts_demo.stacks.cosyvoice.flow import build_flow
from tts_demo.stacks.cosyvoice.hift import Hift
from tts_demo.stacks.cosyvoice.lm import CosyLanguageModel, empty_lm
from tts_demo.stacks.cosyvoice.prompt import kaldi_bank, prompt_mel, whisper_mel
from tts_demo.stacks.cosyvoice.vocoder import CosyVocoder, SilenceFilter

GREEDY = Sampling(temperature=0.0, repeat_window=0)


@pytest.fixture(scope="module", params=[2, 3])
def stack(request, tmp_path_factory) -> CosyVoiceStack:
    config = tiny(request.param)
    folder = write_model(tmp_path_factory.mktemp(f"cosyvoice{request.param}"), config)
    return load_stack(str(folder), "cpu", "float32")


@pytest.fixture(scope="module")
def prompt(stack):
    return stack.encode_prompt(speech_like(1.4, 24_000), 24_000, "The king sang.")


def test_end_to_end(stack, prompt):
    request = Request(
        "Then the thing began to sing.", prompt, forced_frames=40, sampling=GREEDY, capture_attention=True
    )
    done = engine.run(stack, request)
    assert done.codes.shape == (40, 1) and 0 <= done.codes.min() and done.codes.max() < 6561
    kept = SilenceFilter(stack.config.silent_tokens)(done.codes[:, 0].tolist())
    assert len(done.audio) == len(kept) * 2 * stack.config.hift.frame
    assert np.isfinite(done.audio).all() and np.abs(done.audio).max() > 1e-4
    assert done.attention.weights.shape[-1] == len(stack.tokenize("Then the thing began to sing.")[0])


def test_the_command_line_speaks_with_it(stack, tmp_path, capsys):
    voice, out, report = tmp_path / "voice.wav", tmp_path / "out.wav", tmp_path / "out.json"
    audio.write_wav(voice, real_voice(1.5, 24_000), 24_000)
    asked = f"--stack {stack.name} --prompt {voice} -o {out} --json {report}"
    how = "--device cpu --dtype float32 --max-seconds 1"
    assert main(["say", "The thing.", "--prompt-text", "It sang.", *asked.split(), *how.split()]) == 0
    told = json.loads(report.read_text())
    assert told["stack"] == stack.name and Sampling(**told["sampling"]) == RELEASED_SAMPLING
    assert audio.read(out).seconds <= 1.1


def test_the_command_line_names_what_is_missing(tmp_path, capsys):
    (tmp_path / "cosyvoice2.yaml").write_text("x: 1\n")
    audio.write_wav(tmp_path / "voice.wav", real_voice(1.5), 16_000)
    asked = f"--stack {tmp_path} --prompt {tmp_path}/voice.wav -o {tmp_path}/out.wav"
    assert main(["say", "The thing.", *asked.split()]) == 2
    assert "hf download FunAudioLLM/CosyVoice2-0.5B" in capsys.readouterr().err


def test_speculation_at_tolerance_0_is_the_baseline(stack, prompt):
    """With the untrained draft, greedy."""
    spoken = [
        engine.run(
            stack, Request("The thing.", prompt, method=method, options=options, forced_frames=24, sampling=GREEDY)
        ).codes
        for method, options in (("baseline", None), ("ssd", SSDOptions(tolerance=0.0)))
    ]
    assert np.array_equal(*spoken)


@pytest.fixture(scope="module")
def vivid(stack) -> CosyVoiceStack:
    """The same with the released 25 tokens a block, and weights that let attention and mel be heard."""
    vivid = copy.copy(stack)
    flow = build_flow(dataclasses.replace(stack.config.flow, block_tokens=25, steps=2))
    vivid._flow = randomise(flow, scale=0.3 if stack.config.version == 2 else 0.15)
    vivid.hift = randomise(Hift(stack.config.hift).prepare(), scale=0.15)
    return vivid


def voiced(seconds: float, seed: int = 3) -> torch.Tensor:
    """Tokens [25 seconds, 1], none of them silent."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3000, 6000, (round(25 * seconds), 1), generator=generator)


def in_one_pass(stack, prompt, frames, blocks: bool) -> tuple[torch.Tensor, np.ndarray]:
    """Mel and wave of a segment as the released code makes them: the flow once over prompt and speech, the vocoder
    once over the mel."""
    voice = prompt.extra["voice"]
    tokens = torch.cat((voice.tokens, frames[:, 0]))[None]
    mel = stack._flow(tokens, voice.speaker, voice.mel, stack._noise[:, :, : 2 * tokens.shape[1]], blocks=blocks)
    mel = mel[:, :, 2 * len(voice.tokens) :]
    return mel, stack.hift(mel).numpy()


def spoken(stack, prompt, segments, pieces, live: bool = True) -> tuple[list[torch.Tensor], np.ndarray, list[int]]:
    """Pieces of mel, the wave, and its samples in each call, of segments that come in pieces."""
    mels, waves = [], []
    vocoder, make = stack.vocoder(prompt, 1, live), CosyVocoder._mel_until
    vocoder._mel_until = lambda end: mels.append(make(vocoder, end)) or mels[-1]
    for frames in segments:
        waves += [vocoder.push(piece) for piece in frames.split(pieces)] + [vocoder.end_segment()]
    assert not len(vocoder.finish())
    return mels, np.concatenate(waves), [len(wave) for wave in waves]


def same(made, mel, wave) -> None:
    torch.testing.assert_close(torch.cat(made[0], -1), mel, rtol=0, atol=1e-4)
    np.testing.assert_allclose(made[1], wave, rtol=0, atol=1e-4)


@pytest.mark.parametrize("pieces", [70, (6, 12, 25, 27), 1])
def test_streamed_audio_does_not_depend_on_the_pieces(vivid, prompt, pieces):
    frames = voiced(2.8)
    made = spoken(vivid, prompt, [frames], pieces)
    assert len(made[1]) == 70 * 2 * vivid.config.hift.frame
    same(made, *in_one_pass(vivid, prompt, frames, True))


@pytest.mark.parametrize("pooled", [False, True], ids=["plain", "padded"])
@pytest.mark.parametrize("seconds", [13, 40])
def test_streaming_is_one_pass_under_the_released_mask(vivid, prompt, seconds, pooled, monkeypatch):
    """However long speech is, fed in chunks as the engine feeds them. Padded: as on a GPU, in few sizes."""
    pool = BufferPool(enabled=False) if pooled else None
    monkeypatch.setattr(vivid._flow, "pool", pool)
    monkeypatch.setattr(vivid.hift, "pool", pool)
    frames = voiced(seconds)
    made = spoken(vivid, prompt, [frames], 60)
    assert len(made[0]) > 4 and (pool is None or pool.keys == {"flow", "pitch", "features"})
    same(made, *in_one_pass(vivid, prompt, frames, True))


def test_graphs_are_captured_before_someone_waits(vivid, prompt, monkeypatch):
    """A run whose prompt and speech fit the smallest buffer finds all of its graphs; without graphs nothing is done."""
    assert not list(vivid.capture(prompt))
    pool = BufferPool(enabled=False)
    monkeypatch.setattr(vivid._flow, "pool", pool)
    monkeypatch.setattr(vivid.hift, "pool", pool)
    assert [number for number, _ in vivid.capture(prompt)] == [1, 2, 3, 4]

    def captured() -> set:
        gc.collect()
        return {key for free in pool._free.values() for buffer in free for key in buffer.graphs}

    before = captured()
    assert {key for key, _ in before} == {"flow", "pitch", "features"}
    for seconds in (1.4, 6, 11):
        spoken(vivid, prompt, [voiced(seconds)], 12)
    assert captured() == before


def test_a_whole_sentence_of_a_new_length_captures_outside_the_clock(vivid, prompt, monkeypatch):
    """``prepare`` makes the graph that the end of the segment then finds; a second sentence of that size needs none."""
    monkeypatch.setattr(vivid._flow, "pool", BufferPool(enabled=False))
    monkeypatch.setattr(vivid._flow, "_captured", set())
    passes, solve = [], vivid._flow._solve
    monkeypatch.setattr(vivid._flow, "_solve", lambda *inputs: passes.append(1) or solve(*inputs))
    counts = []
    for seconds, live in ((3, False), (3.1, False), (9, False), (3, True)):
        vocoder = vivid.vocoder(prompt, 1, live)
        vocoder.push(voiced(seconds))
        before = len(passes)
        vocoder.prepare()
        counts.append(len(passes) - before)
        assert live or not vivid._flow.is_new(len(prompt.codes) + round(25 * seconds))
        assert len(vocoder.end_segment())
    assert counts == [1, 0, 1, 0]


def test_who_does_not_listen_live_gets_full_attention(vivid, prompt):
    """Nothing comes before the end, and then what one pass without a mask gives."""
    frames = voiced(4.0)
    made = spoken(vivid, prompt, [frames], 30, live=False)
    assert not any(made[2][:-1])
    same(made, *in_one_pass(vivid, prompt, frames, False))
    mel, wave = in_one_pass(vivid, prompt, frames, True)
    assert (torch.cat(made[0], -1) - mel).abs().max() > 1e-2 and np.abs(made[1] - wave).max() > 5e-4


@pytest.mark.parametrize("live", [True, False])
def test_segments_are_spoken_apart(vivid, prompt, live):
    """As released: each piece of a text has a flow and a vocoder of its own, silent runs counted anew."""
    segments = [voiced(1.3), voiced(2.1, seed=4)]
    apart = [in_one_pass(vivid, prompt, frames, live) for frames in segments]
    same(
        spoken(vivid, prompt, segments, 40, live),
        torch.cat([mel for mel, _ in apart], -1),
        np.concatenate([wave for _, wave in apart]),
    )


def test_the_engine_ends_segments(stack, prompt):
    """A text of several pieces sounds as its pieces do."""
    text = "The king sang the thing. " * 12
    assert len(stack.split(text)) > 1
    ended = []
    vocoder = stack.vocoder(prompt, 1, False)
    end = vocoder.end_segment
    vocoder.end_segment = lambda: ended.append(1) or end()
    whole = copy.copy(stack)
    whole.vocoder = lambda *_: vocoder
    done = engine.run(whole, Request(text, prompt, sampling=GREEDY, max_seconds=60))
    assert len(ended) > 1 and np.isfinite(done.audio).all()


def test_first_sound_comes_early(stack, prompt):
    """At the first end of a block with 11 tokens of sound before it, the look-ahead behind it, whatever the prompt."""
    vocoder = stack.vocoder(prompt, 1)
    frames = voiced(2.4)
    needed = next(n for n in range(60) if len(vocoder.push(frames[n : n + 1]))) + 1
    assert needed <= 11 + 12 + 3 + stack.config.flow.block_tokens
    assert not len(stack.vocoder(prompt, 1).push(frames[: needed - 1]))
    end = needed - stack.config.flow.lookahead
    assert (len(prompt.extra["voice"].tokens) + end) % stack.config.flow.block_tokens == 0


def test_long_runs_of_silence_are_shortened():
    keep = SilenceFilter((1, 2))
    assert keep([7, 1, 2, 1, 1]) + keep([2, 1, 2, 9, 1]) == [7, 1, 2, 1, 1, 2, 9, 1]


def test_nothing_spoken_is_no_error(stack, prompt):
    vocoder = stack.vocoder(prompt, 1)
    assert len(vocoder.push(torch.zeros(0, 1, dtype=torch.long))) == 0
    assert len(vocoder.end_segment()) == 0 and len(vocoder.finish()) == 0


def test_the_prefix(stack, prompt):
    """[SOS, system and prompt text, text, TASK], with the prompt's speech apart; labels for the text alone."""
    lm, config = stack.lm, stack.config
    ids, labels = stack.tokenize("The thing.")
    prefix = stack.prefix(prompt, "The thing.")
    table = lm.speech_embedding.weight if config.version == 3 else lm.markers.weight
    sos, task = (6561, 6563) if config.version == 3 else (0, 1)
    told = stack.tokenizer.encode(config.system_prompt + prompt.text)
    expected = torch.cat((table[[sos]], lm.text_embedding(torch.tensor(told)), lm.text_embedding(ids), table[[task]]))
    torch.testing.assert_close(prefix.x, expected)
    assert prefix.text == slice(1 + len(told), 1 + len(told) + len(ids))
    assert prefix.labels == labels and labels[0] == "T"
    assert (prefix.shortest, prefix.longest) == (2 * len(ids), 20 * len(ids))
    assert torch.equal(prefix.prompt_codes[:, 0], prompt.extra["voice"].tokens)


def test_without_a_transcript_only_the_sound_is_taken(stack):
    prompt = stack.encode_prompt(speech_like(1.2, 16_000), 16_000)
    prefix = stack.prefix(prompt, "The thing.")
    assert len(prefix.prompt_codes) == 0 and len(prompt.extra["voice"].tokens) > 20
    assert len(prefix.x) == 2 + len(stack.tokenizer.encode(stack.config.system_prompt)) + len(prefix.labels)


def test_a_transcript_is_written_out_as_its_version_does(stack):
    prompt = stack.encode_prompt(speech_like(2.0, 24_000), 24_000, "I have 3 cats")
    assert prompt.text == {2: "I have three cats", 3: "I have 3 cats"}[stack.config.version]


def test_a_transcript_that_cannot_be_is_not_used(stack):
    """Of the tiny vocabulary nearly every letter is a token: 35 of speech, at least 0.8 times two a letter."""
    for words, kept in (("Sing the thing.", True), ("Sing the thing. " * 9, False)):
        prompt = stack.encode_prompt(speech_like(1.4, 24_000), 24_000, words)
        assert bool(prompt.text) == kept == bool(len(prompt.codes))
        assert kept or "so many words in 1.4 s" in prompt.notes[-1]
    slow = stack.encode_prompt(speech_like(4.0, 24_000), 24_000, "S")
    assert slow.text is None and "4.0 s for so few words" in slow.notes[-1]


def test_an_instruction_replaces_the_transcript(stack):
    prompt = stack.encode_prompt(speech_like(1.2, 16_000), 16_000, f"Sing it.{END_OF_PROMPT}")
    prefix = stack.prefix(prompt, "The thing.")
    assert len(prefix.prompt_codes) == 0
    assert len(prefix.x) == 2 + len(stack.tokenizer.encode(f"Sing it.{END_OF_PROMPT}")) + len(prefix.labels)


def test_prompt_parts_fit_each_other(stack, prompt):
    voice = prompt.extra["voice"]
    assert voice.mel.shape == (1, 80, 2 * len(voice.tokens))
    assert voice.speaker.shape == (1, 192)
    assert 33 <= len(voice.tokens) <= 35
    assert prompt.seconds == pytest.approx(1.4, abs=0.01)


def test_prompt_models_get_the_described_features(stack, prompt):
    """The stand-in tokenizer gives the loudest band of every four frames, the stand-in encoder a fixed map of peaks."""
    low = torch.from_numpy(audio.resample(speech_like(1.4, 24_000), 24_000, 16_000))
    mel = whisper_mel(low)
    loudest = mel[:, : mel.shape[1] // 4 * 4].reshape(128, -1, 4).mean(-1).argmax(0)
    tokens = prompt.extra["voice"].tokens
    assert torch.equal(tokens, loudest[: len(tokens)])
    matrix = torch.from_numpy(np.random.default_rng(0).normal(size=(80, 192))).float()
    torch.testing.assert_close(
        prompt.extra["voice"].speaker, (kaldi_bank(low).amax(0) @ matrix)[None], rtol=1e-3, atol=1e-2
    )


def test_the_untrained_draft_keeps_the_heads_bias(stack):
    lm, x = stack.lm, torch.randn(1, 1, 32)
    torch.testing.assert_close(stack.method("ssd").draft.logits(x), lm.head(x), atol=1e-2, rtol=1e-3)  # float16 weights


def test_bad_prompts_and_requests(stack, prompt):
    with pytest.raises(UserError, match="at least 1 s"):
        stack.encode_prompt(speech_like(0.4, 16_000), 16_000)
    with pytest.raises(UserError, match="silent"):
        stack.encode_prompt(np.zeros(32_000, np.float32), 16_000)
    with pytest.raises(UserError, match="one codebook"):
        stack.vocoder(prompt, 8)
    with pytest.raises(UserError, match="train"):
        stack.method("tldr")
    with pytest.raises(UserError, match="baseline"):
        stack.method("nonsense")


def test_adapters_come_from_elsewhere(stack, prompt, tmp_path):
    trained = METHODS["tldr"].build_modules(stack.lm)["tldr"]
    checkpoints.save_module(tmp_path, "tldr", trained)
    with_it = load_stack(str(stack.adapters.parent), "cpu", "float32", str(tmp_path))
    assert len(engine.run(with_it, Request("The thing.", prompt, method="tldr", forced_frames=8)).codes) == 8
    checkpoints.save_module(tmp_path, "dcar-heads", METHODS["dcar"].build_modules(stack.lm)["dcar-heads"])
    speak = lambda word: engine.run(
        with_it, Request("The thing.", prompt, "dcar", METHODS["dcar"].Options(word), forced_frames=8)
    )
    assert len(speak("3").codes) == len(speak("random:2,3").codes) == 8  # the heads are enough for these
    with pytest.raises(UserError, match="needs the trained policy"):
        speak("2,3,4")
    hashes = {name: with_it.method(name).weights_hash for name in ("baseline", "tldr", "dcar")}
    assert hashes["baseline"] == "" and len(set(hashes.values())) == 3  # of what each method reads


def test_a_prompt_is_cut_at_30_seconds_and_its_transcript_dropped(stack):
    prompt = stack.encode_prompt(speech_like(31.0, 16_000), 16_000, "The king sang.")
    assert prompt.seconds == 30 and prompt.text is None and "30 s" in prompt.notes[-1]


def test_half_precision_is_the_language_models_alone(stack, prompt):
    """A stack in bfloat16 makes the same sound of the same tokens."""
    half = CosyVoiceStack(stack.adapters.parent, "cpu", torch.bfloat16)
    assert half.lm.dtype == torch.bfloat16
    assert {weight.dtype for weight in half._flow.parameters()} == {torch.float32}
    frames = voiced(2.0)
    assert np.array_equal(*(spoken(each, prompt, [frames], 50)[1] for each in (half, stack)))
    done = engine.run(half, Request("The thing.", prompt, forced_frames=12, sampling=GREEDY))
    assert len(done.codes) == 12 and np.isfinite(done.audio).all()


def test_the_language_model_trained_by_reinforcement(tmp_path):
    """``#rl`` behind the name takes llm.rl.pt, wherever a name is given; version 2 has none."""
    folder = write_model(tmp_path, tiny(3))
    with pytest.raises(UserError, match="lacks llm.rl.pt: .*llm.rl.pt flow.pt"):
        load_stack(f"{folder}#rl", "cpu", "float32")
    other = CosyLanguageModel(tiny(3).lm, tiny(3).marker_rows)
    torch.save(released_lm_state(other), folder / "llm.rl.pt")
    usual, trained = load_stack(str(folder), "cpu", "float32"), load_stack(f"{folder}#rl", "cpu", "float32")
    assert trained.name == f"{folder}#rl" and usual.checkpoint_hash != trained.checkpoint_hash
    torch.testing.assert_close(trained.lm.head.weight, other.head.weight, rtol=0, atol=0)
    assert not torch.equal(usual.lm.head.weight, trained.lm.head.weight)
    with pytest.raises(UserError, match="no language model #fast: put #rl"):
        load_stack(f"{folder}#fast", "cpu", "float32")
    (folder / "cosyvoice3.yaml").rename(folder / "cosyvoice2.yaml")
    (folder / "sizes.json").unlink()
    with pytest.raises(UserError, match="no language model #rl: put nothing"):
        download.resolve(f"{folder}#rl")


def test_a_prompt_is_taken_at_its_own_rate(stack):
    """What the vocoder conditions on holds all that the file has below 12 kHz, and is made from it in one step."""
    voice = speech_like(1.4, 44_100)
    voice += 0.1 * np.sin(2 * np.pi * 10_000 * np.arange(len(voice), dtype=np.float32) / 44_100)
    mel = stack.encode_prompt(voice, 44_100).extra["voice"].mel[0]
    direct = prompt_mel(torch.from_numpy(audio.resample(voice, 44_100, 24_000)), stack.config.prompt_fmax)
    torch.testing.assert_close(mel, direct[:, : mel.shape[1]])
    lost = prompt_mel(
        torch.from_numpy(audio.resample(audio.resample(voice, 44_100, 16_000), 16_000, 24_000)),
        stack.config.prompt_fmax,
    )
    assert (mel - lost[:, : mel.shape[1]]).abs().max() > (1 if stack.config.version == 3 else 1e-3)


@pytest.mark.parametrize("version", [2, 3])
def test_loading_gives_the_saved_language_model(version):
    config = tiny(version)
    torch.manual_seed(1)
    saved = CosyLanguageModel(config.lm, config.marker_rows).eval().requires_grad_(False)
    loaded = empty_lm(config.lm, config.marker_rows)
    loaded.load_released(released_lm_state(saved))
    x, positions, mask = torch.randn(1, 6, 32), torch.arange(6)[None], torch.ones(1, 6, 6, dtype=torch.bool).tril()
    torch.testing.assert_close(loaded.eval()(x, positions, mask), saved(x, positions, mask))
    torch.testing.assert_close(Base(loaded).decoder.logits(x), saved.head(x), atol=1e-3, rtol=1e-3)  # float16 weights
    assert (saved.head.bias is not None) == (version == 2)


def test_missing_files_give_one_sentence_with_the_command(tmp_path):
    (tmp_path / "cosyvoice3.yaml").write_text("x: 1\n")
    (tmp_path / "llm.pt").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(UserError) as error:
        download.resolve(tmp_path)
    text = str(error.value)
    assert "lacks llm.pt and 6 more" in text
    assert (
        "'hf download FunAudioLLM/Fun-CosyVoice3-0.5B-2512 cosyvoice3.yaml llm.pt flow.pt hift.pt campplus.onnx "
        f"speech_tokenizer_v3.onnx CosyVoice-BlankEN/vocab.json CosyVoice-BlankEN/merges.txt --local-dir {tmp_path}'"
        in text
    )
    assert "\n" not in text


@pytest.mark.parametrize("text", ["{", '{"lm": {"depth": 3}}', '{"voice": {}}', "[1]"])
def test_bad_sizes(tmp_path, text):
    (tmp_path / "cosyvoice3.yaml").write_text("x: 1\n")
    (tmp_path / "sizes.json").write_text(text)
    with pytest.raises(UserError, match="sizes.json"):
        download.resolve(tmp_path)


def test_a_folder_of_something_else(tmp_path):
    with pytest.raises(UserError, match="neither cosyvoice2.yaml nor cosyvoice3.yaml"):
        download.resolve(tmp_path)
    with pytest.raises(UserError, match="give the folder"):
        download.resolve(tmp_path / "nowhere" / "at" / "all")


def test_the_hub_is_asked_for_no_more_than_is_used(monkeypatch, tmp_path):
    asked = {}

    def snapshot(name, revision, allow_patterns):
        asked.update(name=name, revision=revision, patterns=allow_patterns)
        return write_model(tmp_path, tiny(3))

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    folder, config = download.resolve("FunAudioLLM/Fun-CosyVoice3-0.5B-2512@29e01c4e")
    assert (folder, config.version) == (tmp_path, 3)
    assert (asked["name"], asked["revision"]) == ("FunAudioLLM/Fun-CosyVoice3-0.5B-2512", "29e01c4e")
    assert set(asked["patterns"]) == set(download.files_of(VERSION_2)) | set(download.files_of(VERSION_3))
    assert not any("safetensors" in p or "batch" in p or "estimator" in p or "*" in p for p in asked["patterns"])


def test_no_network_gives_the_command_for_another_machine(monkeypatch):
    def snapshot(name, revision, allow_patterns):
        raise OSError("offline")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    with pytest.raises(UserError, match="hf download FunAudioLLM/CosyVoice2-0.5B .* --local-dir CosyVoice2-0.5B"):
        download.resolve("FunAudioLLM/CosyVoice2-0.5B")


@pytest.mark.parametrize(
    ("file", "spoil"), [("flow.pt", "cut"), ("llm.pt", "other"), ("hift.pt", "other"), ("campplus.onnx", "cut")]
)
def test_damaged_files_are_named(tmp_path, file, spoil):
    write_model(tmp_path, tiny(3))
    if spoil == "cut":
        data = (tmp_path / file).read_bytes()
        (tmp_path / file).write_bytes(data[: len(data) // 2])
    else:
        torch.save({"something": torch.zeros(2)}, tmp_path / file)
    with pytest.raises(UserError, match=f"{file}.*download it again"):
        CosyVoiceStack(tmp_path, "cpu", torch.float32)


def test_pickled_code_is_refused(tmp_path):
    write_model(tmp_path, tiny(3))
    torch.save({"module": torch.nn.Linear(2, 2)}, tmp_path / "flow.pt")
    with pytest.raises(UserError, match="flow.pt"):
        CosyVoiceStack(tmp_path, "cpu", torch.float32)
