"""Recipe ``codec``: encoder, quantizer and decoder, with the refiner and the speaker encoder trained along.

Each batch is random crops. Some go through the quantizer with a random number of codebooks; the others go first
codebook -> refiner (with the voice of another crop and its own pitch) -> the same decoder, so that the decoder learns
to speak from both. Besides spectra, the frozen recogniser's features of the result must be those of the recording, and
a finished first codebook must take it for the same codes: spectra alone forgive a mumble. The first codebook alone
feeds the semantic probe.

``start=published`` goes on with first codebook and voice frozen: whatever was trained on the first codebook stays
valid, the strategies of QTTS that read the others do not. A first codebook that is new to the refiner wants
``refined=0.75``. The recipe ``decoder`` keeps every code."""

from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from ... import checkpoints
from ...codec.decoder import WaveformDecoder
from ...codec.model import Codec
from ...codec.quantizer import SHARPNESS
from ...codec.recogniser import PhonemeRecogniser
from ...codec.refiner import Refiner
from ...codec.speaker import SpeakerEncoder
from ...config import HOP, RefinerConfig
from ...text.symbols import SYMBOLS
from ..data.batch import TensorBatch
from ..data.corpora import describe, pad_stack
from ..data.load import load_speech, recogniser_shape, use_recogniser
from ..data.pitch import pitch_of
from ..data.sequences import phonetic_features
from ..data.speech import phonemes_of_labels
from ..discriminators import WaveformJudges, of_waveforms
from ..losses import SemanticProbe, SpectralLoss, known_frames_loss
from ..optimiser import inner_matrices
from ..progress import Progress
from ..rendering import recorded_source, renderings
from ..settings import Optimiser, Share
from ..task import Loss, Task, TrainOptions

CROP, VOICE_CROP, MAX_SOUNDS = 64, 100, 48  # frames, frames, phonemes

AUDIO_GRADIENT = 0.15  # share of the spectra's gradient that reaches the first codebook
PHONEME_WEIGHT = 1.0  # weight of the cross-entropy of phonemes
JUDGES_RATE = 8.0  # learning rate of the discriminators over the decoder's: at that they tell nothing apart for hours
JUDGED = 32  # frames of each crop that the discriminators hear
BY_DEGREES = 300  # steps until they count in full (``Progress.ramp``)


@dataclass(frozen=True)
class CodecBatch(TensorBatch):
    audio: Tensor  # [B, CROP * HOP]
    phonetic: Tensor  # [B, CROP, semantic width] what the recogniser reads of the whole utterance
    voice: Tensor  # [B, VOICE_CROP * HOP], the same speaker elsewhere
    voice_phonetic: Tensor  # [B, VOICE_CROP, semantic width]
    labels: Tensor  # [B, CROP] phoneme id per frame
    pitch: Tensor  # [B, CROP] class of pitch.py
    hertz: Tensor  # [B, CROP] pitch for the decoder's source, 0 = unvoiced
    speakers: Tensor  # [B]
    sounds: Tensor  # [B, T] phoneme ids of the crop, 0 = padding


class CodecSettings(WaveformJudges):
    optimiser: Optimiser = "muon"
    refined: Share = Field(0.5, description="share of a batch that goes through the refiner")
    judges_rate: float = Field(JUDGES_RATE, gt=0, description="learning rate of the discriminators over the decoder's")


