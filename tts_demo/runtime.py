"""Device, precision, seeds and CUDA graphs. Knows no model."""

import os
import platform
import shutil
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .config import UserError

Device = torch.device | str
SMALL = 512  # hidden size below which a step is many small operators


def pick_device(name: str | None = None) -> torch.device:
    """``None`` or ``auto``: CUDA where there is one, else CPU. A device that is not there is a person's mistake."""
    if name in (None, "auto"):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"{name!r} is no device; use cpu, cuda or cuda:0.") from None
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"{name!r} is not supported; use cpu, cuda or cuda:0.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(
            f"{name!r} was asked for, but "
            f"{_no_cuda() or f'this machine has {torch.cuda.device_count()} CUDA devices'}; use cpu."
        )
    return device


def _no_cuda() -> str:
    """Why CUDA cannot be used on this machine, "" if it can."""
    if torch.cuda.is_available():
        return ""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split(". ")[0].strip().rstrip(".")
        return f"CUDA cannot be used here ({reason})"
    return "this machine has no CUDA device"


class DeviceFailed(UserError):
    """A GPU could not go on; what ran on it has ended, and the message says what to do."""


@contextmanager
def device_errors(device: torch.device) -> Iterator[None]:
    """Out of memory, or a device that is lost, ends what runs inside with one sentence. Memory that nothing uses any
    more is given back, so that the next run finds it."""
    if device.type != "cuda":
        yield
        return
    try:
        yield
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        raise DeviceFailed(
            f"The memory of {device} is full: ask for shorter speech, or for one run at a time, or choose a smaller "
            "model."
        ) from error
    except RuntimeError as error:
        if "CUDA" not in str(error) and "cuDNN" not in str(error) and "cuBLAS" not in str(error):
            raise
        reason = str(error).splitlines()[0]
        raise DeviceFailed(f"{device} has failed ({reason}): whoever runs this program must start it anew.") from error


@contextmanager
def matrices_in_tf32(enabled: bool) -> Iterator[None]:
    """Whether float32 matrices and convolutions are multiplied in TF32 inside, on a GPU that has it."""
    kinds = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [kind.allow_tf32 for kind in kinds]
    try:
        for kind in kinds:
            kind.allow_tf32 = enabled
        yield
    finally:
        for kind, was in zip(kinds, before):
            kind.allow_tf32 = was


@cache
def processor(device: torch.device) -> str:
    """The processor that a speed was measured on; for a CPU with the instruction set torch uses, because clouds give
    different machines one name."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name} ({torch.backends.cpu.get_cpu_capability()}), {os.cpu_count()} cores"


def cpu_has_bf16() -> bool:
    """Whether the CPU multiplies bfloat16 natively (AVX512-BF16 or AMX). Without it bf16 is slower than fp32."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def cuda_has_bf16(device: torch.device) -> bool:
    """Whether this GPU multiplies bfloat16 natively. Older ones (V100, T4) emulate it, slower than float32, and torch
    calls that supported."""
    return torch.version.hip is not None or torch.cuda.get_device_capability(device)[0] >= 8


def precision(device: Device) -> torch.dtype:
    """What training multiplies matrices in: bfloat16, except on a CPU that cannot, where it would be many times
    slower."""
    return torch.bfloat16 if torch.device(device).type != "cpu" or cpu_has_bf16() else torch.float32


def autocast(device: Device) -> torch.autocast:
    """Matrices multiplied in ``precision``, for training and what is made for it."""
    return torch.autocast(torch.device(device).type, torch.bfloat16, enabled=precision(device) == torch.bfloat16)


def candidate_dtypes(device: torch.device) -> tuple[torch.dtype, ...]:
    """Precisions worth measuring on ``device``, the safest first."""
    if device.type == "cuda":
        return (torch.bfloat16,) if cuda_has_bf16(device) else (torch.float32,)
    return (torch.float32, torch.bfloat16) if cpu_has_bf16() else (torch.float32,)


def can_compile(device: torch.device) -> bool:
    """Whether ``torch.compile`` can make kernels for a GPU here: it needs Triton, a C compiler and Python's headers.
    Its own switch, ``TORCH_COMPILE_DISABLE=1``, turns it off."""
    compiler = any(map(shutil.which, filter(None, (os.environ.get("CC"), "cc", "gcc", "clang"))))
    headers = Path(sysconfig.get_paths()["include"], "Python.h").is_file()
    return device.type == "cuda" and cuda_has_bf16(device) and compiler and headers and bool(find_spec("triton"))


