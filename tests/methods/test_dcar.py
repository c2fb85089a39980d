"""DCAR: heads read the right positions, chunks of one are the baseline, the policy stays in its range, runs replay."""

from __future__ import annotations

import pytest
import torch

from conftest import base_of, finish, make_prefix
from tts_demo.config import Sampling, UserError
from tts_demo.lm.masks import prefix_mask
from tts_demo.methods import METHODS, find
from tts_demo.methods.baseline import Baseline
from tts_demo.methods.dcar.heads import Heads
from tts_demo.methods.dcar.method import Dcar
from tts_demo.methods.dcar.policy import Policy, PolicyRunner
from tts_demo.methods.dcar.ranges import ChunkRange, confident_size

GREEDY, WARM = Sampling(temperature=0), Sampling(1.0, 0, 1.0)


@pytest.fixture(scope="module")
def method(tiny_lm) -> Dcar:
    """Random heads, LoRA and policy that really do something."""
    torch.manual_seed(5)
    modules = Dcar.build_modules(tiny_lm)
    for module in modules.values():
        for weight in module.parameters():
            weight.data.add_(torch.randn_like(weight) * 0.1)
        module.eval().requires_grad_(False)
    modules["dcar-policy"].core.head.weight.data.mul_(10)
    return Dcar(base_of(tiny_lm), modules)


def start(method, prefix, word, sampling=WARM, seed=0, max_frames=30, forced=True):
    return method.prefill(
        prefix,
        method.Options(word) if isinstance(method, Dcar) else method.Options(),
        sampling,
        torch.Generator().manual_seed(seed),
        max_frames,
        forced,
    )


@pytest.mark.parametrize(
    "word, sizes, chooser",
    [
        ("2,3,4", (2, 3, 4), "policy"),
        (" 4, 2 ", (2, 4), "policy"),
        ("free", (1, 2, 3, 4, 5, 6, 7), "policy"),
        ("3", (3,), "fixed"),
        ("random:2,3,4", (2, 3, 4), "random"),
        ("Random:Free", (1, 2, 3, 4, 5, 6, 7), "random"),
        ("sure:2,3,4", (2, 3, 4), "sure"),
        ("sure: 3", (3,), "fixed"),
        ("2,2", (2,), "fixed"),
    ],
)
def test_chunk_range_is_read(word, sizes, chooser):
    assert ChunkRange.parse(word) == ChunkRange(sizes, chooser)


BAD = (
    "",
    "0",
    "8",
    "12",
    "2,,3",
    "2-4",
    "2,3,",
    "random",
    "random:",
    "sure:",
    "policy:2,3",
    "fast",
    "-1",
    "2.0",
    "2,3@2.5",
    "sure:2,3@2.5",
)


@pytest.mark.parametrize("word", BAD)
def test_a_bad_chunk_range_is_a_person_s_mistake(word):
    with pytest.raises(UserError, match="chunk_range must be"):
        Dcar.Options.parse({"chunk_range": word})


@pytest.mark.parametrize("word, mean", [("random:2,3,4@2.3", 2.3), ("random:2,3,4@3", 3.0), ("random:1,7@6.4", 6.4)])
def test_sizes_by_chance_have_the_mean_that_is_asked_for(method, tiny_prefix, word, mean):
    """So that a policy is compared with chance at its own mean size."""
    chunks = ChunkRange.parse(word)
    chances = chunks.chances(torch.device("cpu"))[0]
    chances, sizes = chances / chances.sum(), torch.tensor(chunks.sizes).float()
    assert float(chances @ sizes) == pytest.approx(mean, abs=1e-4)
    steps, _ = finish(method, start(method, tiny_prefix, word, max_frames=400))
    error = (chances @ (sizes - mean) ** 2 / len(steps)).sqrt()  # of the mean of so many draws
    assert steps[-1].stats["mean_chunk_size"] == pytest.approx(mean, abs=4 * float(error))


@pytest.mark.parametrize("mean", ("2", "4", "9", "", "many", "nan", "3@3"))
def test_a_mean_outside_the_sizes_is_a_person_s_mistake(mean):
    with pytest.raises(UserError, match="must lie between 2 and 4"):
        Dcar.Options.parse({"chunk_range": f"random:2,3,4@{mean}"})


