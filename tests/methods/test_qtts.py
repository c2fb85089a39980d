"""Several codebooks: the delay pattern, who knows whom, ends of speech, the unrolled depth decoder, replay."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from conftest import base_of, finish, make_prefix
from tts_demo.config import Request, Sampling, UserError
from tts_demo.engine import run
from tts_demo.lm import sampling as sampling_module
from tts_demo.lm.sampling import sample
from tts_demo.methods import METHODS
from tts_demo.methods.baseline import Baseline
from tts_demo.methods.qtts import QTTS
from tts_demo.methods.qtts.codebooks import HIGHER_TEMPERATURE
from tts_demo.methods.qtts.delay import delay
from tts_demo.methods.qtts.depth import StackedDepth

GREEDY = Sampling(temperature=0)
LIVELY = Sampling(2.0, 0, 1.0)
MULTI = [("delay", 8, 1), ("delay", 4, 3), ("delay", 2, 4), ("hierarchical", 8, 1), ("hierarchical", 2, 1)]


def make_method(lm, noise: float = 0.1) -> QTTS:
    """noise > 0: every weight that starts at zero (LoRA, inputs of the higher books, heads) gets something to say."""
    torch.manual_seed(3)
    modules = QTTS.build_modules(lm)
    for module in modules.values():
        for name, weight in module.requires_grad_(False).named_parameters():
            weight.add_(torch.randn_like(weight) * noise * (3.0 if "outer" in name else 1.0))
    return QTTS(base_of(lm), modules)


@pytest.fixture(scope="module")
def method(tiny_lm) -> QTTS:
    return make_method(tiny_lm)


def start(method, prefix, strategy, books=8, d=1, sampling=LIVELY, seed=0, max_frames=20, forced=True):
    options = QTTS.Options(strategy=strategy, codebooks=books, delay=d)
    return method.prefill(prefix, options, sampling, torch.Generator().manual_seed(seed), max_frames, forced)


def undelay(steps: torch.Tensor, d: int) -> torch.Tensor:
    """steps [..., S, K] -> codes [..., S - (K - 1) d, K]: the whole frames in them."""
    books = steps.shape[-1]
    count = steps.shape[-2] - (books - 1) * d
    return torch.stack([steps[..., k * d : k * d + count, k] for k in range(books)], -1)


@pytest.mark.parametrize("books", [1, 2, 4, 8])
@pytest.mark.parametrize("frames", [0, 1, 2, 7, 30])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_delay_then_undelay_is_the_identity(books, frames, d):
    codes = torch.randint(100, (3, frames, books))
    delayed = delay(codes, d, fill=100)
    assert delayed.shape == (3, frames + (books - 1) * d, books)
    assert torch.equal(undelay(delayed, d), codes)
    assert int((delayed == 100).sum()) == 3 * books * (books - 1) * d  # padding fills the corners and nothing else


def test_delay_puts_every_code_where_the_paper_does():
    delayed = delay(torch.tensor([[10, 20, 30], [11, 21, 31]]), 1, fill=0)
    assert delayed.tolist() == [[10, 0, 0], [11, 20, 0], [0, 21, 30], [0, 0, 31]]


@pytest.mark.parametrize("strategy", ["delay", "hierarchical"])
def test_higher_books_are_drawn_at_a_lower_temperature(strategy, method, tiny_prefix, monkeypatch):
    """Of one frame's scores: the first book's law is the caller's, the others' are sharper."""
    drawn = []
    watch = lambda logits, law, *rest: drawn.append((law, *logits.shape)) or sample(logits, law, *rest)
    monkeypatch.setattr(sampling_module, "sample", watch)
    finish(method, start(method, tiny_prefix, strategy, 4, max_frames=3))
    first, others = [law for law, *_, size in drawn if size > 32], [law for law, *_, size in drawn if size == 32]
    assert (
        set(first) == {LIVELY}
        and set(others) == {replace(LIVELY, temperature=HIGHER_TEMPERATURE * LIVELY.temperature)}
        and 0 < HIGHER_TEMPERATURE < 1
    )


def test_single_is_the_baseline_and_leaves_the_rest_to_the_refiner(method, tiny_lm, tiny_prefix):
    _, frames = finish(method, start(method, tiny_prefix, "single", sampling=GREEDY, forced=False))
    baseline = Baseline(base_of(tiny_lm))
    state = baseline.prefill(tiny_prefix, Baseline.Options(), GREEDY, torch.Generator(), 20)
    assert torch.equal(frames, finish(baseline, state)[1])
    assert [
        method.output_codebooks(QTTS.Options(strategy=s, codebooks=4)) for s in ("single", "delay", "hierarchical")
    ] == [1, 4, 4]


@pytest.mark.parametrize("strategy", ["delay", "hierarchical"])
def test_untrained_adapters_speak_the_baselines_first_book(strategy, tiny_lm, tiny_prefix):
    """LoRA, the inputs of books 2 to K and the corrections start at zero: greedy book 1 is the baseline's, token for
    token."""
    fresh = QTTS(base_of(tiny_lm), QTTS.build_modules(tiny_lm))
    _, frames = finish(fresh, start(fresh, tiny_prefix, strategy, sampling=GREEDY, max_frames=24, forced=False))
    baseline = Baseline(base_of(tiny_lm))
    state = baseline.prefill(tiny_prefix, Baseline.Options(), GREEDY, torch.Generator(), 24)
    expected = finish(baseline, state)[1]
    assert frames.shape[1] == 8 and len(set(expected[:, 0].tolist())) > 3 and torch.equal(frames[:, :1], expected)


@pytest.mark.parametrize("strategy, books, d", MULTI)
@pytest.mark.parametrize("prompt", [0, 5])
def test_forced_length_is_exact_and_codes_are_codes(strategy, books, d, prompt, method, tiny_lm):
    prefix = make_prefix(tiny_lm, prompt=prompt)
    state = start(method, prefix, strategy, books, d, max_frames=25)
    steps, frames = finish(method, state)
    assert frames.shape == (25, books) and 0 <= frames.min() and frames.max() < tiny_lm.config.speech_codes
    assert all(len(s.marks) == len(s.frames) for s in steps)
    held_back = (books - 1) * d if strategy == "delay" else 0
    assert [len(s.frames) for s in steps] == [0] * held_back + [1] * 25  # the first whole frame after (K - 1) d steps
    assert state.caches["backbone"].length == len(prefix.x) + prompt + len(steps) - 1
    assert ("depth" in state.caches) == (strategy == "hierarchical")
    for book in range(books):
        assert len(frames[:, book].unique()) > 5  # drawn, not padding or leftovers


def spiked(lm, at_step: int):
    """A decoder whose logits end speech at one given step (row of the backbone after the prefix) and nowhere before."""
    calls = [0]
    plain = lm.logits

    def logits(hidden):
        out = plain(hidden)
        out[..., 32:] = float("-inf")
        if calls[0] == at_step:
            out[..., 32] = 1e4
        calls[0] += 1
        return out

    return logits


@pytest.mark.parametrize("strategy, books, d", MULTI)
@pytest.mark.parametrize("frames", [0, 1, 9])
def test_end_of_speech_flushes_the_tail_and_keeps_every_frame(
    strategy, books, d, frames, tiny_lm, tiny_prefix, monkeypatch
):
    """The run with end of speech at frame n must speak what a run forced to n frames speaks: nothing lost or
    invented."""
    method = make_method(tiny_lm)
    forced = finish(method, start(method, tiny_prefix, strategy, books, d, GREEDY, max_frames=max(1, frames)))[1][
        :frames
    ]
    decoder = method.strategies[strategy].decoder
    monkeypatch.setattr(decoder, "logits", spiked(decoder, frames))
    state = start(method, tiny_prefix, strategy, books, d, GREEDY, max_frames=40, forced=False)
    steps, spoken = finish(method, state)
    assert torch.equal(spoken, forced) and len(spoken) == frames
    tail = (books - 1) * d if strategy == "delay" else 1
    assert len(steps) == (frames + tail if frames else 1)
    replay = method.replay(state)
    assert len(replay.rows) == len(steps) and sum(replay.frames_of) == frames


def test_tail_after_the_end_hears_that_the_first_book_is_silent(method, tiny_lm, tiny_prefix):
    """Past the end the first book's input is padding, as in training, not an old code."""
    state = start(method, tiny_prefix, "delay", 4, 2, max_frames=6)
    finish(method, state)
    pad = tiny_lm.config.speech_codes
    real = state.generated[: 6 + 6] != pad
    steps, lag = torch.arange(12)[:, None], torch.arange(4) * 2
    prompt = (steps - lag < 0) & (steps - lag >= -5)  # the five prompt frames reach into the lead of the later books
    assert torch.equal(real, ((steps - lag >= 0) & (steps - lag < 6)) | prompt)