def generator_for(device: Device, seed: int) -> torch.Generator:
    """A run's own source of randomness on its device."""
    return torch.Generator(device).manual_seed(seed)


def few_threads(device: torch.device, hidden: int) -> None:
    """One thread for a small model on a CPU, unless OMP_NUM_THREADS asks for others: the threads of a pool wait for
    each other at every one of its thousands of small operators, and where another program holds one of them up all do.
    (Two on two busy cores take four to nine times as long as one, on two free ones just as long.)"""
    if device.type == "cpu" and hidden < SMALL and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def work_clock(device: torch.device) -> Callable[[], float]:
    """Seconds of work: those that the processor gave this thread, where it does all of the work; else the clock's."""
    return time.thread_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter


def synchronize(device: Device) -> None:
    """Wait for the device, at boundaries only: inside the loop it would become the bottleneck."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def available_bytes(device: torch.device) -> int:
    """Memory that is free on the device now."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    info = Path("/proc/meminfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


_LAUNCHES: ContextVar[Callable[[], AbstractContextManager[object]]] = ContextVar("around a launch", default=nullcontext)


@contextmanager
def launches_inside(around: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Every launch of a graph happens inside ``around()``, for whoever counts them."""
    token = _LAUNCHES.set(around)
    try:
        yield
    finally:
        _LAUNCHES.reset(token)


class CUDAGraphed:
    """A function of tensors with fixed shapes, captured once into a CUDA graph and replayed (after moshi's).

    Arguments are copied into static buffers, those of one dtype at once; a host's arguments must not change afterwards.
    The results live in static buffers too and are valid until the next call. ``enabled=False`` (the CPU) runs the same
    copies and the function itself, so the path around a graph is testable without a GPU.
    """

    def __init__(self, function: Callable[..., Any], enabled: bool = True, device: Device | None = None) -> None:
        """function: of tensors and None, to a tensor or a tuple of tensors. device: of the static buffers, None: that
        of the first argument."""
        self.function, self.enabled, self.device = function, enabled, device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[Tensor | None, ...] | None = None
        self._output: Any = None

    @torch.inference_mode()
    def __call__(self, *inputs: Tensor | None) -> Any:
        if self._inputs is None:
            self.device = torch.device(self.device or next(t.device for t in inputs if t is not None))
            self._inputs = tuple(None if t is None else torch.empty_like(t, device=self.device) for t in inputs)
            self._copy(inputs)
            if self.enabled:
                self._capture()
        else:
            self._copy(inputs)
        with _LAUNCHES.get()():
            if not self.enabled:
                return self.function(*self._inputs)
            self._graph.replay()
        return self._output

    def _copy(self, inputs: tuple[Tensor | None, ...]) -> None:
        """One launch for the inputs of one dtype, instead of one for each."""
        alike: dict[tuple[torch.dtype, torch.device], tuple[list[Tensor], list[Tensor]]] = {}
        for static, t in zip(self._inputs, inputs, strict=True):
            if (static is None) != (t is None):
                raise ValueError("captured with an argument that is missing now, or without one that is there")
            if t is None:
                continue
            if static.shape != t.shape or static.dtype != t.dtype:
                raise ValueError(
                    f"captured for {tuple(static.shape)} {static.dtype}, called with {tuple(t.shape)} "
                    f"{t.dtype}: a graph is made for one shape"
                )
            into, given = alike.setdefault((t.dtype, t.device), ([], []))
            into.append(static)
            given.append(t)
        for into, given in alike.values():
            torch._foreach_copy_(into, given, non_blocking=True)  # blocking, a host's would wait for the device

    def _capture(self) -> None:
        """Warm up on a side stream (libraries allocate workspaces on first use), then capture, on the device of the
        static buffers whichever is current. Other threads may go on using their own streams meanwhile. The function
        must be repeatable: here it writes the same cache slots each time."""
        device = self.device
        with torch.cuda.device(device):
            stream, current = torch.cuda.Stream(device), torch.cuda.current_stream(device)
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                for _ in range(2):
                    self.function(*self._inputs)
            current.wait_stream(stream)
            self._graph = torch.cuda.CUDAGraph()
            # the default stream of ``torch.cuda.graph`` is one for the process, on the device of its first capture
            with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
                self._output = self.function(*self._inputs)
