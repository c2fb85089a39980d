"""The registered method: three strategies behind one name."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from ...config import UserError
from ...lm import BufferPool, LanguageModel
from ..base import Method, Options, Picture, Replay, Start, State, Step, dial
from ..baseline import Baseline
from .delay import DelayAdapter, DelayStrategy
from .hierarchical import HierarchicalAdapter, HierarchicalStrategy

DELAY, HIERARCHICAL = "qtts-delay", "qtts-hierarchical"  # folders of the checkpoint


@dataclass(frozen=True)
class QTTSOptions(Options):
    strategy: str = dial(
        "delay",
        "Strategy",
        "delay: all codebooks in parallel, each some steps after the one below; "
        "hierarchical: a small decoder predicts the codebooks of a frame in turn; "
        "single: only the first, the refiner adds the rest.",
        choices=("single", "delay", "hierarchical"),
    )
    codebooks: int = dial(8, "Codebooks", "How many residual codebooks the language model predicts.", choices=(2, 4, 8))
    delay: int = dial(
        1, "Delay", "How far a codebook is behind the one below (strategy delay).", min=1, max=4, step=1, unit="frames"
    )


class QTTS(Method):
    name = "qtts"
    title = "Several codebooks"
    paper = "QTTS: multi-codebook generation on the QDAC codec, sections 2.2, 2.3 and 3.1"
    arxiv = "2507.12197"
    idea = (
        "The language model predicts the fine codebooks too, either all at once with a delay between them, "
        "or one after "
        "the other inside each frame. A refiner weighs their codes and fills in the rest."
    )
    cached = "every text token and frame; hierarchical also one block of K slots"
    emits = "1 frame of K codes"
    picture = Picture("pppp ssssssss", "kkkkkkkk")
    presets = (
        {"strategy": "delay", "codebooks": 4},
        {"strategy": "delay", "codebooks": 8},
        {"strategy": "hierarchical", "codebooks": 8},
    )
    Options = QTTSOptions
    neutral = {"strategy": "single"}
    needs_weights = (DELAY,)  # of the default strategy; ``check`` asks for the other's
    reads = (HIERARCHICAL, "refiner-books")

    @classmethod
    def build_modules(cls, lm: LanguageModel) -> dict[str, nn.Module]:
        return {DELAY: DelayAdapter(lm), HIERARCHICAL: HierarchicalAdapter(lm)}

    @cached_property
    def strategies(self) -> dict[str, Any]:
        """By name. A strategy without its modules is absent."""
        found: dict[str, Any] = {"single": Baseline(self.base)}
        if DELAY in self.modules:
            found["delay"] = DelayStrategy(self.base, self.modules[DELAY])
        if HIERARCHICAL in self.modules:
            found["hierarchical"] = HierarchicalStrategy(self.base, self.modules[HIERARCHICAL])
        return found

    def parts(self) -> dict[str, BufferPool | None]:
        found = super().parts()
        if delay := self.strategies.get("delay"):
            found["delay: backbone, heads and sampling"] = delay.decoder.pool
        if hierarchical := self.strategies.get("hierarchical"):
            found["hierarchical: backbone"] = hierarchical.decoder.pool
            found["hierarchical: depth decoder and sampling"] = hierarchical.stacked.pool
        return found

    def check(self, options: QTTSOptions) -> None:
        folder = f"qtts-{options.strategy}"
        if options.strategy != "single" and folder not in self.modules:
            raise UserError(
                f"The strategy {options.strategy!r} has no trained weights ({folder}) here: make them with "
                f"'python -m tts_demo train {folder}', or use another strategy."
            )

    def begin(self, start: Start) -> State:
        strategy, codebooks, has = start.options.strategy, start.options.codebooks, start.prefix.prompt_codes.shape[1]
        if strategy != "single" and has < codebooks:
            raise UserError(f"This stack's codec has {has} codebooks, not {codebooks}: use strategy=single.")
        return self.strategies[strategy].begin(start)

    def step(self, state: State) -> Step:
        return self.strategies[state.start.options.strategy].step(state)

    def replay(self, state: State) -> Replay:
        return self.strategies[state.start.options.strategy].replay(state)

    @classmethod
    def output_codebooks(cls, options: QTTSOptions) -> int:
        return 1 if options.strategy == "single" else options.codebooks
