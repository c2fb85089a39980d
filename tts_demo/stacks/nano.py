"""The bundled stack: phonemes, our codec, refiner and speaker encoder, and a small Qwen2 speech language model.

The language model computes in the chosen dtype; codec, refiner and speaker encoder stay in float32, where their share
of the time is small and the inverse STFT needs it. Adapters of a method are loaded when it is first asked for.
"""

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .. import audio, checkpoints, lineage, overlay
from ..codec.decoder import WaveformDecoder
from ..codec.model import Codec
from ..codec.refiner import CodebookRefiner, Refiner
from ..codec.speaker import SpeakerEncoder
from ..codec.streaming import RunningPhase, Windowed
from ..config import FRAME_RATE, HOP, SAMPLE_RATE, Sampling, UserError
from ..engine import Prompt
from ..lm import Prefix
from ..methods import Method
from ..prompts import misfit
from ..text import sentences, symbols
from ..text.pacing import closed
from .base import LanguageModelStack

Stages = list[Windowed | RunningPhase]
PARTS = ("lm", "codec", "decoder", "refiner", "speaker")  # folders of what every method speaks with
CODEBOOK_REFINER = "refiner-books"  # and of what several codebooks go through, where it is there
SEGMENT_CHARACTERS = 160  # about 12 s of speech: what the language model has seen in training
FASTEST = 2.0  # frames a symbol of text: of 5,525 recordings none is spoken faster, nor any slower than
SLOWEST, PAUSES = 6.5, 100  # frames a symbol and, for pauses, a text
CONTEXT_SECONDS = 6.0  # a longer prompt conditions through its speaker vector and the refiner alone
# Frames of pause before and behind what is said, which are not heard: refiner and decoder know no sound that nothing
# comes before or after.
AROUND = 4