@pytest.mark.parametrize("strategy, books, d", MULTI)
def test_no_book_knows_a_later_one_of_its_frame(strategy, books, d, method, tiny_prefix, monkeypatch):
    """Change book k of frame 4 by force: books below k of that frame and everything earlier stay as they were."""
    plain = finish(method, start(method, tiny_prefix, strategy, books, d, GREEDY, max_frames=10))[1]
    runner = method.strategies[strategy]
    for book in {1, books - 1}:
        state = start(method, tiny_prefix, strategy, books, d, GREEDY, max_frames=10)
        if strategy == "delay":
            draw, step = runner._sample, 4 + book * d

            def other(s, draw=draw, step=step, book=book):
                codes = draw(s)
                if s.steps == step:
                    codes[book] = (codes[book] + 7) % 32
                return codes

            monkeypatch.setattr(runner, "_sample", other)
        else:
            frame = runner._frame

            def other(s, frame=frame, book=book):
                codes = frame(s)
                if len(s.generated) == 4:
                    codes[book] = (codes[book] + 7) % 32
                return codes

            monkeypatch.setattr(runner, "_frame", other)
        changed = finish(method, state)[1]
        monkeypatch.undo()
        assert torch.equal(changed[:4, :book], plain[:4, :book]) and torch.equal(changed[4, :book], plain[4, :book])
        assert changed[4, book] != plain[4, book] and not torch.equal(changed[4:], plain[4:])


