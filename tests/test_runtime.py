"""Devices and precisions: what is asked for, and what a person is told when it is not there."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest
import torch

from tts_demo.config import UserError
from tts_demo.runtime import (
    CUDAGraphed,
    candidate_dtypes,
    cpu_has_bf16,
    few_threads,
    generator_for,
    pick_device,
    processor,
    work_clock,
)
from tts_demo.stacks import pick_dtype

calls: list = []


def test_devices():
    assert pick_device("cpu").type == "cpu"
    assert pick_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("gpu", "tpu", "cuda:99", "meta"):
        with pytest.raises(UserError, match="use cpu"):
            pick_device(name)


def test_a_processor_is_named_with_the_instructions_torch_uses_on_it():
    """Two machines that a cloud gives one name are told apart, because speeds on them are not to be mixed."""
    named = processor(torch.device("cpu"))
    assert (
        f"({torch.backends.cpu.get_cpu_capability()})" in named and named.endswith(" cores") and len(named.split()) > 3
    )


def test_a_small_model_has_one_thread_on_a_cpu_unless_others_are_asked_for(monkeypatch):
    before, cpu = torch.get_num_threads(), torch.device("cpu")
    try:
        for asked, hidden, expected in ((None, 256, 1), (None, 896, 2), ("2", 256, 2)):
            torch.set_num_threads(2)
            if asked:
                monkeypatch.setenv("OMP_NUM_THREADS", asked)
            else:
                monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
            few_threads(cpu, hidden)
            assert torch.get_num_threads() == expected
    finally:
        torch.set_num_threads(before)


def test_work_on_one_thread_is_what_the_processor_gave_it():
    """Time in which somebody else has the processor does not count; with more threads only the clock tells."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        clock = work_clock(torch.device("cpu"))
        start = clock()
        time.sleep(0.2)
        assert clock() - start < 0.05
        torch.set_num_threads(2)
        assert work_clock(torch.device("cpu")) is time.perf_counter
        assert work_clock(torch.device("cuda")) is time.perf_counter
    finally:
        torch.set_num_threads(before)


def test_precisions_of_the_cpu():
    kinds = candidate_dtypes(torch.device("cpu"))
    assert kinds[0] == torch.float32 and (torch.bfloat16 in kinds) == cpu_has_bf16()


@pytest.mark.parametrize(("capability", "dtype"), [((7, 0), "float32"), ((7, 5), "float32"), ((8, 0), "bfloat16")])
def test_a_gpu_that_only_emulates_bf16_computes_in_float32(monkeypatch, capability, dtype):
    """V100, T4, A100. What torch says of them is not asked: it calls emulation support."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    device = torch.device("cuda:1")
    assert candidate_dtypes(device) == (getattr(torch, dtype),) and pick_dtype(None, device) == getattr(torch, dtype)
    assert pick_dtype("bfloat16", device) == torch.bfloat16  # who asks for it gets it


class OnDevice:
    """As much of a tensor as ``CUDAGraphed`` touches, on a device that this machine has not."""

    shape, dtype, device = (2,), torch.float32, torch.device("cuda:1")


def test_a_graph_is_captured_on_its_inputs_device(monkeypatch):
    """With device 0 current: warm-up and capture on a stream of cuda:1, never the process-wide default stream; the
    first call captures, every call replays."""
    calls.clear()

    class Stream:
        def __init__(self, device=None):
            self.device = device

        def wait_stream(self, other):
            calls.append(("wait", str(self.device), str(other.device)))

    class Graph:
        def replay(self):
            calls.append("replay")

    @contextmanager
    def noted(kind, *values):
        calls.append((kind, *values))
        yield
        calls.append((f"end {kind}",))

    capture = lambda graph, stream, capture_error_mode: noted("capture", str(stream.device), capture_error_mode)
    for name, fake in {
        "Stream": Stream,
        "CUDAGraph": Graph,
        "device": lambda device: noted("device", str(device)),
        "current_stream": Stream,
        "stream": lambda stream: noted("stream", str(stream.device)),
        "graph": capture,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(torch, "empty_like", lambda t, device: OnDevice())
    monkeypatch.setattr(torch, "_foreach_copy_", lambda into, given, non_blocking: calls.append("copy"))
    double = CUDAGraphed(lambda x: calls.append("function") or x)
    double(OnDevice())
    double(OnDevice())
    assert calls == [
        "copy",
        ("device", "cuda:1"),
        ("wait", "cuda:1", "cuda:1"),
        ("stream", "cuda:1"),
        "function",
        "function",
        ("end stream",),
        ("wait", "cuda:1", "cuda:1"),
        ("capture", "cuda:1", "thread_local"),
        "function",
        ("end capture",),
        ("end device",),
        "replay",
        "copy",
        "replay",
    ]


def test_seeds():
    draws = [torch.rand(3, generator=generator_for("cpu", seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
