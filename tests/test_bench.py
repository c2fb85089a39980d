"""Bench on a tiny random stack: rows, exact memory, the peer, the batch, the last line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from conftest import TINY

from tts_demo import bench
from tts_demo.bench_peer import Peer
from tts_demo.bench_stack import SHAPES, ShapeStack
from tts_demo.cli import main
from tts_demo.config import Sampling
from tts_demo.evaluate import rows_for


@pytest.fixture(scope="module")
def measured():
    stack = ShapeStack("tiny", replace(TINY, max_positions=2048), 50, torch.device("cpu"), torch.float32)
    rows = rows_for(["baseline", "tldr"], {"patch_size": "4"})
    run = bench.Bench(stack, stack.prompt, rows, seconds=0.5, seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "ROUNDS", 2)
        run.run(peer=True)
        report = run.report()
        report["batch"] = run.batch(2)
    return run, report


def test_report_is_json_and_complete(measured):
    _, report = measured
    again = json.loads(json.dumps(report))
    assert {"device", "dtype", "runtime", "bandwidth_gb_s", "torch", "load_average"} <= again["conditions"].keys()
    base, tldr = again["rows"].values()
    assert base["lm_gain"] == 1 and base["frames_per_step"] == 1 and again["conditions"]["random_weights"]
    assert tldr["frames_per_step"] > 3.5 and 0 < base["ceiling_share"] < 1.5
    low, high = tldr["spread"]["lm_gain"]
    assert 0 < low <= tldr["lm_gain"] <= high and again["peer"]["ours_over_peer"] > 0


def test_kv_bytes_are_exact(measured):
    _, report = measured
    token = 2 * 2 * 2 * 16 * 4  # K and V, layers, kv heads, width, bytes
    base, tldr = report["rows"].values()
    assert base["kv_prompt_and_text"] == (63 + 150) * token
    assert (base["kv_speech_12s"], base["kv_speech_20s"]) == (599 * token, 999 * token)
    assert tldr["kv_speech_20s"] < 0.27 * base["kv_speech_20s"]
    batch = report["batch"]
    assert batch["kv_bytes_live"] == 2 * (63 + 150 + 24) * token and batch["size"] == 2


def test_table_shows_every_row_and_what_the_weights_were(measured):
    run, report = measured
    text = bench.table(report)
    assert all(row.label in text for row in run.rows) and "Random weights" in text and "transformers generate" in text


def test_peer_generates_with_our_weights(measured):
    """Greedy, causal: transformers' generate must say what our baseline says."""
    stack = measured[0].stack
    prefix = stack.prefix(stack.prompt, "")
    peer, x = Peer(stack.lm), torch.cat([prefix.x, stack.lm.embed_speech(prefix.prompt_codes[:, 0])])[None]
    first = peer.model.lm_head(peer.model.model(inputs_embeds=x).last_hidden_state[:, -1])
    cache = stack.decoder.new_cache(x.shape[1])
    with torch.inference_mode():
        ours = stack.decoder.logits(stack.decoder.forward(x, cache, 0)[:, -1])
    torch.testing.assert_close(first, ours, atol=1e-4, rtol=1e-4)
    assert peer.seconds_per_token(prefix, 6, Sampling(0.0), 0) > 0
    assert stack.lm.backbone.embed_tokens is not stack.lm.speech_embedding  # put back


def test_paper_shape():
    config, rate = SHAPES["qwen2-0.5b"]
    assert (config.vocab, config.head_dim, rate) == (6564, 64, 25)


@pytest.mark.parametrize("words, said", [
    (["--runtime", "graph", "--device", "cpu"], "needs a CUDA device"), (["--batch", "0"], "--batch must be 1 or more"),
    (["--methods", "nonsense"], "nonsense"),
])
def test_mistakes_are_one_sentence(words, said, capsys):
    assert main(["bench", *words]) == 2
    assert said in capsys.readouterr().err
