"""A GPU that fails, by fakes: one sentence, what ran has ended, the next run goes on; and what is told of one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tts_demo import engine, runtime
from tts_demo.config import Request, UserError
from tts_demo.runtime import DeviceFailed, device_errors, matrices_in_tf32, pick_device
from tts_demo.stacks import load_stack
from tts_demo.ui.page.texts import facts
from tts_demo.ui.service import health

CUDA = torch.device("cuda")


@pytest.fixture
def emptied(monkeypatch) -> list[str]:
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("emptied"))
    return done


def test_a_full_memory_ends_a_run_and_the_next_one_goes_on(tiny_stack, tiny_prompt, emptied, monkeypatch):
    step = type(tiny_stack.method("baseline")).step
    request = Request("Hello.", tiny_prompt, forced_frames=6)
    monkeypatch.setattr(engine, "device_errors", lambda device: device_errors(CUDA))

    def full(self, state):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(type(tiny_stack.method("baseline")), "step", full)
    with pytest.raises(UserError, match="memory of cuda is full: ask for shorter speech"):
        engine.run(tiny_stack, request)
    assert emptied == ["emptied"]
    monkeypatch.setattr(type(tiny_stack.method("baseline")), "step", step)
    assert len(engine.run(tiny_stack, request).codes) == 6


def test_a_lost_device_is_one_sentence(emptied):
    with pytest.raises(DeviceFailed, match=r"failed \(CUDA error: device-side assert.*start it anew") as caught:
        with device_errors(CUDA):
            raise RuntimeError("CUDA error: device-side assert triggered\nCompile with TORCH_USE_CUDA_DSA")
    assert "Compile" not in str(caught.value) and not emptied


def test_a_mistake_in_the_program_stays_one(emptied):
    for device, error in ((CUDA, RuntimeError("shapes differ")), (torch.device("cpu"), RuntimeError("CUDA error"))):
        with pytest.raises(RuntimeError) as caught, device_errors(device):
            raise error
        assert caught.value is error


def test_a_model_that_does_not_fit_is_one_sentence_at_the_start(emptied, monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr("tts_demo.stacks.pick_device", lambda name: CUDA)
    monkeypatch.setattr("tts_demo.stacks.pick_dtype", lambda dtype, device: torch.bfloat16)
    monkeypatch.setattr("tts_demo.stacks.nano.NanoStack", full)
    with pytest.raises(UserError, match="choose a smaller model"):
        load_stack("nano", "cuda")


def test_a_driver_that_is_too_old_is_named(monkeypatch):
    def old():
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040). Please update your GPU")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "init", old)
    with pytest.raises(UserError, match=r"driver on your system is too old \(found version 11040\)\); use cpu"):
        pick_device("cuda")


def on_gpu(stack):
    decoder = SimpleNamespace(precision="bfloat16", graphed=True)
    return SimpleNamespace(
        **{name: getattr(stack, name) for name in ("name", "sample_rate", "frame_rate", "checkpoint_hash")},
        decoder=decoder,
        device=CUDA,
        tf32=True,
    )


def test_page_and_health_say_how_a_gpu_computes(tiny_stack, monkeypatch):
    monkeypatch.setattr(engine, "processor", lambda device: "NVIDIA Test")
    stack = on_gpu(tiny_stack)
    assert "NVIDIA Test · bfloat16 · CUDA graphs on · TF32 on" in facts(stack, "ok")
    gate = SimpleNamespace(draining=False, wait_seconds=lambda: 0.0, jobs=lambda: 0)
    handle = SimpleNamespace(now=stack, problems=list, state="ok")
    expected = {"processor": "NVIDIA Test", "dtype": "bfloat16", "graphs": True, "tf32": True}
    assert health(handle, gate)["computing"] == expected
    assert "graphs" not in engine.computing(tiny_stack)


def test_tf32_is_set_for_what_is_inside_alone():
    before = torch.backends.cuda.matmul.allow_tf32
    with matrices_in_tf32(not before):
        assert torch.backends.cuda.matmul.allow_tf32 == torch.backends.cudnn.allow_tf32 == (not before)
    assert torch.backends.cuda.matmul.allow_tf32 == before


@pytest.mark.parametrize("missing", ["", "Triton", "a C compiler", "Python's headers", "the GPU"])
def test_kernels_are_compiled_where_everything_for_it_is_there(monkeypatch, tmp_path, missing):
    """Python's headers are what slim images lack."""
    (tmp_path / ("" if missing == "Python's headers" else "Python.h")).touch()
    monkeypatch.setattr(runtime.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setattr(runtime.shutil, "which", lambda name: None if missing == "a C compiler" else f"/usr/bin/{name}")
    monkeypatch.setattr(runtime, "find_spec", lambda name: None if missing == "Triton" else name)
    monkeypatch.setattr(runtime, "cuda_has_bf16", lambda device: True)
    device = torch.device("cpu" if missing == "the GPU" else "cuda")
    assert runtime.can_compile(device) == (not missing)