class CodecTask(Task):
    Settings = CodecSettings
    settings: CodecSettings
    name = "codec"
    steps, lr = 9000, 8e-4
    loads_published = True

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        recogniser = checkpoints.load_module(options.checkpoint, "ears")
        self.speech = load_speech(options, self.settings, recogniser)
        self.size, self.device = options.batch or 8, options.device
        share = self.settings.refined
        self.refined = min(self.size - 1, max(1, round(self.size * share))) if self.size > 1 else 1
        self.goes_on |= self.settings.start == "published"
        self.codec, self.decoder, self.refiner, self.voice = self._networks(options, recogniser)
        self.codec.phonetic.to(self.device)
        self.pitch = pitch_of(self.speech, self.refiner.config.pitch_classes)
        self.hertz = pitch_of(self.speech)
        self.phonetic = phonetic_features(self.speech, self.codec)
        self.modules = {"codec": self.codec, "decoder": self.decoder, "refiner": self.refiner, "speaker": self.voice}
        self.train, self.test = self.speech.split_longer(CROP)
        self.by_voice = self.speech.by_speaker(self.train)
        self.voices = sorted(self.by_voice)
        self.probe = SemanticProbe(self.codec.config.latent, len(SYMBOLS))
        self.classify = nn.Linear(self.voice.config.embedding, len(self.voices))
        self.helpers = {"probe": self.probe, "classify": self.classify}
        self.adversarial = self.settings.adversarial
        if self.adversarial:
            self.helpers["discriminators"] = of_waveforms(self.settings.wider, self.settings.judges == "light")
            self.quicker = {"discriminators": self.settings.judges_rate}
        self.spectral = SpectralLoss().to(self.device)
        self.weights = self.speech.shares(self.train)
        self.data_summary = describe(self.speech, self.train)

    def _networks(
        self, options: TrainOptions, recogniser: PhonemeRecogniser
    ) -> tuple[Codec, WaveformDecoder, Refiner, SpeakerEncoder]:
        if self.goes_on:
            codec, decoder, refiner, voice = published(options)
            for part in (codec.encoder, codec.quantizer, decoder):
                part.requires_grad_(True)
            codec.quantizer.codebooks[0].requires_grad_(False)
            return codec, decoder, refiner, voice
        codec = Codec(recogniser_shape(recogniser))
        use_recogniser(codec, recogniser)
        return codec, WaveformDecoder(), Refiner(RefinerConfig(entries=codec.config.first)), SpeakerEncoder()

    def matrices(self) -> list[nn.Parameter]:
        blocks = (self.codec.encoder.blocks, self.decoder.blocks, self.decoder.fine_blocks, self.refiner.layers)
        return [weight for some in blocks for weight in inner_matrices(some)]

    def batch(self, rng: np.random.Generator, step: int) -> CodecBatch:
        return self._make(rng, rng.choice(self.train, size=self.size, p=self.weights))

    def _make(self, rng: np.random.Generator, chosen: np.ndarray) -> CodecBatch:
        *crops, sounds = zip(*(self._row(rng, int(i)) for i in chosen))
        return CodecBatch(*(torch.from_numpy(np.stack(some)) for some in crops), pad_stack(sounds))

    def _row(self, rng: np.random.Generator, i: int) -> tuple[np.ndarray, ...]:
        """An item of a batch: a crop of utterance ``i``, and the same speaker elsewhere."""
        row = self.speech.labels(i)
        start = int(rng.integers(len(row) - CROP + 1))
        crop, speaker = slice(start, start + CROP), self.speech.utterances[i].speaker
        voice = self._voice(rng, int(rng.choice(self.by_voice.get(speaker, [i]))))
        pitch, hertz = self.pitch.get(i)[crop].astype(np.int64), self.hertz.get(i)[crop]
        place = self.voices.index(speaker) if speaker in self.voices else 0
        samples, phonetic = self.speech.samples(i, start * HOP, CROP * HOP), self.phonetic.get(i)[crop]
        sounds = phonemes_of_labels(row[crop], MAX_SOUNDS)
        return samples, phonetic.astype(np.float32), *voice, row[crop], pitch, hertz, np.asarray(place), sounds

    def _voice(self, rng: np.random.Generator, index: int) -> tuple[np.ndarray, np.ndarray]:
        """VOICE_CROP frames of an utterance: samples [VOICE_CROP * HOP] and features. A shorter recording is
        repeated."""
        rows = self.phonetic.get(index)
        start, count = int(rng.integers(max(1, len(rows) - VOICE_CROP + 1))), min(len(rows), VOICE_CROP)
        return (
            np.resize(self.speech.samples(index, start * HOP, count * HOP), VOICE_CROP * HOP),
            np.resize(rows[start : start + count], (VOICE_CROP, rows.shape[1])).astype(np.float32),
        )

    def loss(self, batch: CodecBatch, progress: Progress) -> Loss:
        """The first ``refined`` items go through the refiner, the others from their codebooks, all through one
        decoder."""
        batch = batch.to(self.device)
        codec, count = self.codec, self.refined
        items, codebooks = len(batch.audio), codec.config.codebooks
        # Half of the items use all codebooks, the rest 1 to K - 1 at random.
        keep = torch.where(torch.rand(items) < 0.5, codebooks, torch.randint(1, codebooks, (items,))).to(self.device)
        keep[:count] = codebooks  # their full latent is the refiner's target
        latent, semantic = codec.encoder(batch.audio), codec.semantic(batch.phonetic)
        quantised, first, codes, vq = codec.quantizer(latent, semantic, keep, AUDIO_GRADIENT, batch.labels)
        speaker = self.voice(batch.voice)
        with torch.no_grad():
            prompt = self._prompt(batch, count)
        refined, pitch = self.refiner.refine(codes[:count, :, 0], speaker[:count], prompt, pitch=batch.pitch[:count])
        made, spectral, loss, parts = self.rendering_loss(batch, torch.cat([refined, quantised[count:]]))
        latent_loss, fitted_parts = fitted(refined, quantised[:count].detach(), pitch, batch.pitch[:count])
        spectra = {"refined": spectral[:count].mean().item(), "coded": spectral[count:].mean().item()}
        parts = spectra | fitted_parts | parts
        loss, parts = self.judged(made, batch.audio, progress, loss + latent_loss, parts)
        loss, parts = loss + 0.25 * vq, parts | {"vq": vq.item()}
        if self.goes_on:  # the first codebook and the voice are finished: nothing more to teach them
            return loss, parts
        frame = self.probe.frame_loss(first, batch.labels)
        spelling = self.probe.decoder_loss(first, batch.sounds)
        voice = F.cross_entropy(self.classify(speaker).float(), batch.speakers)
        loss = loss + 0.4 * frame + 0.2 * spelling + 0.05 * voice
        return loss, parts | {"frame": frame.item(), "asr": spelling.item(), "voice": voice.item()}

    def judged(self, made: Tensor, real: Tensor, progress: Progress, loss: Tensor, parts: dict[str, float]) -> Loss:
        """The loss and its parts with what the discriminators add, where there are any; made, real [B, CROP * HOP]."""
        if not self.adversarial:
            return loss, parts
        weight = self.adversarial * progress.ramp(BY_DEGREES)
        more, verdicts = self.helpers["discriminators"].adversarial(made, real, weight, JUDGED)
        return loss + more, parts | verdicts

    def _prompt(self, batch: CodecBatch, count: int) -> Tensor:
        """Latents of the voices of the first ``count`` items."""
        return self.codec.quantizer.decode(self.codec.encode(batch.voice[:count], batch.voice_phonetic[:count]))

    def rendering_loss(self, batch: CodecBatch, latent: Tensor) -> tuple[Tensor, Tensor, Tensor, dict[str, float]]:
        """What the decoder makes of latents [B, CROP, latent]: -> samples [B, CROP * HOP], spectral distances [B] from
        the recordings, loss [] of these and of what else an ear notices, its parts."""
        source, source_loss = recorded_source(self.decoder.source, latent, batch.hertz)
        made, again = renderings(self.decoder, latent, source, batch.hertz)
        spectral, spread = self.spectral.energy(made, again, batch.audio)
        labels = batch.labels if self.goes_on else None
        features, phonemes = recogniser_distance(self.codec, made, batch.audio, labels)
        loss = spectral.mean() + features + PHONEME_WEIGHT * phonemes + source_loss
        parts = {"recogniser": features, "phonemes": phonemes, "source": source_loss, "spread": spread.mean()}
        return made, spectral, loss, {name: part.item() for name, part in parts.items()}

    @torch.inference_mode()
    def evaluate(self) -> dict[str, float]:
        """Spectral losses and the first codebook's phoneme error on fixed crops of held-out speech."""
        rng, scores = np.random.default_rng(0), []
        for start in range(0, min(len(self.test), 96), 12):
            batch = self._make(rng, np.asarray(self.test[start : start + 12])).to(self.device)
            codes = self.codec.encode(batch.audio, batch.phonetic, batch.labels)
            latent = self.codec.quantizer.decode(codes)
            prompt = self.codec.quantizer.decode(self.codec.encode(batch.voice, batch.voice_phonetic))
            refined = self.refiner(codes[..., 0], self.voice(batch.voice), prompt)
            distance = lambda x: self.spectral(self.decoder.whole(x), batch.audio).mean().item()
            names = ("spectral distance, 8 codebooks", "spectral distance, first codebook refined")
            found = {name: distance(x) for name, x in zip(names, (latent, refined))}
            if not self.goes_on:  # else the probe is not trained
                first = self.codec.quantizer.codebooks[0].lookup(codes[..., 0])
                found["first codebook, frame phoneme error"] = self.probe.frame_error(first, batch.labels)
            scores.append(found)
        return {name: float(np.mean([found[name] for found in scores])) for name in scores[0]}