def test_each_head_is_told_the_lower_books_of_its_own_frame(method, tiny_prefix):
    """While decoding, what a head knows equals what training lays out for it."""
    books, d = 4, 2
    strategy = method.strategies["delay"]
    state = start(method, tiny_prefix, "delay", books, d, max_frames=9)
    told = []
    draw = strategy._sample
    strategy._sample = lambda s: told.append(s.known[s.steps % d][:-1]) or draw(s)
    try:
        frames = finish(method, state)[1]
    finally:
        del strategy._sample
    everything = torch.cat([tiny_prefix.prompt_codes[:, :books], frames])
    _, contexts = strategy.adapter.codebooks.look_up(state.table, everything[None])
    expected = strategy.adapter.below(contexts, d)[0, 5:]  # from the first step behind the prompt
    steps, lag = torch.arange(len(told))[:, None], torch.arange(1, books) * d
    inside = (steps - lag >= -5) & (steps - lag < 9)  # a frame that exists
    torch.testing.assert_close(torch.stack(told)[inside], expected[: len(told)][inside])


def test_unrolled_depth_decoder_equals_the_parallel_one(method, tiny_lm):
    """The static unrolled computation over its fixed block, against the training forward and a growing one."""
    adapter = method.modules["qtts-hierarchical"]
    table = adapter.codebooks.table(base_of(tiny_lm).decoder.embedding, 8)
    stacked = StackedDepth(adapter.depth, table[..., adapter.config.hidden :], method.base.backend)
    block = stacked.new_block(8, rows=3)
    assert block.length == 8 and block.nbytes == 8 * block.slot_bytes
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):  # the block is filled anew for every frame: nothing of the last one may remain
        hidden = torch.randn(3, 64, generator=generator)  # three frames at once, as in training; decoding has one
        codes = torch.randint(32, (3, 8), generator=generator)
        rows = []
        assert torch.equal(
            stacked.unrolled(hidden, block.kv, block.length, lambda k, row: rows.append(row) or codes[:, k]), codes
        )
        contexts = adapter.codebooks.look_up(table, codes)[1]
        torch.testing.assert_close(torch.stack(rows, 1), adapter.depth(hidden, contexts), atol=1e-5, rtol=1e-5)
        for k in range(1, 8):  # step by step: a shorter sequence gives the same last row
            part = adapter.depth(hidden, contexts[:, :k])[:, -1]
            torch.testing.assert_close(rows[k - 1], part, atol=1e-5, rtol=1e-5)
    assert block.length == 8


