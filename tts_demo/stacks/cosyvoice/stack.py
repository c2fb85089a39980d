"""A released CosyVoice model behind the interface every stack has: engine, methods and page do not know the
difference."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ... import checkpoints
from ...config import UserError
from ...engine import Prompt
from ...lm import Prefix
from ...lm.graphs import buffer_pool
from ...methods import Method
from ...prompts import misfit
from ...runtime import available_bytes, can_compile, device_errors
from ..base import LanguageModelStack
from . import download, frontend, weights
from .configs import END_OF_PROMPT, MEL_PER_TOKEN, RELEASED_SAMPLING, SAMPLE_RATE, TOKEN_RATE
from .flow import build_flow, flow_noise
from .hift import Hift
from .memory import Budget
from .prompt import VoiceEncoder
from .tokenizer import TextTokenizer
from .vocoder import CosyVocoder

ADAPTERS = "adapters"  # folder inside the model's, laid out like checkpoints/nano
FEWEST, MOST = 2, 20  # speech tokens a text token, as in the released code
CAPTURED = (2, 1, 2, 4)  # blocks of the chunks that pass every graph of a live run; the first has a look-ahead besides
PAUSES = TOKEN_RATE  # which the recording of a transcript may hold besides


class CosyVoiceStack(LanguageModelStack):
    """Version 2 or 3. The language model computes in ``dtype``, flow and vocoder in float32."""

    sample_rate = SAMPLE_RATE
    frame_rate = TOKEN_RATE
    sampling = RELEASED_SAMPLING

    def __init__(
        self,
        name: str | Path,
        device: torch.device | str,
        dtype: torch.dtype,
        *,
        adapters: str | Path | None = None,
        graphs: bool = True,
        exact: bool = False,
    ) -> None:
        """name: a folder or a Hugging Face repository (``owner/name[@revision]``); ``#rl`` behind it takes the language
        model of ``llm.rl.pt``; adapters: folder or Hub repository of trained methods, None: the folder ``adapters``
        inside the model's. graphs, exact: see ``LanguageModelStack``."""
        folder, config = download.resolve(name)
        self.config, self.name = config, str(name)
        self.checkpoint_hash = download.fingerprint(folder, config)
        self.tokenizer = TextTokenizer(folder / download.TEXT_FOLDER, config.version)
        super().__init__(weights.released_lm(folder, config), device, dtype, exact, graphs)
        self._flow, self.hift = self._load_acoustics(folder, exact)
        self._in_graphs(graphs)
        self._noise = flow_noise().to(self.device)
        self._voices = VoiceEncoder(folder, config, self.device)
        self.adapters = checkpoints.resolve(adapters) if adapters else folder / ADAPTERS

    def _load_acoustics(self, folder: Path, exact: bool) -> tuple[torch.nn.Module, Hift]:
        with torch.device("meta"):
            flow = build_flow(self.config.flow)
        weights.load_flow(flow, folder / "flow.pt")
        flow.to(self.device, torch.float32).eval().requires_grad_(False)
        flow.tf32 = not exact
        hift = Hift(self.config.hift)
        weights.load_hift(hift, folder / "hift.pt")
        return flow, hift.prepare().to(self.device)

    def _in_graphs(self, wanted: bool) -> None:
        """Flow and vocoder run as graphs, the flow's blocks compiled, where the device and this machine can."""
        self._flow.pool = self.hift.pool = buffer_pool(self.device, wanted)
        if wanted and can_compile(self.device):
            self._flow.compile_blocks()

    @property
    def parts(self) -> dict[str, torch.nn.Module]:
        """What ``bench`` times apart; the rest of the acoustics is the vocoder's."""
        return {"flow": self._flow}

    @property
    def tf32(self) -> bool:
        """Whether the flow multiplies in TF32 where the device has it: unless float32 was asked for."""
        return self._flow.tf32

    def tokenize(self, text: str) -> tuple[Tensor, tuple[str, ...]]:
        """-> ids [T], one label each."""
        ids, labels = self.tokenizer.encode_labelled(text)
        return torch.tensor(ids, dtype=torch.long, device=self.device), labels

    def split(self, text: str) -> list[str]:
        return frontend.split(text, lambda piece: len(self.tokenizer.encode(piece)))

    def preview(self, text: str) -> list[tuple[str, str]]:
        """What will be said, a piece an entry: these models read words, so there are no sounds."""
        return [(piece, "") for piece in self.split(text)]

    def encode_prompt(self, samples: np.ndarray, sample_rate: int, text: str | None = None) -> Prompt:
        """With its transcript the voice is continued (zero-shot); without one only its sound is taken (cross-lingual);
        a text that ends in ``<|endofprompt|>`` is an instruction, such as a dialect or a mood."""
        voice = self._voices(samples, sample_rate)
        words = frontend.transcript(text, self.config.version) if text and text.strip() and not voice.cut else None
        instruction = bool(words) and words.endswith(END_OF_PROMPT)
        notes = voice.notes
        if words and not instruction:
            length = len(self.tokenizer.encode(words))
            note = misfit(len(voice.tokens), FEWEST * length, MOST * length + PAUSES, voice.seconds)
            words, notes = (None, (*notes, note)) if note else (words, notes)
        spoken = voice.tokens if words and not instruction else voice.tokens[:0]
        content = np.ascontiguousarray(samples).tobytes() + f"{sample_rate}:{words or ''}".encode()
        return Prompt(
            codes=spoken[:, None].to(self.device),
            speaker=None,
            text=words,
            seconds=voice.seconds,
            key=hashlib.sha256(content).hexdigest()[:16],
            extra={"voice": voice},
            notes=notes,
        )

    def prefix(self, prompt: Prompt, segment: str) -> Prefix:
        """[SOS, prompt's text, text, TASK] with the prompt's speech behind it. Labels and map show the text alone."""
        before = prompt.text or ""
        if END_OF_PROMPT not in before + segment:
            before = self.config.system_prompt + before
        ids, labels = self.tokenize(segment)
        given = torch.tensor(self.tokenizer.encode(before), dtype=torch.long, device=self.device)
        speaker = prompt.extra["voice"].speaker[0].to(self.device)  # not for the language model: for methods that ask
        prefix = self.lm.prefix(torch.cat((given, ids)), labels, speaker, prompt.codes)
        return replace(
            prefix,
            text=slice(prefix.text.stop - len(ids), prefix.text.stop),
            shortest=FEWEST * len(ids),
            longest=MOST * len(ids),
        )

    def vocoder(self, prompt: Prompt, codebooks: int = 1, live: bool = True) -> CosyVocoder:
        if codebooks != 1:
            raise UserError(f"This model speaks one codebook; a method with {codebooks} needs the stack nano.")
        budget = self._budget if live else None
        return CosyVocoder(self.config, self._flow, self.hift, self._noise, prompt.extra["voice"], budget)

    def capture(self, prompt: Prompt) -> Iterator[tuple[int, int]]:
        """Captures the graphs of live runs, of prompt and sentence up to the smallest buffer, before someone waits for
        them: nothing where there are none. Yields how many chunks of how many have been through."""
        if self._flow.pool is None:
            return
        block, voice = self._flow.config.block_tokens, prompt.extra["voice"]
        short = replace(voice, tokens=voice.tokens[:block], mel=voice.mel[:, :, : MEL_PER_TOKEN * block])
        vocoder = self.vocoder(replace(prompt, extra={"voice": short}))
        codes = torch.arange(max(self.config.silent_tokens, default=0) + 1, self.config.flow.tokens)[:, None]
        with device_errors(self.device):
            for number, blocks in enumerate(CAPTURED, 1):
                made, codes = codes[: blocks * block], codes[blocks * block :]
                vocoder.push(made)
                yield number, len(CAPTURED)

    @cached_property
    def _budget(self) -> Budget:
        """Of what all live runs remember: a half of a GPU's free memory, a quarter of a computer's."""
        share = 2 if self.device.type == "cuda" else 4
        return Budget(available_bytes(self.device) // share)

    def _trained(self, kind: type[Method], part: str, module: torch.nn.Module) -> torch.nn.Module | None:
        """The trained module; None where it is missing and the method can do without."""
        if checkpoints.available(self.adapters, part):
            module = checkpoints.load_module(self.adapters, part, module)
        elif part in kind.needs_weights and not kind.runs_untrained:
            raise UserError(
                f"The method {kind.name!r} has no trained weights for this model: make them with 'python -m tts_demo "
                f"train {part} --stack {self.name} --out {self.adapters}'."
            )
        elif not kind.runs_untrained:
            return None
        return self._placed(module)