def recogniser_distance(codec: Codec, made: Tensor, real: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """made, real [B, N], labels [B, F] -> distance of the recogniser's features of one from those of the other, over
    the size of the latter; and, where labels are given for a finished first codebook, the cross-entropy of its phonemes
    of ``made`` (of an older codebook: of the other's codes), each []."""
    features = codec.phonetic(made)
    with torch.no_grad():
        target = codec.phonetic(real)
    distance = (features - target).abs().mean() / target.abs().mean()
    if labels is None:
        return distance, distance.new_zeros(())
    codebook = codec.quantizer.codebooks[0]
    if codec.config.first_by_sound:
        return distance, known_frames_loss(codebook.phoneme_log_probs(codec.semantic(features)).transpose(1, 2), labels)
    alike = codebook.similarity(codec.semantic(features)).float() / SHARPNESS
    return distance, F.cross_entropy(alike.flatten(0, 1), codebook.encode(codec.semantic(target), labels).flatten())


def fitted(refined: Tensor, target: Tensor, pitch: Tensor, classes: Tensor) -> Loss:
    """What a refiner is taught beside its sound: the latent [B, F, latent], and the pitch [B, F] from its logits: ->
    loss [], parts."""
    distance, guessed = F.l1_loss(refined, target), F.cross_entropy(pitch.float().transpose(1, 2), classes)
    return 0.3 * distance + 0.1 * guessed, {"reg": distance.item(), "pitch": guessed.item()}


def published(options: TrainOptions) -> tuple[Codec, WaveformDecoder, Refiner, SpeakerEncoder]:
    """Codec, decoder, refiner and speaker encoder as they are published, frozen but for the refiner."""
    names = ("codec", "decoder", "refiner", "speaker")
    codec, decoder, refiner, voice = (checkpoints.load_module(options.checkpoint, name) for name in names)
    if refiner.config.entries != codec.config.first:  # what depends on the codes is learnt anew
        refiner = fitting(refiner, codec.config.first)
    return codec, decoder, refiner.requires_grad_(True), voice


def fitting(refiner: Refiner, entries: int) -> Refiner:
    """The same refiner for a first codebook of so many entries, which it does not know yet."""
    new = Refiner(replace(refiner.config, entries=entries))
    shapes = {name: weight.shape for name, weight in new.state_dict().items()}
    new.load_state_dict({k: v for k, v in refiner.state_dict().items() if v.shape == shapes[k]}, strict=False)
    return new.eval()
