"""What a first run on a GPU should tell: which parts of each method's step run as CUDA graphs, from the graphs that
runs have made; whether a graph computes what plain code does; the device and its memory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ..engine import Stack
from ..lm import Decoder
from ..methods.base import Method
from ..runtime import generator_for

PREFIX, STEPS = 40, 16  # tokens of the comparison of graphs with plain code


def parts(methods: Sequence[Method]) -> list[dict[str, Any]]:
    """Every part of these methods' steps. graphs: kinds of calls that are graphs by now; None: the part has none."""
    return [
        {"method": method.name, "name": name, "graphs": None if pool is None else len(pool.keys)}
        for method in methods
        for name, pool in method.parts().items()
    ]


def table(methods: Sequence[Method]) -> str:
    """The parts as a Markdown table."""
    rows = ["| method | part of a step | CUDA graphs |", "|---|---|---|"]
    for method, name, graphs in (part.values() for part in parts(methods)):
        captured = "no" if graphs is None else f"{graphs} captured" if graphs else "not run yet"
        rows.append(f"| {method} | {name} | {captured} |")
    return "\n".join(rows)


@torch.inference_mode()
def difference(stack: Stack) -> dict[str, float]:
    """The backbone's hidden states over a few steps and one pass of four tokens, as graphs and as plain code: the
    largest difference, and the largest value it is a difference of."""
    graphed, plain = stack.decoder, Decoder.from_model(stack.lm, backend=replace(stack.decoder.backend, graphed=False))
    shape = (1, PREFIX + STEPS + 4, graphed.config.hidden)
    x = torch.randn(shape, device=stack.device, generator=generator_for(stack.device, 0)).to(graphed.dtype)
    found = []
    for decoder in (graphed, plain):
        cache = decoder.new_cache(shape[1])
        hidden = [decoder.forward(x[:, :PREFIX], cache, 0)]
        hidden += [decoder.forward(x[:, i : i + 1], cache, i) for i in range(PREFIX, PREFIX + STEPS)]
        hidden.append(decoder.forward(x[:, -4:], cache, PREFIX + STEPS))
        found.append(torch.cat(hidden, 1).float())
    return {"largest difference": float((found[0] - found[1]).abs().max()), "of": float(found[1].abs().max())}


def device_facts(device: torch.device) -> dict[str, Any]:
    """Name, abilities and memory of a GPU (bytes; peaks since the process began)."""
    properties = torch.cuda.get_device_properties(device)
    return {
        "device": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory": properties.total_memory,
        "peak allocated": torch.cuda.max_memory_allocated(device),
        "peak reserved": torch.cuda.max_memory_reserved(device),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "torch": torch.__version__,
        "tf32": {"matmul": torch.backends.cuda.matmul.allow_tf32, "cudnn": torch.backends.cudnn.allow_tf32},
    }
