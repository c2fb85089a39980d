"""Tiny random models that every test shares: no weights on disk are needed."""

from __future__ import annotations

import copy
import gc
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from tts_demo import audio
from tts_demo.config import LMConfig, Sampling, UserError
from tts_demo.lm import Base, LanguageModel, Prefix
from tts_demo.methods import METHODS
from tts_demo.methods.base import Method, State, Step
from tts_demo.methods.compressed import method as compressed
from tts_demo.methods.compressed import text_position


def importing(tool: str) -> list[str]:
    """Test files that import this package at once."""
    line, root = re.compile(rf"^(import|from) {tool}\b", re.MULTILINE), Path(__file__).parent
    return [str(file.relative_to(root)) for file in root.rglob("*.py") if line.search(file.read_text("utf-8"))]


TOOLS = ("hypothesis", "openai")  # of tests/requirements.txt
LEFT_OUT = {tool: importing(tool) for tool in TOOLS if find_spec(tool) is None}
collect_ignore = [file for files in LEFT_OUT.values() for file in files]


def pytest_report_header() -> list[str]:
    """Which files are left out, and why."""
    fix = "pip install -r tests/requirements.txt"
    return [f"left out without {tool} ({fix}): {', '.join(files)}" for tool, files in LEFT_OUT.items()]


