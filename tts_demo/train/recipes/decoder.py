"""Recipe ``decoder``: the waveform decoder alone, on latents of the finished codec and of the finished refiner.

Encoder, quantizer, refiner and speaker encoder are frozen, so every code stays valid. What comes from the refiner has
the first codebook, another utterance's speaker and prompt, and the recording's F0; of the rest a quarter comes from a
random number of codebooks, the others from all.

A new decoder learns the energy distance of spectra first, with the F0 and voicing that drive the source: give
``adversarial`` once the spectral distance has settled.
"""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from pydantic import Field
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ... import checkpoints, lineage
from ...codec.decoder import WaveformDecoder
from ...codec.model import Codec
from ...config import HOP, CodecConfig, DecoderConfig, UserError
from ..data import packed
from ..data.batch import TensorBatch
from ..data.corpora import describe, longer_than
from ..data.load import sequences
from ..data.pitch import pitch_of
from ..discriminators import WaveformJudges, of_waveforms
from ..losses import SpectralLoss
from ..optimiser import inner_matrices
from ..progress import Progress
from ..rendering import recorded_source, renderings
from ..settings import Count, SequenceSettings, Share, Weight
from ..task import Loss, Task, TrainOptions
from .codec import recogniser_distance

CROP, JUDGED = 48, 24  # frames of a crop, and of the stretch of it that discriminators see
FEWER = 0.25  # share of what comes from codebooks that has a random number of them
WARM_UP = 300  # steps until the discriminators count in full
DISCRIMINATOR_RATE = 4.0  # learning rate of the discriminators over the decoder's
SHAPE = ("width", "layers", "subframes", "fine_width", "fine_layers", "window")  # settings that shape a new decoder


@dataclass(frozen=True)
class DecoderBatch(TensorBatch):
    codes: Tensor  # [B, CROP, K]
    prompt: Tensor  # [R, prompt frames, K], the same voice elsewhere, for the items that are refined
    speaker: Tensor  # [R, E] of that other utterance
    pitch: Tensor  # [B, CROP] class of the refiner
    f0: Tensor  # [B, CROP] Hz, 0 = unvoiced
    labels: Tensor  # [B, CROP] phoneme of each frame, UNKNOWN where nobody knows
    samples: Tensor  # [B, CROP * HOP]


class DecoderSettings(WaveformJudges, SequenceSettings):
    refined: Share = Field(0.5, description="share of a batch whose latents come from the refiner")
    recognised: Weight = Field(0.0, description="weight of what the phoneme recogniser makes of the result")
    judges_rate: float = Field(
        DISCRIMINATOR_RATE, gt=0, description="learning rate of discriminators over the decoder's"
    )
    width: Count = Field(DecoderConfig.width, description="of the trunk at the frame rate")
    layers: Count = Field(DecoderConfig.layers, description="blocks of the trunk")
    subframes: Count = Field(DecoderConfig.subframes, description="per frame of 20 ms")
    fine_width: Count = Field(DecoderConfig.fine_width, description="of the blocks at the sub-frame rate")
    fine_layers: Count = Field(DecoderConfig.fine_layers, description="blocks at the sub-frame rate")
    window: Count = Field(DecoderConfig.window, description="samples of the inverse STFT's window")