def test_heads_equal_a_loop_over_single_heads(method):
    heads, hidden = method.heads, torch.randn(5, method.lm.config.hidden)
    for j, logits in enumerate(heads(hidden)):
        x = hidden
        for b in range(4):
            x = x + torch.nn.functional.silu(x @ heads.weight[b, j] + heads.bias[b, j])
        torch.testing.assert_close(logits, x @ heads.out[j].t(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(heads(hidden, 2), heads(hidden)[:2], atol=1e-4, rtol=1e-4)


def test_fresh_heads_say_what_the_base_head_says(tiny_lm):
    hidden = torch.randn(3, tiny_lm.config.hidden)
    torch.testing.assert_close(Heads(tiny_lm)(hidden), tiny_lm.head(hidden).expand(6, -1, -1), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling()], ids=["greedy", "sampled"])
def test_chunks_of_one_are_the_baseline(tiny_lm, tiny_prefix, sampling):
    dcar = Dcar(base_of(tiny_lm), Dcar.build_modules(tiny_lm))  # untrained LoRA adds nothing
    ours, theirs = (
        finish(m, start(m, tiny_prefix, "1", sampling, forced=False))[1] for m in (dcar, Baseline(base_of(tiny_lm)))
    )
    assert torch.equal(ours, theirs) and len(ours) > 3


def test_a_fixed_chunk_is_the_heads_greedy_choice_without_a_cache(method, tiny_prefix):
    lm, decoder = method.lm, method.decoder
    _, frames = finish(method, start(method, tiny_prefix, "3", GREEDY, max_frames=12))
    x, expected = torch.cat([tiny_prefix.x, lm.embed_speech(tiny_prefix.prompt_codes[:, 0])]), []
    while len(expected) < 12:
        hidden, _ = decoder.full(x[None], torch.arange(len(x)), prefix_mask(len(tiny_prefix.x), len(x), True))
        logits = torch.cat([decoder.logits(hidden[0, -1:]), method.heads(hidden[0, -1:], 2)[:, 0]])
        tokens = logits[:, : lm.config.speech_codes].argmax(-1)
        expected += tokens.tolist()
        x = torch.cat([x, lm.embed_speech(tokens)])
    assert frames[:, 0].tolist() == expected


def test_head_logits_line_up_predictions_of_one_token(method, tiny_prefix):
    codes = torch.randint(method.lm.config.speech_codes, (12,), generator=torch.Generator().manual_seed(3))
    found = method.head_logits(tiny_prefix, codes)
    assert found.shape == (7, 6, method.lm.config.vocab)
    x = torch.cat([tiny_prefix.x, method.lm.embed_speech(torch.cat([tiny_prefix.prompt_codes[:, 0], codes]))])
    start = len(tiny_prefix.x) + len(tiny_prefix.prompt_codes) - 1
    hidden, _ = method.decoder.full(x[None], torch.arange(len(x)), prefix_mask(len(tiny_prefix.x), len(x), True))
    # the token 6 + column, predicted ``ahead`` tokens earlier than by the base head
    for ahead, column in ((0, 0), (1, 2), (6, 5)):
        row = hidden[0, start + 6 + column - ahead][None]
        logits = method.decoder.logits(row)[0] if ahead == 0 else method.heads(row)[ahead - 1, 0]
        torch.testing.assert_close(found[ahead, column], logits, atol=1e-4, rtol=1e-4)


def test_a_confident_size_ends_before_the_first_head_that_is_not_sure():
    sure, unsure = torch.tensor([9.0, 0, 0, 0]), torch.zeros(4)
    heads = lambda pattern: torch.stack([sure if c == "s" else unsure for c in pattern])
    sizes = lambda pattern, allowed: confident_size(allowed, heads(pattern))
    assert [sizes(p, (2, 3, 4)) for p in ("ssss", "uuuu", "sssu", "ssus", "uuss")] == [4, 2, 3, 2, 4]
    assert [sizes(p, (1, 4)) for p in ("usss", "ssus")] == [4, 1]  # all heads between two sizes count


def test_the_rule_without_training_takes_the_tokens_of_confident_heads(method, tiny_prefix):
    bare = Dcar(method.base, {"dcar-heads": method.heads})  # needs no policy
    state = start(bare, tiny_prefix, "sure:2,3,4", GREEDY, max_frames=24)
    while not state.done:
        step = bare.step(state)
        logits = torch.cat([bare.decoder.logits(state.hidden[:, 0]), method.heads(state.hidden[:, 0], 3)[:, 0]])
        assert len(step.frames) == min(confident_size((2, 3, 4), logits), 24 - state.emitted + len(step.frames))
        codes = method.lm.config.speech_codes
        assert step.frames[:, 0].tolist() == logits[: len(step.frames), :codes].argmax(-1).tolist()


@pytest.mark.parametrize("word", ["2,3,4", "3,7", "free", "random:1,5", "random:2,3,4"])
def test_sizes_never_leave_the_range(method, tiny_prefix, word):
    state = start(method, tiny_prefix, word, max_frames=120)
    steps, frames = finish(method, state)
    allowed = ChunkRange.parse(word).sizes
    assert {len(s.frames) for s in steps[:-1]} <= set(allowed) and len({len(s.frames) for s in steps}) > 1
    assert len(frames) == 120 and frames.max() < method.lm.config.speech_codes
    stats = steps[-1].stats
    assert sum(stats["chunk_sizes"].values()) == len(steps) and set(stats["chunk_sizes"]) == set(map(str, allowed))
    assert stats["mean_chunk_size"] == pytest.approx(
        sum(int(k) * v for k, v in stats["chunk_sizes"].items()) / len(steps)
    )


def test_the_policy_is_counted_and_its_cache_listed_apart(method, tiny_prefix):
    state = start(method, tiny_prefix, "2,3,4")
    steps, _ = finish(method, state)
    assert state.caches["policy"].length == len(steps) and set(state.caches) == {"backbone", "policy"}
    assert 0 < steps[-1].stats["policy_share_of_time"] < 1 and steps[-1].stats["policy_ms_per_step"] > 0
    fixed = start(method, tiny_prefix, "3")
    assert set(fixed.caches) == {"backbone"} and "policy_ms_per_step" not in method.step(fixed).stats


def test_an_untrained_policy_is_asked_for_clearly(method, tiny_prefix):
    bare = Dcar(method.base, {"dcar-heads": method.heads})
    with pytest.raises(UserError, match="train dcar-policy"):
        start(bare, tiny_prefix, "2,3,4")
    for word in ("3", "random:2,3,4"):
        assert len(finish(bare, start(bare, tiny_prefix, word))[1]) == 30
    assert Dcar.needs_weights == ("dcar-heads",) and METHODS["dcar"] is Dcar


@pytest.mark.parametrize("name", ("dcar-no-chase", "dcar-no-penalty"))
def test_a_comparison_model_reads_its_own_policy_and_speaks_with_it_as_the_method_would(method, tiny_prefix, name):
    kind = find(name)
    assert kind.variant_of == "dcar" and set(kind.build_modules(method.lm)) == {"dcar-heads", name}
    assert kind.modules_read(kind.Options()) == {"dcar-heads", name}
    assert kind.modules_read(kind.Options(chunk_range="3")) == {"dcar-heads"}
    same = kind(method.base, {"dcar-heads": method.heads, name: method.modules["dcar-policy"]})
    codes = [finish(m, start(m, tiny_prefix, "2,3,4", seed=3))[1] for m in (method, same)]
    assert torch.equal(*codes)
    with pytest.raises(UserError, match=f"train {name}"):
        start(kind(method.base, {"dcar-heads": method.heads}), tiny_prefix, "2,3,4")


@pytest.mark.parametrize("name", ("dcar-short-heads", "dcar-equal-heads"))
def test_heads_for_comparison_stand_in_a_folder_of_their_own_and_speak_as_the_method_would(method, tiny_prefix, name):
    kind = find(name)
    assert kind.variant_of == "dcar" and set(kind.build_modules(method.lm)) == {name} == set(kind.needs_weights)
    for word in ("3", "random:2,3,4"):
        assert kind.modules_read(kind.Options(chunk_range=word)) == {name}
        same = kind(method.base, {name: method.heads})
        codes = [finish(m, start(m, tiny_prefix, word, seed=3))[1] for m in (method, same)]
        assert torch.equal(*codes)
    with pytest.raises(UserError, match="train dcar-policy"):
        start(same, tiny_prefix, "2,3,4")


def test_end_of_speech_cuts_the_chunk(method, tiny_prefix):
    ended = 0
    for seed in range(20):
        state = start(method, tiny_prefix, "4", Sampling(2.0, 0, 1.0), seed, max_frames=80, forced=False)
        steps, frames = finish(method, state)
        assert (frames < method.lm.config.speech_codes).all() and len(steps[-1].marks) == len(steps[-1].frames)
        replay = method.replay(state)
        assert sum(replay.frames_of) == len(frames) and len(replay.rows) == len(steps)
        ended += len(frames) < 80
    assert ended


@pytest.mark.parametrize("word", ["2,3,4", "5"])
def test_replay_equals_the_steps(method, tiny_prefix, word):
    state = start(method, tiny_prefix, word, max_frames=31)
    stepwise = []
    while not state.done:
        method.step(state)
        stepwise.append(state.hidden[0, 0])
    replay = method.replay(state)
    hidden, _ = method.decoder.full(replay.x[None], replay.positions, replay.mask)
    torch.testing.assert_close(hidden[0, replay.rows], torch.stack(stepwise), atol=1e-4, rtol=1e-4)
    assert sum(replay.frames_of) == 31 and replay.first_frame[1] == replay.frames_of[0]


def test_interleaved_runs_equal_runs_apart(method, tiny_prefix):
    other = make_prefix(method.lm, text=4, seed=9)
    apart = [
        finish(method, start(method, p, w, seed=s))[1] for p, w, s in ((tiny_prefix, "2,3,4", 1), (other, "free", 2))
    ]
    states = [start(method, tiny_prefix, "2,3,4", seed=1), start(method, other, "free", seed=2)]
    frames = [[], []]
    while not all(s.done for s in states):
        for state, into in zip(states, frames):
            if not state.done:
                into.append(method.step(state).frames)
    assert all(torch.equal(torch.cat(f), a) for f, a in zip(frames, apart))


def test_policy_steps_equal_its_training_pass_and_see_only_the_past(method):
    policy, runner = method.modules["dcar-policy"], PolicyRunner(method.modules["dcar-policy"], method.base.backend)
    hidden = torch.randn(2, 6, method.lm.config.hidden)
    allowed = torch.tensor([[0, 1, 1, 1, 0, 0, 0], [1] * 7]).bool()
    whole = policy(hidden, allowed)
    cache = runner.new_cache(6, batch=2)
    told = runner.range_terms(allowed)
    stepped = torch.stack([runner.step(hidden[:, i], told, cache) for i in range(6)], 1)
    torch.testing.assert_close(stepped, whole, atol=1e-4, rtol=1e-4)
    changed = hidden.clone()
    changed[:, 4:] += 1
    torch.testing.assert_close(policy(changed, allowed)[:, :4], whole[:, :4])
    assert not torch.allclose(policy(changed, allowed)[:, 4:], whole[:, 4:])
    assert not torch.allclose(policy(hidden, ~allowed | True)[0], whole[0])  # the same states, another range


def test_a_fresh_policy_is_its_reference(tiny_lm):
    policy, allowed = Policy(tiny_lm), torch.tensor([[0, 1, 1, 1, 0, 0, 0]]).bool()
    log_probs = policy(torch.randn(1, 4, tiny_lm.config.hidden), allowed).log_softmax(-1)
    torch.testing.assert_close(log_probs, policy.reference(allowed)[:, None].expand(1, 4, 7))


def test_heads_learn_their_own_offset(tiny_lm):
    """On a sequence that counts upwards, head j must learn to say the token 1 + j places on, exactly."""
    codes = torch.arange(24) % tiny_lm.config.speech_codes
    hidden = torch.nn.functional.one_hot(codes, tiny_lm.config.hidden).float()  # row t knows token t
    heads = Heads(tiny_lm)
    torch.nn.init.normal_(heads.out, std=0.02)
    optimiser = torch.optim.Adam([heads.weight, heads.bias, heads.out], 5e-3)
    targets = torch.stack([codes[2 + j : 18 + j] for j in range(6)])  # rows 0..15: y_{t+1+j}, base head being y_{t+1}
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(heads(hidden[:16]).flatten(0, 1), targets.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert torch.equal(heads(hidden[:16]).argmax(-1), targets)