SLOW = tuple(
    line for line in (Path(__file__).parent / "slow.txt").read_text("utf-8").splitlines() if not line.startswith("#")
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what ``slow.txt`` lists."""
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(SLOW):
            item.add_marker("slow")


def pytest_collection_finish() -> None:
    """What importing has made stays: no collection of garbage, of which some tests ask, walks through it again."""
    gc.collect()
    gc.freeze()


TINY = LMConfig(
    text_vocab=20, speech_codes=32, hidden=64, layers=2, heads=4, kv_heads=2, ffn=96, speaker=8, max_positions=512
)


@pytest.fixture(scope="session")
def tiny_config() -> LMConfig:
    return TINY


@pytest.fixture(scope="session")
def tiny_lm() -> LanguageModel:
    """Random weights, shared by all tests: do not change them (deep-copy first)."""
    return make_lm()


@pytest.fixture(scope="session")
def tiny_prefix(tiny_lm: LanguageModel) -> Prefix:
    return make_prefix(tiny_lm)


@pytest.fixture
def guided(monkeypatch: pytest.MonkeyPatch) -> None:
    """The position in the text is tracked by a layer that the tiny model has."""
    for module in (text_position, compressed):
        monkeypatch.setattr(module, "ALIGNMENT_LAYERS", (1,))


def real_voice(seconds: float = 2.0, rate: int = 16000) -> np.ndarray:
    """The beginning of a bundled voice, again and again: what is checked for a voice takes no tone. float32 [N]"""
    samples = audio.read(Path(__file__).parents[1] / "assets" / "prompts" / "maya.wav", target=rate).samples
    return np.resize(samples, int(seconds * rate))


def make_lm(config: LMConfig = TINY, seed: int = 0) -> LanguageModel:
    """A random language model whose logits are spread enough that greedy decoding does not hang on rounding."""
    torch.manual_seed(seed)
    lm = LanguageModel(config).eval().requires_grad_(False)
    for name, weight in lm.named_parameters():
        if name.endswith("bias") or "norm" in name:
            weight.add_(torch.randn_like(weight) * 0.1)
        elif name.startswith("backbone.layers"):
            weight.mul_(6)
    for weight in (lm.speech_embedding.weight, lm.text_embedding.weight, lm.markers.weight):
        weight.mul_(30)
    lm.head.weight.mul_(10)
    return lm


@cache
def base_of(lm: LanguageModel) -> Base:
    """One a model: its decoder and sampler are shared, as those of a stack are."""
    return Base(lm)


def make_prefix(lm: LanguageModel, text: int = 7, prompt: int = 5, codebooks: int = 8, seed: int = 1) -> Prefix:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(lm.config.text_vocab, (text,), generator=generator)
    codes = torch.randint(lm.config.speech_codes, (prompt, codebooks), generator=generator)
    speaker = torch.randn(lm.config.speaker, generator=generator)
    return lm.prefix(ids, tuple(f"t{i}" for i in range(text)), speaker, codes)


def finish(method: Method, state: State) -> tuple[list[Step], torch.Tensor]:
    """Every step of a run, and its codes [F, K]."""
    steps = [method.step(state)]
    while not steps[-1].done:
        steps.append(method.step(state))
    return steps, torch.cat([step.frames for step in steps])


@dataclass(frozen=True)
class TinyPrompt:
    codes: torch.Tensor  # [F, K]
    speaker: torch.Tensor | None
    text: str | None
    seconds: float
    key: str
    extra: dict


class TinyVocoder:
    """Each frame becomes ``hop`` samples of a level its first code sets; one frame is held back, as a real one
    would."""

    def __init__(self, hop: int, codes: int) -> None:
        self.hop, self.codes, self.held = hop, codes, torch.zeros(0, 1, dtype=torch.long)

    def _samples(self, frames: torch.Tensor) -> np.ndarray:
        return np.repeat((frames[:, 0].float() + 1).numpy() / (2 * self.codes), self.hop).astype(np.float32)

    def push(self, frames: torch.Tensor) -> np.ndarray:
        ready = torch.cat([self.held, frames[:, :1]])  # the first book is all it looks at
        self.held = ready[-1:]
        return self._samples(ready[:-1])

    def prepare(self) -> None:
        """Nothing: there are no graphs."""

    def end_segment(self) -> np.ndarray:
        return np.zeros(0, np.float32)

    def finish(self) -> np.ndarray:
        return self._samples(self.held)


class TinyStack:
    """Everything the engine asks of a stack, on a random tiny model: letters are tokens, sentences end at full
    stops."""

    name, sample_rate, frame_rate, checkpoint_hash = "tiny", 1000, 50, "0" * 12
    device, dtype, sampling, parts = torch.device("cpu"), torch.float32, Sampling(), {}

    def __init__(
        self, lm: LanguageModel, modules: dict[str, torch.nn.Module] | None = None, exact: bool = False
    ) -> None:
        self.lm, self.base, self.modules = lm, Base(lm, exact), modules or {}
        self.decoder = self.base.decoder
        self._methods: dict = {}

    def tokenize(self, text: str) -> tuple[torch.Tensor, tuple[str, ...]]:
        return torch.tensor([ord(c) % self.lm.config.text_vocab for c in text]), tuple(text)

    def split(self, text: str) -> list[str]:
        return [part.strip() for part in text.split(".") if part.strip()]

    def preview(self, text: str) -> list[tuple[str, str]]:
        return [(part, part.lower()) for part in self.split(text)]

    def encode_prompt(self, samples: np.ndarray, sample_rate: int, text: str | None = None) -> TinyPrompt:
        frames = max(1, len(samples) * self.frame_rate // sample_rate)
        generator = torch.Generator().manual_seed(frames)
        codes = torch.randint(self.lm.config.speech_codes, (frames, 8), generator=generator)
        speaker = torch.randn(self.lm.config.speaker, generator=generator)
        return TinyPrompt(codes, speaker, text, len(samples) / sample_rate, f"prompt-{frames}", {})

    def prefix(self, prompt: TinyPrompt, segment: str) -> Prefix:
        ids, labels = self.tokenize(segment)
        return self.lm.prefix(ids, labels, prompt.speaker, prompt.codes)

    def method(self, name: str) -> Method:
        if name not in METHODS:
            raise UserError(f"There is no method {name!r}; use one of {', '.join(METHODS)}.")
        if name not in self._methods:
            fresh = METHODS[name].build_modules(self.lm)
            self._methods[name] = METHODS[name](self.base, {**fresh, **self.modules})
        return self._methods[name]

    def vocoder(self, prompt: TinyPrompt, codebooks: int, live: bool = True) -> TinyVocoder:
        return TinyVocoder(self.sample_rate // self.frame_rate, self.lm.config.speech_codes)


STEPS = [  # every kind of step
    ("baseline", {}),
    ("tldr", {"patch_size": 4}),
    ("ssd", {"tolerance": 0.0, "draft_length": "3"}),
    ("ssd", {"tolerance": 0.4, "draft_length": "auto"}),
    ("dcar", {"chunk_range": "2,3,4"}),
    ("dcar", {"chunk_range": "7"}),
    ("qtts", {"strategy": "delay"}),
    ("qtts", {"strategy": "delay", "codebooks": 4, "delay": 2}),
    ("qtts", {"strategy": "hierarchical"}),
    ("compressed", {"window": 30, "group": 10}),
    ("compressed", {"window": 30, "group": 0}),
    ("compressed", {"window": 30, "group": 5, "text": 20}),  # the text moves,
    ("compressed", {"window": 30, "group": 10, "text": 60}),  # and is visible as a whole
    ("dcar-compressed", {"chunk_range": "2,3,4", "window": 30, "group": 10}),
    ("dcar-ssd", {"tolerance": 0.0, "draft_length": "3"}),
]


def random_stack(lm: LanguageModel, dtype: torch.dtype = torch.float32, names: Iterable[str] = METHODS) -> TinyStack:
    """A stack whose modules of the methods ``names`` are random: adapters that start as nothing would hide a part."""
    torch.manual_seed(5)
    stack = TinyStack(copy.deepcopy(lm).to(dtype))
    for name in names:
        for module in stack.method(name).modules.values():
            for weight in module.to(dtype).eval().requires_grad_(False).parameters():
                weight.add_(torch.randn_like(weight) * 0.05)
    return stack


@pytest.fixture
def tiny_stack(tiny_lm: LanguageModel) -> TinyStack:
    return TinyStack(tiny_lm)


@pytest.fixture
def tiny_prompt(tiny_stack: TinyStack) -> TinyPrompt:
    return tiny_stack.encode_prompt(np.zeros(100, np.float32), tiny_stack.sample_rate)