class DecoderTask(Task):
    Settings = DecoderSettings
    settings: DecoderSettings
    name = "decoder"
    steps, lr = 40_000, 1e-3
    averaged = 0.999
    flat = 0.7
    packable = True

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        settings, self.device, self.size = self.settings, options.device, options.batch or 8
        self.packed = packed.read(options.packed, options.work, self.device) if options.packed else None
        self.checkpoint = self.packed.checkpoint if self.packed else options.checkpoint
        self.codec = _codec(self.checkpoint, settings.recognised > 0, bool(self.packed)).to(self.device)
        self.refiner = checkpoints.load_module(self.checkpoint, "refiner").to(self.device)
        self.quantizer = self.codec.quantizer
        self.refined = min(self.size, round(self.size * settings.refined))
        shape = {name: getattr(settings, name) for name in SHAPE}
        if settings.start == "published":
            shape = checkpoints.read_config(self.checkpoint, "decoder")["config"]
        self.decoder = WaveformDecoder(DecoderConfig(**shape))
        if not self.packed:
            self._open(options)
        self.data_summary = self.packed.meta["data"] if self.packed else describe(self.data.speech, self.train)
        self.spectral = SpectralLoss().to(self.device)
        self.recognised, self.adversarial = settings.recognised, settings.adversarial
        self.modules, self.helpers = {"decoder": self.decoder}, {}
        if self.adversarial:
            self.helpers["discriminators"] = of_waveforms(settings.wider, settings.judges == "light")
            self.quicker = {"discriminators": settings.judges_rate}

    def _open(self, options: TrainOptions) -> None:
        """Speech and codes from the caches under ``--work``."""
        self.data = sequences(options, self.settings, frames=1)
        self.pitch = pitch_of(self.data.speech, self.refiner.config.pitch_classes)
        self.f0 = pitch_of(self.data.speech)
        self.train, self.test, self.share = longer_than(CROP, self._frames, self.data.train, self.data.test)

    def matrices(self) -> list[nn.Parameter]:
        return [w for part in (self.decoder.blocks, self.decoder.fine_blocks) for w in inner_matrices(part)]

    def _frames(self, index: int) -> int:
        return min(len(self.data.codes.get(index)), len(self.pitch.get(index)))

    def batch(self, rng: np.random.Generator, step: int) -> DecoderBatch:
        if self.packed:
            return self._gather(self.packed.train, int(rng.integers(2**62)), self.size, self.refined)
        return self._make(rng, rng.choice(self.train, size=self.size, p=self.share), self.refined)

    def _make(self, rng: np.random.Generator, chosen: np.ndarray, refined: int) -> DecoderBatch:
        rows, prompts, speech = [], [], self.data.speech
        for n, i in enumerate(map(int, chosen)):
            start = int(rng.integers(self._frames(i) - CROP + 1))
            crop = slice(start, start + CROP)
            known = self.pitch.get(i)[crop].astype(np.int64), self.f0.get(i)[crop], speech.labels(i)[crop]
            rows.append((self.data.codes.get(i)[crop], *known, speech.samples(i, start * HOP, CROP * HOP)))
            if n < max(1, refined):
                prompts.append(self.data.prompt(rng, i, self.refiner.config.prompt_frames))
        codes, *others = zip(*rows)
        return DecoderBatch(*(torch.from_numpy(np.stack(column)) for column in (codes, *zip(*prompts), *others)))

    def _gather(self, part: packed.Resident, seed: int, count: int, refined: int) -> DecoderBatch:
        """``_make`` on the device, all items at once."""
        generator = torch.Generator(self.device).manual_seed(seed)
        chosen, crop = part.stretches(count, CROP, generator)
        other, prompt = part.others(chosen[: max(1, refined)], self.refiner.config.prompt_frames, generator)
        return DecoderBatch(
            part.codes[crop].long(),
            part.codes[prompt].long(),
            part.speakers[other],
            part.pitch[crop].long(),
            part.f0[crop],
            part.labels[crop].long(),
            part.wave(crop),
        )

    def _row(self, index: int) -> packed.PackedUtterance:
        count, speech = self._frames(index), self.data.speech
        return packed.PackedUtterance(
            speech.samples(index, 0, count * HOP),
            self.data.codes.get(index)[:count],
            speech.labels(index)[:count],
            self.pitch.get(index)[:count],
            self.f0.get(index)[:count],
            self.data.codes.speakers[index],
            speech.utterances[index].speaker,
        )

    def pack(self, file: Path, limit: int, sound: str) -> int:
        rng = np.random.default_rng(0)
        order = {"train": rng.permutation(self.train).tolist(), "test": rng.permutation(self.test).tolist()}
        rows = {name: [partial(self._row, i) for i in some] for name, some in order.items()}
        meta = lambda count: {
            "recipe": self.name,
            "data": describe(self.data.speech, order["train"][:count]),
            "through": lineage.present(self.checkpoint, lineage.THROUGH[self.name]),
        }
        with tempfile.TemporaryDirectory() as folder:
            for name in ("refiner", *(["decoder"] if self.settings.start == "published" else [])):
                if checkpoints.available(self.checkpoint, name):
                    checkpoints.copy_module(self.checkpoint, Path(folder), name)
                else:  # older checkpoints hold the decoder within the codec
                    checkpoints.save_module(folder, name, checkpoints.load_module(self.checkpoint, name))
            _write_codec(self.codec, Path(folder), self.settings.recognised > 0)
            return packed.write(file, rows, Path(folder), meta, limit, sound)

    def loss(self, batch: DecoderBatch, progress: Progress) -> Loss:
        batch = batch.to(self.device)
        latent = self._latents(batch, self.refined)
        source, source_loss = recorded_source(self.decoder.source, latent, batch.f0)
        made, again = renderings(self.decoder, latent, source, batch.f0)
        spectral, spread = self.spectral.energy(made, again, batch.samples)
        loss = spectral.mean() + source_loss
        parts = {
            "refined": spectral[: self.refined].mean().item() if self.refined else 0.0,
            "coded": spectral[self.refined :].mean().item() if self.refined < self.size else 0.0,
            "source": source_loss.item(),
            "spread": spread.mean().item(),
        }
        if self.recognised:
            feature_distance, wrong = recogniser_distance(self.codec, made, batch.samples, batch.labels)
            loss = loss + self.recognised * (feature_distance + wrong)
            parts |= {"recogniser": feature_distance.item(), "phonemes": wrong.item()}
        if not self.adversarial:
            return loss, parts
        weight = self.adversarial * progress.ramp(WARM_UP)
        more, judged = self.helpers["discriminators"].adversarial(made, batch.samples, weight, JUDGED)
        return loss + more, parts | judged

    @torch.no_grad()
    def _latents(self, batch: DecoderBatch, refined: int) -> Tensor:
        """[B, CROP, latent]: of the refiner for the first ``refined`` items, of codebooks for the others."""
        count, codebooks = len(batch.codes) - refined, batch.codes.shape[-1]
        fewer = torch.rand(count) < FEWER
        keep = torch.where(fewer, torch.randint(1, codebooks + 1, (count,)), codebooks).to(self.device)
        levels = [codebook.lookup(batch.codes[refined:, :, k]) for k, codebook in enumerate(self.quantizer.codebooks)]
        coded = sum(x * (keep > k)[:, None, None] for k, x in enumerate(levels))
        if not refined:
            return coded.float()
        prompt = self.quantizer.decode(batch.prompt)
        some, _ = self.refiner.refine(batch.codes[:refined, :, 0], batch.speaker, prompt, pitch=batch.pitch[:refined])
        return torch.cat([some.float(), coded.float()])

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Spectral distances on fixed crops of held-out speech, with the decoder's own F0."""
        scores = []
        for batch in self._held_out():
            batch = batch.to(self.device)
            latents = self.quantizer.decode(batch.codes), self._latents(batch, len(batch.codes))
            scores.append([self.spectral(self.decoder.whole(x), batch.samples).mean().item() for x in latents])
        names = ("spectral distance, 8 codebooks", "spectral distance, first codebook refined")
        return dict(zip(names, np.mean(scores, axis=0).tolist()))

    def _held_out(self) -> Iterator[DecoderBatch]:
        """Fixed crops of held-out speech, up to 96 of them, twelve at a time, all through the refiner."""
        if self.packed:
            yield from (self._gather(self.packed.test, seed, 12, 12) for seed in range(8))
            return
        rng = np.random.default_rng(0)
        for start in range(0, min(len(self.test), 96), 12):
            chosen = np.asarray(self.test[start : start + 12])
            yield self._make(rng, chosen, len(chosen))


