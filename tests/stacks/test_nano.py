"""The bundled stack: loading, prompts, prefixes, exact streaming, and what it refuses."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from nano_tiny import ENTRIES, SPEAKER, make_checkpoint, voice

from tts_demo import audio, checkpoints, engine, lineage
from tts_demo.config import HOP, Request, UserError
from tts_demo.methods import METHODS, find
from tts_demo.stacks import load_stack, pick_dtype
from tts_demo.stacks.nano import AROUND, CONTEXT_SECONDS, NanoStack


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> NanoStack:
    return load_stack(str(make_checkpoint(tmp_path_factory.mktemp("nano"))), "cpu")


@pytest.fixture(scope="module")
def prompt(stack: NanoStack):
    return stack.encode_prompt(voice(), 16000, "hello there")


def test_a_prompt_holds_what_the_parts_need(stack: NanoStack, prompt) -> None:
    frames = -(-len(voice()) // HOP)
    assert prompt.codes.shape == (frames, 8) and prompt.speaker.shape == (SPEAKER,)
    assert prompt.text == "hello there" and abs(prompt.seconds - 2) < 0.05
    assert prompt.extra["latent"].shape[1] == frames


def test_the_key_follows_sound_and_words(stack: NanoStack, prompt) -> None:
    same, other, words = (
        stack.encode_prompt(*a)
        for a in (
            (voice(), 16000, "hello there "),
            (voice(pitch=200), 16000, "hello there"),
            (voice(), 16000, "good day"),
        )
    )
    assert same.key == prompt.key and len({prompt.key, other.key, words.key}) == 3


def test_the_rate_of_a_prompt_does_not_matter(stack: NanoStack, prompt) -> None:
    again = stack.encode_prompt(voice(2, 48000), 48000)
    assert abs(len(again.codes) - len(prompt.codes)) <= 1
    assert torch.nn.functional.cosine_similarity(again.speaker, prompt.speaker, dim=0) > 0.99


def test_a_transcript_puts_the_prompt_in_front(stack: NanoStack, prompt) -> None:
    spoken, labels = stack.tokenize("two words")
    with_text = stack.prefix(prompt, "two words")
    assert with_text.labels == labels and with_text.text.stop - with_text.text.start == len(spoken)
    assert torch.equal(with_text.prompt_codes, prompt.codes)
    before, _ = stack.tokenize("hello there")
    assert len(with_text.x) == 3 + len(before) + 1 + len(spoken)  # speaker, SOS, prompt's text, gap, text, TASK
    assert torch.equal(with_text.x[with_text.text], stack.lm.text_embedding.weight[spoken])
    plain = stack.prefix(stack.encode_prompt(voice(), 16000), "two words")
    assert len(plain.prompt_codes) == 0 and len(plain.x) == 3 + len(spoken)


@pytest.mark.parametrize("mark", [".", "?", "!", " ...", ",", ";", " —"])
def test_neither_final_mark_nor_pause_comes_between_transcript_and_text(stack: NanoStack, prompt, mark: str) -> None:
    """A mark without its pause in the codes makes the model say the pause in place of a short text; a pause without its
    mark makes it say words of the transcript."""
    marked = stack.prefix(stack.encode_prompt(voice(), 16000, "hello there" + mark), "two words")
    plain = stack.prefix(prompt, "two words")
    assert torch.equal(marked.x, plain.x) and torch.equal(marked.prompt_codes, plain.prompt_codes)
    noise = np.random.default_rng(0).normal(size=9600).astype(np.float32) * 0.004
    room = stack.encode_prompt(np.concatenate([voice(), noise]), 16000, "hello there" + mark)
    paused = stack.prefix(room, "two words")
    assert paused.x.shape == plain.x.shape and 0 <= len(paused.prompt_codes) - len(plain.prompt_codes) <= 11
    assert room.extra["latent"].shape[1] >= len(plain.prompt_codes) + 25  # the voice is heard from all of it


def test_a_transcript_that_cannot_be_is_not_used(stack: NanoStack) -> None:
    fits = stack.encode_prompt(voice(3.0), 16000, "this is said in three seconds")
    assert fits.text and not fits.notes
    much = stack.encode_prompt(voice(1.5), 16000, "nobody can say as many words as these in a second and a half " * 2)
    little = stack.encode_prompt(voice(1.9), 16000, "oh")
    for prompt, words in ((much, "so many words in 1.5 s"), (little, "1.9 s for so few words")):
        assert prompt.text is None and len(stack.prefix(prompt, "two").prompt_codes) == 0
        (note,) = prompt.notes
        assert words in note and "transcript is not used" in note


def test_a_transcript_that_cannot_be_spoken_is_named(stack: NanoStack) -> None:
    with pytest.raises(UserError, match="The voice's transcript: "):
        stack.encode_prompt(voice(), 16000, "?!")


def test_a_long_prompt_gives_its_voice_only(stack: NanoStack) -> None:
    long = stack.encode_prompt(voice(CONTEXT_SECONDS + 2), 16000, "hello there " * 5)
    assert len(stack.prefix(long, "two").prompt_codes) == 0 and "transcript is not used" in long.notes[-1]
    cut = stack.encode_prompt(voice(20), 16000, "hello there")
    assert cut.text is None and "Kept the first" in cut.notes[-1]


def test_every_segment_ends_in_a_mark(stack: NanoStack) -> None:
    assert stack.split("A B C") == ["A., B, C."] and stack.split("Is it? Yes") == ["Is it?", "Yes."]


def test_a_text_has_a_floor_and_a_cap_of_frames(stack: NanoStack, prompt) -> None:
    """Two frames a symbol and 6.5, with two seconds for pauses; the prompt's own words do not count."""
    symbols = len(stack.tokenize("two words")[1])
    prefix = stack.prefix(prompt, "two words")
    assert (prefix.shortest, prefix.longest) == (2 * symbols, 100 + round(6.5 * symbols))


