"""Recipe ``dcar-policy``: the chunk policy by reinforcement (DCPO; DCAR, sections 4.1 and 4.2, appendix B).

A batch is a few utterances of 6 s and more, a group of rollouts each, which go on from the first 3 s of the recording
as the prompt (section 5.1). Chase then exceed: half of a group takes fixed sizes from its range, the other half the
policy's own. Every group samples two or more sizes of the guidance range, the fixed sizes that score best (``--set
guidance=2,3,4``; the card has the profile), so that one policy serves them all. Each batch of rollouts serves several
updates, which is what the clipped ratio is for. The paper's ablations: ``chase=0`` lets the policy choose in the whole
group, ``penalty=0`` leaves the trace penalty out. ``ear=hama`` counts errors by the package of that name (Apache 2.0;
on held-out recordings 14 % of phonemes where our recogniser errs in 19, at seven times the cost).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ... import checkpoints
from ...config import FRAME_RATE, Sampling
from ...lm.decoder import Decoder
from ...methods.dcar.heads import Heads
from ...methods.dcar.policy import Policy
from ...methods.dcar.ranges import LONGEST
from ..data.corpora import describe
from ..data.load import load_lm, load_recogniser, sequences
from ..data.sequences import SpeechBatch, prefix_batch
from ..progress import Progress
from ..settings import SequenceSettings, Share, Weight, some_of
from ..task import Task, TrainOptions
from .dcar_reward import Hama, PhonemeErrors
from .dcar_rollouts import Rollouts, Schedule, roll_out
from .dcpo import PENALTY, advantages, kl_weight, mutual_information, policy_loss, rewards

GROUP = 16  # rollouts an utterance
UPDATES = 3  # optimiser steps on one batch of rollouts
SECONDS = (6.0, 12.0)  # lengths of the utterances
PROMPT_SECONDS = 3.0  # at the beginning of each, which stand in front; at most half of it
PROMPT_FRAMES = 100  # of another utterance of the voice, for the refiner
PROFILED = 16  # utterances the fixed sizes are profiled on
TESTED = 32  # held-out utterances of ``evaluate``
SAMPLING = Sampling()  # what a person hears by default is what is rewarded


@dataclass(frozen=True)
class Utterances:
    """U utterances to be spoken: their batch (text and voice), truths, error rates of the recordings, voice prompts."""

    speech: SpeechBatch
    truth: list[list[int]]
    recorded: Tensor  # [U]
    prompt: Tensor  # [U, F, K]

    @property
    def prompt_frames(self) -> int:
        """How many frames of the recordings stand in front."""
        return min(round(PROMPT_SECONDS * FRAME_RATE), int(self.speech.frames.min()) // 2)

    def repeat(self, times: int) -> Utterances:
        """Each one ``times`` times in a row."""
        again = lambda t: t.repeat_interleave(times, 0)
        truth = [t for t in self.truth for _ in range(times)]
        return Utterances(self.speech.each(again), truth, again(self.recorded), again(self.prompt))


@dataclass(frozen=True)
class Experience:
    """Rollouts with what the loss needs: allowed [R, 7], own [R] bool (the policy chose), advantage [R], reward [R],
    error [R]."""

    rollouts: Rollouts
    allowed: Tensor
    own: Tensor
    advantage: Tensor
    reward: Tensor
    error: Tensor


@dataclass(frozen=True)
class GuidanceProfile:
    """Error rate of each fixed chunk size, and the sizes that score best: the guidance range (appendix B.1)."""

    error_rates: dict[int, float]
    best: tuple[int, ...]


def guidance_profile(error_rate: Callable[[int], float], keep: int = 3) -> GuidanceProfile:
    """error_rate: fixed chunk size 1..7 -> error rate of speech made with it. ``keep``: sizes in the guidance range."""
    rates = {size: error_rate(size) for size in range(1, LONGEST + 1)}
    return GuidanceProfile(rates, tuple(sorted(sorted(rates, key=rates.get)[:keep])))


class PolicySettings(SequenceSettings):
    guidance: some_of(tuple(range(1, LONGEST + 1))) = Field(
        (2, 3, 4), description="chunk sizes of which every group samples two or more; their profile is on the card"
    )
    chase: Share = Field(0.5, description="share of a group that takes fixed sizes")
    penalty: Weight = Field(PENALTY, description="of a size outside the range; 0 = none")
    tie: Weight = Field(
        0.0, description="advantage of each token a step more than the group's mean: prefers the faster"
    )
    ear: Literal["own", "hama"] = Field("own", description="whose transcription is rewarded; hama: 'pip install hama'")


class PolicyTask(Task):
    Settings = PolicySettings
    settings: PolicySettings
    name = "dcar-policy"
    steps, lr = 240, 1e-3

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        self.size = options.batch or 4  # utterances a batch
        self.data = sequences(options, self.settings, frames=1)
        self.data_summary = describe(self.data.speech, self.data.train)
        self.lm = load_lm(options).requires_grad_(False)
        heads = checkpoints.load_module(options.checkpoint, "dcar-heads", Heads(self.lm))
        parts = [checkpoints.load_module(options.checkpoint, name) for name in ("codec", "decoder", "refiner")]
        recogniser = Hama() if self.settings.ear == "hama" else load_recogniser(options.checkpoint)
        self.errors = PhonemeErrors(*parts, recogniser)
        self.prepare(heads)

    def prepare(self, heads: Heads) -> None:
        """What follows from the modules loaded: the decoder with the heads' LoRA, a fresh policy, nothing rolled
        out."""
        self.heads = heads
        self.decoder = Decoder.from_model(self.lm, heads.lora)
        self.policy = Policy(self.lm)
        self.modules, self.helpers = {"dcar-policy": self.policy}, {}
        self.experience: Experience | None = None
        self._recorded: dict[int, float] = {}

    def batch(self, rng: np.random.Generator, step: int) -> Experience:
        """Rollouts of the present policy, kept for ``UPDATES`` steps (a resumed run begins with new ones)."""
        if self.experience is None or step % UPDATES == 0:
            self.experience = self.explore(rng)
        return self.experience

    def loss(self, batch: Experience, progress: Progress) -> tuple[Tensor, dict[str, float]]:
        r = batch.rollouts
        with torch.autocast(r.hidden.device.type, enabled=False):
            log_probs = self.policy(r.hidden, batch.allowed).log_softmax(-1)
        weight = kl_weight(progress.share)
        loss, kl = policy_loss(
            log_probs, r.actions, r.log_probs, batch.advantage, r.mask, self.policy.reference(batch.allowed), weight
        )
        own = batch.own
        within = log_probs.detach().masked_fill(~batch.allowed[:, None], float("-inf")).log_softmax(-1)
        return loss, {
            "reward": batch.reward[own].mean().item(),
            **({} if own.all() else {"chased reward": batch.reward[~own].mean().item()}),
            "error": batch.error[own].mean().item(),
            "kl": kl.item(),
            "information": mutual_information(within, r.mask),
            "chunk": r.mean_chunk,
        }

    def explore(self, rng: np.random.Generator) -> Experience:
        """One group of rollouts for each of a few utterances, and its advantages."""
        chosen = self._choose(rng, self.data.train, self.size)
        utterances = self.utterances(rng, chosen).repeat(GROUP)
        ranges = [self._range(rng) for _ in chosen]
        chased = round(GROUP * self.settings.chase)
        rows = [(sizes, sizes[i % len(sizes)] if i < chased else 0) for sizes in ranges for i in range(GROUP)]
        schedule = Schedule(allowed_sizes([sizes for sizes, _ in rows]), torch.tensor([fixed for _, fixed in rows]))
        rollouts, error = self.roll_out(utterances, schedule, int(rng.integers(2**31)))
        actions, mask = rollouts.actions, rollouts.mask
        reward = rewards(
            error, utterances.recorded, actions, mask, schedule.allowed, rollouts.frames, self.settings.penalty
        )
        advantage = advantages(reward, GROUP, rollouts.frames / mask.sum(1), self.settings.tie)
        return Experience(rollouts, schedule.allowed, schedule.fixed == 0, advantage, reward, error)

    def roll_out(
        self, utterances: Utterances, schedule: Schedule, seed: int, learned: bool = True
    ) -> tuple[Rollouts, Tensor]:
        """Rollouts of every row and their error rates [R]; ``learned`` False: chance chooses in place of the policy."""
        batch, prompt = utterances.speech, utterances.prompt_frames
        # speech that does not end is cut, and its errors counted
        limits = (1.5 * (batch.frames - prompt)).long() + 20
        policy = self.policy.runner() if learned else None
        prefix, generator = prefix_batch(self.lm, batch), torch.Generator().manual_seed(seed)
        before = batch.codes[:, :prompt, 0]
        rollouts = roll_out(self.decoder, self.heads, policy, prefix, schedule, limits, SAMPLING, generator, before)
        whole = [torch.cat(parts) for parts in zip(before, rollouts.codes)]
        return rollouts, self.errors.of_codes(whole, batch.speaker, utterances.prompt, utterances.truth)

    @cached_property
    def guidance(self) -> GuidanceProfile:
        """Error rates of the fixed sizes on training utterances (appendix B.1)."""
        rng = np.random.default_rng(0)
        utterances = self.utterances(rng, self._choose(rng, self.data.train, PROFILED))
        return guidance_profile(lambda size: self._error(utterances, (size,)))

    def evaluate(self) -> dict[str, float]:
        """Phoneme error rates on held-out utterances: recordings, fixed sizes, chance and the policy in one range."""
        rng = np.random.default_rng(1)
        utterances = self.utterances(rng, self._choose(rng, self.data.test, TESTED))
        scores = {
            f"guidance profile on training speech, fixed {size}": rate
            for size, rate in self.guidance.error_rates.items()
        }
        scores["phoneme error rate, recordings"] = utterances.recorded.mean().item()
        for size in range(1, LONGEST + 1):
            scores[f"phoneme error rate, fixed {size}"] = self._error(utterances, (size,))
        for sizes in ((2, 3, 4), (2, 3), tuple(range(1, LONGEST + 1))):
            word = ",".join(map(str, sizes))
            scores[f"phoneme error rate, random {word}"] = self._error(utterances, sizes, learned=False)
            rollouts, error = self.roll_out(utterances, _strict(sizes, len(utterances.truth)), 0)
            scores[f"phoneme error rate, policy {word}"] = error.mean().item()
            scores[f"mean chunk, policy {word}"] = rollouts.mean_chunk
            scores[f"information of the state about the choice, policy {word}, nats"] = self._information(
                rollouts, sizes
            )
        return scores

    def _error(self, utterances: Utterances, sizes: tuple[int, ...], learned: bool = True) -> float:
        learned = learned and len(sizes) > 1
        return self.roll_out(utterances, _strict(sizes, len(utterances.truth)), 0, learned)[1].mean().item()

    def _information(self, rollouts: Rollouts, sizes: tuple[int, ...]) -> float:
        allowed = allowed_sizes([sizes] * len(rollouts.mask))
        logits = self.policy(rollouts.hidden, allowed).masked_fill(~allowed[:, None], float("-inf"))
        return mutual_information(logits.log_softmax(-1), rollouts.mask)

    def _range(self, rng: np.random.Generator) -> tuple[int, ...]:
        """The range of one group: the guidance range, or two or more of its sizes."""
        pool = self.settings.guidance
        count = int(rng.integers(min(2, len(pool)), len(pool) + 1))
        return tuple(sorted(int(size) for size in rng.choice(pool, count, replace=False)))

    def _choose(self, rng: np.random.Generator, pool: Sequence[int], count: int) -> list[int]:
        """Utterances of ``pool``, of like length, so that rows end together."""
        low, high = (seconds * FRAME_RATE for seconds in SECONDS)
        by_length = sorted(pool, key=lambda i: len(self.data.codes.get(i)))
        fit = [i for i in by_length if low <= len(self.data.codes.get(i)) <= high] or by_length[-count:]
        start = int(rng.integers(max(1, len(fit) - 3 * count + 1)))
        near = fit[start : start + 3 * count]
        return [int(i) for i in rng.choice(near, min(count, len(near)), replace=False)]

    def utterances(self, rng: np.random.Generator, chosen: list[int]) -> Utterances:
        """What to say, and another utterance of the same voice to sound like."""
        items, prompts = [], []
        for i in chosen:
            other = int(rng.choice(self.data.same_speaker(i)))
            codes, voice = self.data.codes.get(i), self.data.codes.get(other)
            prompts.append(torch.from_numpy(np.resize(voice[:PROMPT_FRAMES], (PROMPT_FRAMES, voice.shape[1]))))
            items.append((self.data.speech.ids(i), codes, np.full(len(codes), -1), self.data.codes.speakers[other]))
        truth = [self.data.speech.sounds(i).tolist() for i in chosen]
        recorded = torch.tensor([self._recording(i, t) for i, t in zip(chosen, truth)])
        return Utterances(self.data.collate(items), truth, recorded, torch.stack(prompts))

    def _recording(self, index: int, truth: list[int]) -> float:
        """Error rate of the recording itself, computed once."""
        if index not in self._recorded:
            self._recorded[index] = self.errors.of_samples(torch.from_numpy(self.data.speech.samples(index)), truth)
        return self._recorded[index]


def allowed_sizes(ranges: Sequence[Sequence[int]]) -> Tensor:
    """Ranges of sizes -> [R, 7] bool."""
    return torch.tensor([[size in sizes for size in range(1, LONGEST + 1)] for sizes in ranges])


def _strict(sizes: tuple[int, ...], rows: int) -> Schedule:
    """All rows in one range that nothing leaves, as in use."""
    return Schedule(allowed_sizes([sizes] * rows), torch.full((rows,), sizes[0] if len(sizes) == 1 else 0), strict=True)
