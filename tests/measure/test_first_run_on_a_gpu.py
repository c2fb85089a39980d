"""``bench --gpu`` on tiny shapes of the CPU: what it appends, and what the report says of it."""

from dataclasses import replace

import pytest
import torch
from stacks.cosyvoice_tiny import tiny

from conftest import TINY
from tts_demo.cli.main import main
from tts_demo.measure import gpu
from tts_demo.measure.records import RECORDS, Records
from tts_demo.measure.summary import newest
from tts_demo.report.gpu import section
from tts_demo.stacks.random import RandomCosyVoice, ShapeStack

CPU = torch.device("cpu")


def make(shape: str, device: torch.device, dtype: torch.dtype | None, graphs: bool):
    dtype = dtype or torch.float32
    if shape == gpu.WHOLE:
        return RandomCosyVoice(shape, tiny(3), device, dtype, graphs)
    return ShapeStack(shape, replace(TINY, max_positions=2048), 50, device, dtype, graphs)


@pytest.fixture(scope="module")
def records() -> Records:
    kept = Records()
    wanted = {name: gpu.SETTINGS[name] for name in ("baseline", "tldr")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "rows", lambda names=(), real=gpu.rows: real(tuple(wanted)))
        list(gpu.FirstRun(CPU, kept, make, 0.5).run())
    return kept


def test_everything_is_a_record(records):
    found = {(r["stack"], r["row"]): r["figures"] for r in records.read()}
    assert all(r["kind"] == gpu.KIND and r["text"] == "0.5 s, graph" for r in records.read())
    assert found[gpu.CHECKED, gpu.SAME]["same"] == found[gpu.CHECKED, gpu.SAME]["settings"] == 2
    for shape in (gpu.STEPS_OF, gpu.WHOLE):
        assert found[shape, "baseline"]["ms_per_step"] > 0 and found[shape, "tldr patch_size=4"]["lm_gain"] > 0
    checked = found[gpu.WHOLE, gpu.ACOUSTICS]
    assert checked["same"] and set(checked["difference"]) == {"live", "whole", "vocoder"}
    for row in (f"acoustics, {mode}{plain}" for mode in ("live", "whole") for plain in ("", ", plain code")):
        figures = found[gpu.WHOLE, row]
        assert 0 < figures["first_sound"] <= figures["seconds"] >= figures["flow_seconds"] > 0


def test_a_graph_that_said_something_else_is_counted():
    def wrong(shape, device, dtype, graphs):
        stack = make(shape, device, dtype, graphs)
        if graphs:
            assert stack.decoder.pool is not None
            logits = stack.decoder.logits
            stack.decoder.logits = lambda hidden: -logits(hidden)
        return stack

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "rows", lambda names=(), real=gpu.rows: real(("baseline",)))
        assert gpu.FirstRun(CPU, Records(), wrong, 0.5).check()["figures"]["same"] == 0


@pytest.mark.parametrize(("network", "wrong"), [("flow", {"live", "whole"}), ("vocoder", {"vocoder"})])
def test_a_graph_of_flow_or_vocoder_that_computes_something_else_is_found(network, wrong):
    def spoilt(shape, device, dtype, graphs):
        stack = make(shape, device, dtype, graphs)
        if graphs:
            module = stack.parts["flow"].decoder if network == "flow" else stack.hift.conv_post
            next(module.parameters()).mul_(1.1)
        return stack

    found = next(gpu.FirstRun(CPU, Records(), spoilt, 2.0).acoustics())["figures"]
    assert not found["same"] and {name for name, share in found["difference"].items() if share > gpu.CLOSE} == wrong


def test_the_report_has_a_section_of_its_own(records):
    said = section(records.read())
    assert "as graphs, twice, and as plain code 2 of 2 settings say the same tokens" in said
    assert "flow and vocoder compute the same as graphs and as plain code" in said
    assert "| `tldr patch_size=4` |" in said and "| `acoustics, live` |" in said and "ms a step" in said
    assert said.count("| `baseline` |") == 2, "of half a billion weights and of the released model"
    assert section([]) == ""


def test_what_a_gpu_said_leaves_the_newest_set_alone():
    runs = Records(RECORDS).read()
    without = [r for r in runs if r["kind"] != gpu.KIND]
    assert len(runs) > len(without) and newest(runs).where == newest(without).where
    assert "NVIDIA H200" in section(runs)


def test_it_needs_a_gpu(capsys):
    if torch.cuda.is_available():
        pytest.skip("has one")
    assert main(["bench", "--gpu"]) == 2 and "needs a CUDA device" in capsys.readouterr().err