class NanoStack(LanguageModelStack):
    name = "nano"
    sample_rate = SAMPLE_RATE
    sampling = Sampling()
    frame_rate = FRAME_RATE

    def __init__(
        self,
        root: str | Path,
        device: torch.device | str,
        dtype: torch.dtype,
        graphs: bool = True,
        exact: bool = False,
        adapters: str | None = None,
        allow_stale: bool = False,
    ) -> None:
        """root: where the modules lie; adapters: where those of methods are looked for first. The rest is as for
        ``load_stack`` and ``LanguageModelStack``."""
        self.adapters = checkpoints.resolve(adapters) if adapters else None
        self.root, self.notes = overlay.completed(checkpoints.resolve(root))
        if self.adapters and (replaced := checkpoints.modules(self.adapters) & checkpoints.modules(self.root)):
            if base := replaced & {*PARTS, CODEBOOK_REFINER}:
                raise UserError(
                    f"The adapters hold {min(base)!r}, which belongs to no method: give their folder as --stack."
                )
            self.notes += (f"From the adapters instead of the stack: {', '.join(sorted(replaced))}.",)
        lineage.check(self.root, checkpoints.modules(self.root), allow_stale)
        parts = {name: checkpoints.load_module(self.root, name) for name in PARTS}
        check_sizes(parts)
        super().__init__(parts["lm"], device, dtype, exact, graphs)
        self.codec: Codec = parts["codec"].to(self.device)
        self.waveform_decoder: WaveformDecoder = parts["decoder"].to(self.device)
        self.refiner: Refiner = parts["refiner"].to(self.device)
        self.speaker: SpeakerEncoder = parts["speaker"].to(self.device)
        self.codebook_refiner: CodebookRefiner | None = None  # without it several codebooks are decoded as they are
        if checkpoints.available(self.root, CODEBOOK_REFINER):
            self.codebook_refiner = checkpoints.load_module(self.root, CODEBOOK_REFINER).to(self.device)
        self.checkpoint_hash = checkpoints.checkpoint_hash(self.root)

    @property
    def parts(self) -> dict[str, torch.nn.Module]:
        """What ``bench`` times apart."""
        return {"refiner": self.refiner, "source": self.waveform_decoder.source, "decoder": self.waveform_decoder}

    def tokenize(self, text: str) -> tuple[Tensor, tuple[str, ...]]:
        """-> phoneme ids [T], one label each."""
        ids, labels = sentences.encode(text)
        return torch.tensor(ids, device=self.device), labels

    def split(self, text: str) -> list[str]:
        return [closed(piece) for piece in sentences.split_sentences(text, SEGMENT_CHARACTERS)]

    def preview(self, text: str) -> list[tuple[str, str]]:
        """What will be said, a sentence an entry: words written out, and phonemes."""
        return [(sentence.words, sentence.phonemes) for sentence in sentences.preview(text)]

    @torch.no_grad()
    def encode_prompt(self, samples: np.ndarray, sample_rate: int, text: str | None = None) -> Prompt:
        """A voice from samples [N]. With its transcript, a short prompt is also given to the language model as
        context."""
        recording = audio.prompt(audio.read((sample_rate, samples)))
        transcript = text.strip() if text and text.strip() and not recording.cut else None
        # Right behind the last sound the language model would say the rest of it first, behind a pause words of the
        # transcript.
        frames = -(-audio.speech_end(recording.samples) // HOP)
        transcript, notes = self._checked(transcript, frames, recording.seconds)
        wave = torch.from_numpy(recording.samples).to(self.device)[None]
        codes = self.codes(wave, transcript)
        pause = codes[0, [audio.quietest(recording.samples)]]
        key = hashlib.sha256(recording.samples.tobytes() + (transcript or "").encode()).hexdigest()[:16]
        return Prompt(
            codes=codes[0, :frames],
            speaker=self.speaker(wave)[0],
            text=transcript,
            seconds=recording.seconds,
            key=key,
            extra={"latent": self.codec.quantizer.decode(codes), "pause": pause},
            notes=recording.notes + notes,
        )

    @torch.no_grad()
    def codes(self, wave: Tensor, transcript: str | None = None) -> Tensor:
        """Codes [1, F, K] of samples [1, N]. With a ``transcript``, the first codebook follows its
        phonemes."""
        phonetic, labels = self.codec.phonetic(self.codec.pad(wave)), None
        if transcript and self.codec.config.first_by_sound:
            sounds = sentences.sounds()
            labels = self.codec.align(phonetic, [n for n in self.tokenize(transcript)[0].tolist() if n in sounds])
        return self.codec.encode(wave, phonetic, labels)

    def _checked(self, transcript: str | None, frames: int, seconds: float) -> tuple[str | None, tuple[str, ...]]:
        """The transcript of ``frames`` of speech, None where it cannot be that, and a note on why it is not used."""
        if not transcript:
            return None, ()
        try:
            symbols = len(self.tokenize(transcript)[1])
        except UserError as error:  # refused here, not in the middle of a run
            raise UserError(f"The voice's transcript: {error}") from None
        shortest, longest = frames_of(symbols)
        if note := misfit(frames, shortest, longest - PAUSES // 2, seconds):  # half of the pauses have been cut off
            return None, (note,)
        if seconds > CONTEXT_SECONDS:
            note = f"The prompt is longer than {CONTEXT_SECONDS:g} s, so its transcript is not used; a shorter one "
            return transcript, (f"{note}copies the way of speaking too.",)
        return transcript, ()

    def prefix(self, prompt: Prompt, segment: str) -> Prefix:
        """[speaker, SOS, prompt's text, text, TASK] with the prompt's speech behind it; without a transcript, or with a
        prompt longer than the model knows, [speaker, SOS, text, TASK] alone."""
        ids, own = self.tokenize(segment)
        codes = prompt.codes[:0]
        if prompt.text and prompt.seconds <= CONTEXT_SECONDS:
            before, labels = self.tokenize(prompt.text)
            # Its final mark stands for a pause, which is not in the codes: the text to say would be taken for it. With
            # both, a short text is said twice.
            end = max((i + 1 for i, label in enumerate(labels) if label.word), default=0)
            ids = torch.cat([before[:end], torch.tensor([symbols.IDS[symbols.BOUNDARY]], device=self.device), ids])
            codes = prompt.codes
        prefix = self.lm.prefix(ids, (), prompt.speaker.to(self.dtype), codes)
        # Attention maps show the text being spoken, not the transcript of the prompt in front of it.
        text = slice(prefix.text.stop - len(own), prefix.text.stop)
        shortest, longest = frames_of(len(own))
        transcript = len(ids) - len(own)
        return dataclasses.replace(
            prefix, text=text, labels=own, shortest=shortest, longest=longest, transcript=transcript
        )

    def _trained(self, kind: type[Method], part: str, module: torch.nn.Module) -> torch.nn.Module | None:
        """The trained module; None where it is missing and the method can do without."""
        for root in (self.adapters, self.root):
            if root is not None and checkpoints.available(root, part):
                return self._placed(checkpoints.load_module(root, part, module))
        if part not in kind.needs_weights:
            return None
        raise UserError(
            f"The method {kind.name!r} has no trained weights ({part}) here: make them with "
            f"'python -m tts_demo train {part}'."
        )

    def vocoder(self, prompt: Prompt, codebooks: int, live: bool = True) -> "NanoVocoder":
        """A refiner fills in the codebooks that are not there; of several it is one that also weighs what they say.
        ``live`` changes nothing: streaming is exact."""
        decoder, quantizer = self.waveform_decoder, self.codec.quantizer
        speaker, latents = prompt.speaker[None].float(), prompt.extra["latent"]
        around = prompt.extra["pause"].expand(AROUND, -1)[:, :codebooks]
        if codebooks == 1:
            refine = lambda codes: self.refiner(codes[..., 0], speaker, latents)
        elif self.codebook_refiner is not None:
            count = torch.tensor([codebooks], device=self.device)
            refine = lambda codes: self.codebook_refiner.refine_codebooks(
                codes[..., 0], quantizer.finer(codes), count, speaker, latents
            )[0]
        else:
            return NanoVocoder(speech_stages(decoder, quantizer.decode), around)
        refined = Windowed(refine, self.refiner.left, self.refiner.right)
        return NanoVocoder([refined, *speech_stages(decoder)], around)


def check_sizes(parts: dict[str, torch.nn.Module]) -> None:
    """Raises UserError where what one module makes is not what the next one takes: modules of two checkpoints."""
    c = {name: module.config for name, module in parts.items()}
    sizes = {
        "entries of the first codebook": {"codec": c["codec"].first, "refiner": c["refiner"].entries},
        "width of the latent": {name: c[name].latent for name in ("codec", "decoder", "refiner")},
        "width of the speaker vector": {"speaker": c["speaker"].embedding, "refiner": c["refiner"].speaker},
        "codes": {"codec": c["codec"].first, "lm": c["lm"].speech_codes},
    }
    for what, found in sizes.items():
        first = next(iter(found))
        if other := next((name for name in found if found[name] != found[first]), None):
            raise UserError(
                f"{first!r} and {other!r} do not fit each other ({what}: {found[first]} and {found[other]}): give a "
                f"checkpoint that holds both, or make the one that is missing with 'python -m tts_demo train {first}'."
            )


def frames_of(symbols: int) -> tuple[int, int]:
    """The fewest and the most frames that a text of so many symbols takes."""
    return round(FASTEST * symbols), round(PAUSES + SLOWEST * symbols)


def speech_stages(decoder: WaveformDecoder, latent: Callable[[Tensor], Tensor] = lambda x: x) -> Stages:
    """The decoder's steps as stages of a stream; ``latent`` makes its input of each frame."""
    return [
        Windowed(lambda x: decoder.condition(latent(x)), decoder.source.left, decoder.source.right),
        RunningPhase(),
        Windowed(decoder, decoder.left, decoder.right, HOP),
    ]


class NanoVocoder:
    """Frames through refiner and decoder, each of which streams exactly (codec/streaming.py). ``around``: frames [n, K]
    that come before the first ones and behind the last ones and are not heard."""

    def __init__(self, stages: Stages, around: Tensor) -> None:
        self._stages, self._around = stages, around
        self._unheard = self._outside = len(around) * HOP  # samples
        self._started = False

    def push(self, frames: Tensor) -> np.ndarray:
        """frames [n, K] -> samples [N], N >= 0. Each call recomputes context: few long pushes cost less than many
        short."""
        if not len(frames):
            return np.zeros(0, np.float32)
        data = frames.to(self._around.device)
        if not self._started:
            data = torch.cat([self._around, data])
        self._started = True
        for stage in self._stages:
            data = stage.push(data)
            if not len(data):
                return np.zeros(0, np.float32)
        first = min(self._unheard, len(data))
        self._unheard -= first
        return data[first:].cpu().numpy()

    def prepare(self) -> None:
        """Nothing: there are no graphs."""

    def end_segment(self) -> np.ndarray:
        """Nothing: the next segment goes on where this one stops, without a join."""
        return np.zeros(0, np.float32)

    def finish(self) -> np.ndarray:
        """The rest of the samples: in all exactly F * 320."""
        if not self._started:
            return np.zeros(0, np.float32)
        data = self._around
        for stage in self._stages:
            data = torch.cat([stage.push(data), stage.finish()])
        return data[self._unheard : len(data) - self._outside].cpu().numpy()
