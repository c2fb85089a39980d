"""The live flow's memory: nothing final is computed twice, within a budget, and the mel stays that of one pass."""

from __future__ import annotations

import dataclasses
import gc

import pytest
import torch
from cosyvoice_tiny import FLOW_2, FLOW_3, randomise
from torch.utils.flop_counter import FlopCounterMode

from tts_demo.lm.graphs import BufferPool
from tts_demo.measure import launches
from tts_demo.runtime import launches_inside
from tts_demo.stacks.cosyvoice.configs import VERSION_2, VERSION_3
from tts_demo.stacks.cosyvoice.flow import build_flow, flow_noise
from tts_demo.stacks.cosyvoice.memory import GROWTH, Budget, FlowMemory
from tts_demo.stacks.cosyvoice.pooled import BUFFERS, PIECES, PooledMemory
from tts_demo.stacks.cosyvoice.prompt import PromptFeatures
from tts_demo.stacks.cosyvoice.vocoder import LiveFlow, noise_for

FLOWS, SCALES = {2: FLOW_2, 3: FLOW_3}, {2: 0.3, 3: 0.15}
BLOCK, AHEAD, PROMPT = 5, 3, 13  # tokens; two blocks of the prompt are final before any speech


@pytest.fixture(params=[2, 3])
def flow(request):
    return randomise(build_flow(FLOWS[request.param]), scale=SCALES[request.param])


@pytest.fixture
def voice() -> PromptFeatures:
    torch.manual_seed(1)
    return PromptFeatures(
        torch.randint(6561, (PROMPT,)), torch.randn(1, 192), torch.randn(1, 80, 2 * PROMPT - 1), 1.0, (), False
    )


def speech(tokens: int, seed: int = 2) -> torch.Tensor:
    return torch.randint(6561, (tokens,), generator=torch.Generator().manual_seed(seed))


def streamed(live: LiveFlow, tokens: torch.Tensor, hops: tuple[int, ...], prompt: int = PROMPT) -> torch.Tensor:
    """In chunks of so many blocks, in turn, as the vocoder asks for them."""
    live.begin()
    mels, end, number = [], BLOCK - prompt % BLOCK, 0
    while end + AHEAD <= len(tokens):
        mels.append(live.extend(tokens[:end], tokens[end : end + AHEAD]))
        end, number = end + hops[number % len(hops)] * BLOCK, number + 1
    return torch.cat([*mels, live.extend(tokens, None)], -1)


def in_one_pass(flow, voice: PromptFeatures, tokens: torch.Tensor) -> torch.Tensor:
    everything = torch.cat((voice.tokens, tokens))
    noise = noise_for(flow_noise(), len(everything))
    return flow(everything[None], voice.speaker, voice.mel, noise, blocks=True)[:, :, 2 * len(voice.tokens) :]


@pytest.mark.parametrize("blocks", [0, GROWTH, 2 * GROWTH, 1000], ids="{} blocks fit".format)
def test_within_any_budget_it_is_one_pass(flow, voice, blocks):
    """Two segments, of which the second finds the prompt remembered."""
    budget = Budget(blocks * BLOCK * flow.config.remembered_bytes)
    live = LiveFlow(flow, flow_noise(), voice, budget)
    for seed, count in ((2, 64), (3, 41)):
        tokens = speech(count, seed)
        made = streamed(live, tokens, (1, 2, 4))
        torch.testing.assert_close(made, in_one_pass(flow, voice, tokens), rtol=0, atol=1e-4)
    assert (live.again < BLOCK) == (blocks == 1000)  # the end of speech is never remembered


def test_runs_share_the_budget_and_give_it_back(flow, voice):
    cost = GROWTH * BLOCK * flow.config.remembered_bytes
    budget = Budget(3 * cost)
    first, second = (LiveFlow(flow, flow_noise(), voice, budget) for _ in range(2))
    streamed(first, speech(36), (1,))
    streamed(second, speech(36), (1,))
    assert not budget.take(1) and second.again > first.again
    del first, second
    gc.collect()
    assert budget.take(3 * cost) and not budget.take(1)


def test_what_is_remembered_is_what_the_budget_counts(flow, voice):
    live = LiveFlow(flow, flow_noise(), voice, Budget(1 << 40))
    streamed(live, speech(64), (2,))
    kept = [t for (_, step), t in live._memory._attended.items() if step >= 0]
    counted = live._memory._capacity * flow.config.remembered_bytes
    assert sum(t.numel() * 4 for t in kept) == counted == sum(live._memory._taken)


@pytest.fixture
def pooled(flow):
    """The path of a GPU, as plain code."""
    flow.pool = BufferPool(enabled=False)
    return flow


@pytest.mark.parametrize(("prompt", "seconds"), [(PROMPT, 13), (PROMPT, 40), (2, 13), (79, 13)])
def test_padded_passes_are_one_pass(pooled, prompt, seconds):
    """A second is a block. Two segments, of which the second finds the prompt in memory; at 40 s buffers grow."""
    voice = PromptFeatures(speech(prompt, 5), torch.randn(1, 192), torch.randn(1, 80, 2 * prompt), 1.0, (), False)
    live = LiveFlow(pooled, flow_noise(), voice, Budget(1 << 40))
    for seed, count in ((2, BLOCK * seconds - 1), (3, 41)):
        made = streamed(live, speech(count, seed), (1, 2, 4), prompt)
        torch.testing.assert_close(made, in_one_pass(pooled, voice, speech(count, seed)), rtol=0, atol=1e-4)
        assert isinstance(live._memory, PooledMemory)