@pytest.mark.parametrize("codebooks", [1, 2, 8])
@pytest.mark.parametrize("pieces", [[1] * 40, [12, 24, 4], [3, 37], [40]])
@pytest.mark.parametrize("refined", [True, False])
def test_streamed_sound_equals_the_whole(
    stack: NanoStack, prompt, codebooks: int, pieces: list[int], refined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not refined:
        monkeypatch.setattr(stack, "codebook_refiner", None)
    codes = torch.randint(ENTRIES, (40, codebooks), generator=torch.Generator().manual_seed(1))
    whole, streamed = stack.vocoder(prompt, codebooks), stack.vocoder(prompt, codebooks)
    expected = np.concatenate([whole.push(codes), whole.finish()])
    got = np.concatenate([*(streamed.push(part) for part in codes.split(pieces)), streamed.finish()])
    assert len(got) == len(expected) == 40 * HOP and got.dtype == np.float32
    # F0 differs by rounding between a stream and the whole, the highest harmonic fifty times as much
    assert np.abs(got - expected).max() < 3e-4 * max(1.0, np.abs(expected).max())
    assert np.abs(expected).max() > 0


def test_finer_books_are_heard_through_their_refiner_or_as_they_are(
    stack: NanoStack, prompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one that trusts them fully and adds nothing of its own, what comes out is what the books alone say."""
    codes = torch.randint(ENTRIES, (30, 4), generator=torch.Generator().manual_seed(2))
    speak = lambda: np.concatenate([(vocoder := stack.vocoder(prompt, 4)).push(codes), vocoder.finish()])
    refined = speak()
    books = copy.deepcopy(stack.codebook_refiner)
    for weight in (books.out.weight, books.out.bias, books.trust.weight):
        torch.nn.init.zeros_(weight)
    torch.nn.init.constant_(books.trust.bias, 50.0)
    first = stack.codec.quantizer.codebooks[0].lookup(torch.arange(ENTRIES))
    books.base.weight.data.copy_(first)
    monkeypatch.setattr(stack, "codebook_refiner", books)
    trusted = speak()
    monkeypatch.setattr(stack, "codebook_refiner", None)
    assert np.abs(trusted - speak()).max() < 1e-4 * np.abs(trusted).max() < np.abs(refined - trusted).max()


@pytest.mark.parametrize("codebooks", [1, 4])
def test_what_is_said_lies_between_pauses(stack: NanoStack, prompt, codebooks: int) -> None:
    """Refiner and decoder know the prompt's quietest frame to come before and behind it, and nothing of it is heard."""
    hush = np.concatenate([voice(), np.zeros(8000, np.float32), voice(), np.zeros(1600, np.float32)])
    quiet = stack.encode_prompt(hush, 16000, "hello there hello there")
    wave = torch.from_numpy(audio.prompt(audio.read((16000, hush))).samples)
    at = audio.quietest(wave.numpy())
    assert wave[at * HOP : (at + 1) * HOP].abs().max() < 0.01 < wave.abs().max()
    assert (quiet.extra["pause"] == stack.codes(wave[None], quiet.text)[0, at]).all()
    codes = torch.randint(ENTRIES, (30, codebooks), generator=torch.Generator().manual_seed(3))
    speak = lambda vocoder, codes: np.concatenate([vocoder.push(codes), vocoder.finish()])
    heard, alone = speak(stack.vocoder(prompt, codebooks), codes), stack.vocoder(prompt, codebooks)
    alone._around, alone._unheard, alone._outside = codes[:0], 0, 0
    pause = prompt.extra["pause"].expand(AROUND, -1)[:, :codebooks]
    whole = speak(alone, torch.cat([pause, codes, pause]))
    np.testing.assert_allclose(heard, whole[AROUND * HOP : -AROUND * HOP], atol=1e-3)


def test_nothing_spoken_is_no_sound(stack: NanoStack, prompt) -> None:
    vocoder = stack.vocoder(prompt, 1)
    assert len(vocoder.push(torch.zeros(0, 1, dtype=torch.long))) == 0 and len(vocoder.finish()) == 0


def test_it_runs_and_repeats_itself(stack: NanoStack, prompt) -> None:
    runs = [engine.run(stack, Request("Hello. It is 5 p.m.", prompt, seed=s, max_seconds=1.0)) for s in (3, 3, 4)]
    assert len(runs[0].audio) == len(runs[0].codes) * HOP > 0
    assert np.array_equal(runs[0].audio, runs[1].audio)
    assert not np.array_equal(runs[0].codes, runs[2].codes)


def test_a_method_is_loaded_once(stack: NanoStack) -> None:
    assert stack.method("baseline") is stack.method("baseline")
    with pytest.raises(UserError, match="Unknown method"):
        stack.method("telepathy")


def test_methods_that_it_lacks_come_from_beside(stack: NanoStack, prompt, tmp_path) -> None:
    """A comparison model is not shipped: it is measured from the folder that training left it in."""
    hashes = []
    for seed in range(2):
        torch.manual_seed(seed)
        modules = find("tldr-short").build_modules(stack.lm)
        checkpoints.save_module(tmp_path, "tldr-short", modules["tldr-short"])
        with_it = load_stack(str(stack.root), "cpu", "float32", str(tmp_path))
        assert len(engine.run(with_it, Request("Red.", prompt, "tldr-short", forced_frames=8)).codes) == 8
        assert with_it.checkpoint_hash == stack.checkpoint_hash and with_it.method("baseline").weights_hash == ""
        hashes.append(with_it.method("tldr-short").weights_hash)
    assert len(set(hashes)) == 2 and all(len(found) == 12 for found in hashes)
    torch.manual_seed(7)
    checkpoints.save_module(tmp_path, "tldr", find("tldr").build_modules(stack.lm)["tldr"])  # instead of the stack's
    again = load_stack(str(stack.root), "cpu", "float32", str(tmp_path))
    assert again.method("tldr").weights_hash and again.method("baseline").weights_hash == ""
    checkpoints.save_module(tmp_path, "speaker", stack.speaker)
    with pytest.raises(UserError, match="'speaker'.*belongs to no method"):
        load_stack(str(stack.root), "cpu", "float32", str(tmp_path))


def test_a_method_without_weights_says_how_to_make_them(stack: NanoStack) -> None:
    trained = [name for name, kind in METHODS.items() if kind.needs_weights]
    if not trained:
        pytest.skip("no registered method needs weights")
    for name in trained:
        with pytest.raises(UserError, match=f"tts_demo train {METHODS[name].needs_weights[0]}"):
            stack.method(name)


@pytest.mark.parametrize("asked", [dict(name=""), dict(name="nowhere/at/all"), dict(device="tpu"), dict(dtype="int3")])
def test_what_cannot_be_loaded(asked: dict) -> None:
    with pytest.raises(UserError):
        load_stack(**asked)


def test_precisions() -> None:
    cpu = torch.device("cpu")
    assert pick_dtype(None, cpu) == torch.float32 and pick_dtype("bfloat16", cpu) == torch.bfloat16
    with pytest.raises(UserError, match="float16"):
        pick_dtype("float16", cpu)


def test_the_bundled_stack_refuses_to_load_with_a_stale_module(tmp_path):
    root = make_checkpoint(tmp_path)
    lineage.record(root, ["lm", "refiner"], root)
    load_stack(str(root))
    speaker = checkpoints.load_module(root, "speaker")
    torch.nn.init.constant_(next(speaker.parameters()), 0.5)
    checkpoints.save_module(root, "speaker", speaker)
    with pytest.raises(UserError, match="was trained through another 'speaker'"):
        load_stack(str(root))
    load_stack(str(root), allow_stale=True)