def test_multiplied_out_heads_equal_the_factors(method):
    strategy = method.strategies["hierarchical"]
    rows = torch.randn(1, 7, strategy.adapter.config.depth_width)
    expected = strategy.adapter.scores(rows)
    for k, head in enumerate(strategy.heads):
        torch.testing.assert_close(head(rows[0, k : k + 1]), expected[k], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("strategy, books, d", MULTI + [("single", 8, 1)])
@pytest.mark.parametrize("prompt", [0, 5])
def test_replay_equals_stepwise(strategy, books, d, prompt, method, tiny_lm):
    prefix = make_prefix(tiny_lm, prompt=prompt)
    state = start(method, prefix, strategy, books, d, max_frames=12)
    stepwise, frames = [], []
    while not state.done:
        frames.append(len(method.step(state).frames))
        stepwise.append(state.hidden.flatten())
    replay = method.replay(state)
    decoder = replay.decoder or method.decoder
    hidden, weights = decoder.full(replay.x[None], replay.positions, replay.mask, prefix.text)
    torch.testing.assert_close(hidden[0, replay.rows], torch.stack(stepwise), atol=1e-4, rtol=1e-4)
    assert list(replay.frames_of) == frames and len(replay.x) == state.caches["backbone"].length
    assert [f for f, n in zip(replay.first_frame, replay.frames_of) if n] == list(range(12))


def test_lora_is_merged_in_the_backbone_of_a_strategy(method, tiny_lm):
    adapter = method.modules["qtts-delay"]
    strategy = method.strategies["delay"]
    eye = torch.eye(64)
    merged = strategy.decoder.layers[0].out(eye) - base_of(tiny_lm).decoder.layers[0].out(eye)
    delta = adapter.lora.delta(0, "o_proj").t()
    torch.testing.assert_close(merged, delta, atol=1e-5, rtol=1e-4)
    assert delta.abs().max() > 1e-3


@pytest.mark.parametrize("strategy", ["delay", "hierarchical"])
def test_two_runs_interleaved_equal_two_runs_apart(strategy, method, tiny_prefix, tiny_lm):
    other = make_prefix(tiny_lm, text=9, prompt=2, seed=5)

    def both():
        return [start(method, p, strategy, 4, 2, seed=s) for p, s in ((tiny_prefix, 1), (other, 2))]

    apart = [finish(method, state)[1] for state in both()]
    states, spoken = both(), ([], [])
    while not all(s.done for s in states):
        for state, frames in zip(states, spoken):
            if not state.done:
                frames.append(method.step(state).frames)
    for frames, alone in zip(spoken, apart):
        assert torch.equal(torch.cat(frames), alone)


@pytest.mark.parametrize("strategy", ["delay", "hierarchical"])
def test_seeds(strategy, method, tiny_prefix):
    a, b, c = (finish(method, start(method, tiny_prefix, strategy, seed=s))[1] for s in (1, 1, 2))
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_repetition_is_watched_in_the_first_book_only(method, tiny_prefix):
    """A residual book may well repeat itself (silence does); the first may not get stuck."""
    state = start(method, tiny_prefix, "delay", 4, 1, Sampling(0.01, 0, 1.0, 20, 0.1), max_frames=30)
    spoken = finish(method, state)[1]
    assert set(state.history.tokens[0].tolist()) <= set(spoken[:, 0].tolist())


def test_engine_plays_all_codebooks_and_maps_attention(tiny_lm, tiny_stack, tiny_prompt):
    tiny_stack.modules = make_method(tiny_lm).modules
    for strategy in ("delay", "hierarchical"):
        options = QTTS.Options(strategy=strategy, codebooks=4)
        done = run(
            tiny_stack, Request("one", tiny_prompt, "qtts", options, LIVELY, forced_frames=20, capture_attention=True)
        )
        assert done.codes.shape == (20, 4) and len(done.audio) == 20 * 20
        assert done.snapshot.method_stats["codebooks"] == 4
        assert done.attention.step_end_seconds[-1] == pytest.approx(20 / 50)
        assert done.snapshot.backbone_steps == 20 + (3 if strategy == "delay" else 0)


def test_options_are_checked(method, tiny_lm):
    for bad in ({"codebooks": 3}, {"delay": 0}, {"delay": 5}, {"strategy": "flat"}):
        with pytest.raises(UserError):
            QTTS.Options(**bad)
    assert QTTS.Options.parse({"strategy": "hierarchical", "codebooks": "4"}).codebooks == 4
    with pytest.raises(UserError, match="strategy=single"):
        start(method, make_prefix(tiny_lm, codebooks=1), "delay", 8)


def test_registered(tiny_lm):
    assert METHODS["qtts"] is QTTS and set(QTTS.needs_weights) <= set(QTTS.build_modules(tiny_lm))


def test_a_strategy_without_weights_says_how_to_make_them(tiny_lm, tiny_prefix):
    bare = QTTS(base_of(tiny_lm))
    assert len(finish(bare, start(bare, tiny_prefix, "single", max_frames=5))[1]) == 5
    for strategy in ("delay", "hierarchical"):
        with pytest.raises(UserError, match=f"train qtts-{strategy}"):
            start(bare, tiny_prefix, strategy)


def test_adapters_stay_small_at_the_bundled_size():
    """Below 8 MB each in half precision; the parameter counts of the model cards."""
    from tts_demo.config import LMConfig
    from tts_demo.lm import LanguageModel

    for module in QTTS.build_modules(LanguageModel(LMConfig())).values():
        assert 1e6 < sum(p.numel() for p in module.parameters()) < 4e6


def test_a_fresh_model_at_the_paper_size_can_be_shaped():
    from tts_demo.config import LMConfig
    from tts_demo.methods.qtts.codebooks import QTTSConfig

    c = QTTSConfig.of(LMConfig(hidden=896, heads=14, kv_heads=2, layers=24, ffn=4864, speech_codes=6561))
    assert c.rank == 64 and c.entries == 6561 and c.depth_width <= 256 and c.depth_width % c.depth_heads == 0


def test_adapters_come_back_from_a_checkpoint(method, tiny_lm, tmp_path):
    from tts_demo import checkpoints

    fresh = QTTS.build_modules(tiny_lm)
    for name, module in method.modules.items():
        checkpoints.save_module(tmp_path, name, module, dtype=torch.float32)
        loaded = checkpoints.load_module(tmp_path, name, fresh[name])
        assert all(torch.equal(v, module.state_dict()[k]) for k, v in loaded.state_dict().items())
        assert checkpoints.read_config(tmp_path, name)["config"]["codebooks"] == 8