def test_a_graph_a_size(pooled, voice):
    """However long the runs, however long their last pieces: one graph for each size of buffer and piece."""
    live = LiveFlow(pooled, flow_noise(), voice, Budget(1 << 40))
    for count in range(60, 74):
        streamed(live, speech(count), (1, 2, 4))
    assert len(pooled.pool._leased[live._memory._lease].graphs) == len(PIECES)
    found = launches.Launches()
    with launches_inside(found.launch), launches._Waits(found):
        live.begin()
        live.extend(speech(BLOCK), speech(AHEAD))
    assert found.graphs == 1 and not found.refused and not found.waits, "CUDA could capture it, and nothing waits"


@pytest.mark.parametrize("fits", [0, 1])
def test_a_buffer_that_does_not_fit_is_done_without(pooled, voice, fits):
    budget = Budget(fits * BUFFERS[0] * BLOCK * pooled.config.remembered_bytes)
    live, tokens = LiveFlow(pooled, flow_noise(), voice, budget), speech(30 * BLOCK)
    expected = in_one_pass(pooled, voice, tokens)
    for _ in range(2):  # the second begins without
        torch.testing.assert_close(streamed(live, tokens, (1, 2, 4)), expected, rtol=0, atol=1e-4)
    assert isinstance(live._memory, FlowMemory) and not isinstance(live._memory, PooledMemory)


def test_buffers_are_used_again_and_counted_once(pooled, voice):
    budget, tokens = Budget(BUFFERS[0] * BLOCK * pooled.config.remembered_bytes), speech(40)
    for _ in range(2):
        live = LiveFlow(pooled, flow_noise(), voice, budget)
        torch.testing.assert_close(
            streamed(live, tokens, (1, 2)), in_one_pass(pooled, voice, tokens), rtol=0, atol=1e-4
        )
        assert isinstance(live._memory, PooledMemory)
        del live
        gc.collect()
    assert not budget.take(1)


def test_compiled_blocks_compute_the_same(pooled, voice):
    """Traced whole, without what the passes remember; the kernels are made where there is a GPU."""
    backends: list[int] = []

    def backend(graph, inputs):
        backends.append(len(inputs))
        return graph.forward

    tokens = speech(36)
    expected = in_one_pass(pooled, voice, tokens)
    pooled.compile_blocks(backend=backend)
    live = LiveFlow(pooled, flow_noise(), voice, Budget(1 << 40))
    torch.testing.assert_close(streamed(live, tokens, (1, 2)), expected, rtol=0, atol=1e-4)
    traced = len(backends)
    streamed(live, tokens, (1, 2))
    assert 2 <= traced == len(backends), "nothing is compiled again"


@pytest.mark.parametrize("count", [5, 41, 400])
def test_a_whole_segment_is_padded_too(flow, voice, count):
    """400 tokens are more than any size."""
    given = speech(count)[None], voice.speaker, voice.mel, noise_for(flow_noise(), count)
    plain = flow(*given)
    flow.pool = BufferPool(enabled=False)
    torch.testing.assert_close(flow(*given), plain, rtol=0, atol=1e-4)
    assert bool(flow.pool.keys) == (count < 400)


def work(config, seconds: int) -> float:
    """Multiply-adds of the live flow a second of speech: counted, not computed."""
    total = []
    for steps in (1, 2):  # every Euler step is alike
        with torch.device("meta"):
            flow = build_flow(dataclasses.replace(config, steps=steps)).to("meta").eval().requires_grad_(False)
            noise, mel = torch.empty(1, 80, 15_000), torch.empty(1, 80, 150)
        voice = PromptFeatures(torch.zeros(75, dtype=torch.long), torch.zeros(1, 192), mel, 3.0, (), False)
        live, tokens = LiveFlow(flow, noise, voice, Budget(1 << 60)), noise.new_zeros(25 * seconds, dtype=torch.long)
        counter, end, hop = FlopCounterMode(display=False), 25, 1
        with torch.inference_mode(), counter:
            while end + AHEAD <= len(tokens):
                live.extend(tokens[:end], tokens[end : end + AHEAD])
                end, hop = end + 25 * hop, min(2 * hop, 4)
            live.extend(tokens, None)
        total.append(counter.get_total_flops() / 2)
    return (total[0] + (config.steps - 1) * (total[1] - total[0])) / seconds


SHALLOW = {  # the released widths: what grows with the length of a run has the same share in every layer
    "version 2": dataclasses.replace(VERSION_2.flow, blocks=1, up_blocks=1, transformers=1, mid_blocks=1),
    "version 3": dataclasses.replace(VERSION_3.flow, depth=1),
}


@pytest.mark.parametrize("config", SHALLOW.values(), ids=SHALLOW)
def test_a_second_of_speech_costs_the_same_however_long_the_run(config):
    assert work(config, 30) < 1.1 * work(config, 6)
