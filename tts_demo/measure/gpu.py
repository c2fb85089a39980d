"""The first minutes on a GPU, on random weights: whether graphs say what plain code says, what a step of half a billion
weights takes, and where the time of a released model goes. Appended to the records like any other machine's figures."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .. import engine
from ..config import Request, Sampling
from ..lm.graphs import static_path
from ..methods import METHODS
from ..runtime import synchronize
from ..stacks.cosyvoice.hift import Hift, HiftStream
from .graphs import difference
from .parts import PartClock
from .records import Records, Where
from .rows import Row, runnable
from .speed import TEXT, Bench

KIND = "gpu"
SECONDS = 6.0
CHECKED, STEPS_OF, WHOLE = "nano", "qwen2-0.5b", "cosyvoice3"  # shapes
SAME, MEMORY = "graphs against plain code", "memory"
ACOUSTICS, CLOSE = "flow and vocoder, graphs against plain code", 1e-3  # of the largest value
SETTINGS = {  # what is checked and timed; of a released model the first two
    "baseline": ({},),
    "tldr": ({"patch_size": 4},),
    "dcar": ({"chunk_range": "2,3,4"},),
    "compressed": ({}, {"text": 20}),
    "ssd": ({"tolerance": 0.1, "draft_length": "3"},),
    "dcar-ssd": ({},),
    "dcar-compressed": ({},),
    "qtts": ({"strategy": "delay"},),
}
FIGURES = ("ms_per_step", "frames_per_step", "lm_gain", "lm_rtf", "acoustics_rtf", "rtf", "ttfa", "ceiling_share")
Make = Callable[[str, torch.device, torch.dtype | None, bool], Any]  # shape, device, dtype, graphs -> stack


def rows(names: tuple[str, ...] = tuple(SETTINGS)) -> list[Row]:
    return [Row.of(METHODS[name], **options) for name in names for options in SETTINGS[name]]


class FirstRun:
    """make: a stack of random weights in a shape."""

    def __init__(self, device: torch.device, records: Records, make: Make, seconds: float = SECONDS) -> None:
        self.device, self.records, self.make, self.seconds = device, records, make, seconds
        self.setting = f"{seconds:g} s, graph"

    def run(self) -> Iterator[dict[str, Any]]:
        """Every record as it is made, the most important first."""
        yield self.check()
        yield from self.steps(STEPS_OF, rows())
        yield from self.steps(WHOLE, rows(("baseline", "tldr")))
        yield from self.acoustics()

    def _append(self, row: str, stack: Any, figures: dict[str, Any]) -> dict[str, Any]:
        return self.records.append(KIND, row, self.setting, 0, Where.of(stack), figures)

    def check(self) -> dict[str, Any]:
        """Every method twice as graphs and once as plain code, from one seed: in how many settings the tokens are the
        same, and the largest difference of the backbone's hidden states."""
        plain = self.make(CHECKED, self.device, torch.float32, False)
        with static_path():
            graphed = self.make(CHECKED, self.device, torch.float32, True)
            graphed.lm.load_state_dict(plain.lm.state_dict())
            same = [self._agree(plain, graphed, row) for row in rows()]
            found = difference(graphed)
        figures = {"settings": len(same), "same": sum(same), "difference": found["largest difference"]}
        return self._append(SAME, graphed, figures | {"of": found["of"]})

    def _agree(self, plain: Any, graphed: Any, row: Row) -> bool:
        name = row.method.name
        for key, module in plain.method(name).modules.items():
            graphed.method(name).modules[key].load_state_dict(module.state_dict())
        frames = max(2, round(self.seconds * plain.frame_rate))
        request = Request(TEXT, plain.prompt, name, row.options, Sampling(), 3, forced_frames=frames)
        with static_path():
            twice = [engine.run(graphed, request).codes for _ in range(2)]
        expected = engine.run(plain, request).codes
        return all(codes.shape == expected.shape and bool((codes == expected).all()) for codes in twice)

    def steps(self, shape: str, wanted: list[Row]) -> Iterator[dict[str, Any]]:
        """Each row in turns with the baseline, one round behind a warm-up; and the memory at its highest."""
        stack = self.make(shape, self.device, None, True)
        bench = Bench(stack, [(TEXT, stack.prompt)], Records(), self.seconds, 0, "graph")
        for row in runnable(stack, wanted)[0]:
            found = bench.measure(row, 0)["figures"]
            passes = {name: times for name, times in found.items() if name.startswith("pass_of_")}
            yield self._append(row.label, stack, {name: found.get(name) for name in FIGURES} | passes)
        if self.device.type == "cuda":
            yield self._append(MEMORY, stack, {"peak_bytes": torch.cuda.max_memory_allocated(self.device)})
            torch.cuda.reset_peak_memory_stats(self.device)

    @torch.inference_mode()
    def acoustics(self) -> Iterator[dict[str, Any]]:
        """Flow and vocoder alone, as graphs and as plain code of the same weights: whether both compute the same, then
        what each takes, the second of two runs, for a listener who waits and for one who does not."""
        with static_path():
            graphed = self.make(WHOLE, self.device, None, True)
        plain = self.make(WHOLE, self.device, None, False)
        codes = torch.randint(plain.config.flow.tokens, (round(self.seconds * plain.frame_rate), 1))
        yield self._append(ACOUSTICS, graphed, self._differences(graphed, plain, codes))
        for live in (True, False):
            for stack in (graphed, plain):
                for _ in range(2):
                    figures = self._speak(stack, codes.to(self.device), live)
                row = "acoustics, live" if live else "acoustics, whole"
                yield self._append(row if stack is graphed else f"{row}, plain code", stack, figures)

    def _differences(self, graphed: Any, plain: Any, codes: torch.Tensor) -> dict[str, Any]:
        """Without TF32: the largest difference of mels, live and whole, and of the samples of one mel in pieces."""
        flows, mels = [stack.parts["flow"] for stack in (graphed, plain)], []
        before = [flow.tf32 for flow in flows]
        for flow in flows:
            flow.tf32 = False
        for live in (True, False):
            mels.append([self._mel(stack, codes, live) for stack in (graphed, plain)])
        for flow, was in zip(flows, before):
            flow.tf32 = was
        waves = [in_pieces(stack.hift, mels[0][1]) for stack in (graphed, plain)]
        found = {
            name: float((ours - theirs).abs().max() / theirs.abs().max())
            for name, (ours, theirs) in {"live": mels[0], "whole": mels[1], "vocoder": waves}.items()
        }
        return {"same": all(share <= CLOSE for share in found.values()), "difference": found}

    def _mel(self, stack: Any, codes: torch.Tensor, live: bool) -> torch.Tensor:
        """All that the flow gives for prompt and speech [1, mels, M]."""
        mels: list[torch.Tensor] = []
        hook = stack.parts["flow"].register_forward_hook(lambda module, inputs, mel: mels.append(mel))
        vocoder = stack.vocoder(stack.prompt, 1, live)
        vocoder.push(codes.to(self.device))
        vocoder.finish()
        hook.remove()
        return torch.cat(mels, -1)

    def _speak(self, stack: Any, codes: torch.Tensor, live: bool) -> dict[str, Any]:
        vocoder, first = stack.vocoder(stack.prompt, 1, live), None
        synchronize(self.device)
        started = time.perf_counter()
        with PartClock(stack.parts, self.device) as clock:
            for code in codes.split(1):
                if len(vocoder.push(code)) and first is None:
                    first = time.perf_counter() - started
            vocoder.finish()
        total = time.perf_counter() - started
        flow = clock.seconds["flow"]
        return {"seconds": total, "flow_seconds": flow, "vocoder_seconds": total - flow, "first_sound": first or total}


def in_pieces(hift: Hift, mel: torch.Tensor) -> torch.Tensor:
    """mel: [1, mels, M], pushed 50 frames at a time -> wave [N]."""
    stream = HiftStream(hift)
    waves = [stream.push(piece) for piece in mel.split(50, -1)]
    return torch.cat([*waves, stream.push(mel[..., :0], last=True)])


def newest(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Runs, the newest first, one list each: what one commit did on one machine, of each row the last record."""
    found: dict[tuple[str, str], dict[tuple[str, str, str], dict[str, Any]]] = {}
    for record in (r for r in records if r["kind"] == KIND):
        run = found.setdefault((record["machine"], record["commit"]), {})
        run[record["stack"], record["dtype"], record["row"]] = record
    return sorted((list(run.values()) for run in found.values()), key=lambda run: run[-1]["date"], reverse=True)