def _parts(recognised: bool) -> tuple[str, ...]:
    """Prefixes of the codec's weights that the recipe reads."""
    return ("quantizer.", *(("phonetic.", "semantic.") if recognised else ()))


def _codec(checkpoint: Path, recognised: bool, some: bool) -> Codec:
    """The published codec; ``some``: of a packed file, which holds no more of it than the recipe reads."""
    if not some:
        return checkpoints.load_module(checkpoint, "codec")
    codec = Codec(CodecConfig(**json.loads((checkpoint / "codec" / "config.json").read_text())["config"]))
    state = load_file(checkpoint / "codec" / "model.safetensors")
    if missing := [p for p in _parts(recognised) if not any(key.startswith(p) for key in state)]:
        raise UserError(f"The packed file lacks the codec's {missing[0][:-1]}: pack it with the settings it is for.")
    codec.load_state_dict(checkpoints.renamed(state, "Codec"), strict=False)
    return codec.float().eval().requires_grad_(False)


def _write_codec(codec: Codec, folder: Path, recognised: bool) -> None:
    state = {k: v.half().cpu().contiguous() for k, v in codec.state_dict().items() if k.startswith(_parts(recognised))}
    (folder / "codec").mkdir()
    save_file(state, folder / "codec" / "model.safetensors")
    (folder / "codec" / "config.json").write_text(json.dumps({"config": asdict(codec.config)}))
