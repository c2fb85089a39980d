"""Recipe ``dcar-policy``: the chunk policy by reinforcement (DCPO; DCAR, sections 4.1 and 4.2, appendix B).

A batch is a few utterances of 6 s and more, a group of rollouts each, which go on from the first 3 s of the recording
as the prompt (section 5.1). Chase then exceed: half of a group takes fixed sizes from its range, the other half the
policy's own. Every group samples two or more sizes of the guidance range, the fixed sizes that score best, so that one
policy serves them all. Each batch of rollouts serves several updates, which is what the clipped ratio is for. The
paper's ablations: ``dcar-no-chase`` lets the policy choose in the whole group (``chase=0``), ``dcar-no-penalty`` leaves
the trace penalty out (``penalty=0``).
``ear=hama`` transcribes with a larger recogniser than ours, which errs less and takes several times as long.

Two settings are not in the paper, whose rewards say too little in the few thousand rollouts that a CPU core makes.
``informed``: first the policy learns from recordings which size costs least at each state (``dcar_costs``); DCPO goes
on from there, and its KL term keeps it near there. ``local``: the advantage of each choice has a term of its own, from
what its chunk cost (``dcpo.local_advantages``). With both 0 the recipe begins with an even choice, as in the paper.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from ... import checkpoints
from ...config import FRAME_RATE, Sampling
from ...lm import Backend, Decoder, LanguageModel
from ...methods.dcar.heads import Heads
from ...methods.dcar.policy import Policy
from ...methods.dcar.ranges import LONGEST, bisect
from ...runtime import precision
from ..data.corpora import describe
from ..data.load import load_lm, sequences
from ..data.sequences import SpeechBatch, prefix_batch
from ..progress import Progress
from ..settings import SequenceSettings, Share, Weight, some_of
from ..task import Loss, Task, TrainOptions
from .dcar_costs import States, Walk, by_chance, informed_loss, merged, recorded_states, sure_sizes, tilted, walk
from .dcar_reward import Hama, PhonemeErrors
from .dcar_rollouts import Rollouts, Rule, Schedule, roll_out
from .dcpo import PENALTY, advantages, kl_weight, local_advantages, mutual_information, policy_loss, rewards

GROUP = 16  # rollouts an utterance
UPDATES = 3  # optimiser steps on one batch of rollouts
SECONDS = (6.0, 12.0)  # lengths of the utterances
PROMPT_SECONDS = 3.0  # at the beginning of each, which stand in front; at most half of it
PROMPT_FRAMES = 100  # of another utterance of the voice, for the refiner
PROFILED = 16  # utterances the fixed sizes are profiled on
TESTED = 32  # held-out utterances of ``evaluate``
RECORDINGS = 16  # a batch of the informed start
RANGES = 4  # in which each of them is scheduled
NEW_EVERY = 5  # steps of the informed start between new recordings; the others schedule earlier ones anew
KEPT = 40  # batches of recordings that are remembered for that
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

    def repeat(self, times: int) -> "Utterances":
        """Each one ``times`` times in a row."""
        truth = [t for t in self.truth for _ in range(times)]
        recorded, prompt = (t.repeat_interleave(times, 0) for t in (self.recorded, self.prompt))
        return Utterances(self.speech.repeat(times), truth, recorded, prompt)


@dataclass(frozen=True)
class Experience:
    """Rollouts with what the loss needs: allowed [R, 7], reference [R, S, 7] or [R, 1, 7] log-probabilities, own [R]
    bool (the policy chose), advantage [R, S] or [R, 1], reward [R], error [R]."""

    rollouts: Rollouts
    allowed: Tensor
    reference: Tensor
    own: Tensor
    advantage: Tensor
    reward: Tensor
    error: Tensor


@dataclass(frozen=True)
class Recorded:
    """Chunks scheduled by chance over recordings, and the range of each row [R, 7]."""

    walk: Walk
    allowed: Tensor


class Reference(nn.Module):
    """The policy at the end of the informed start, and whether that is over: kept with a run's state."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = copy.deepcopy(policy).requires_grad_(False)
        self.register_buffer("over", torch.tensor(False))

    def hold(self, policy: Policy) -> None:
        self.policy.load_state_dict(policy.state_dict())
        self.over.fill_(True)


class PolicySettings(SequenceSettings):
    guidance: some_of(tuple(range(1, LONGEST + 1))) = Field(
        (2, 3, 4), description="chunk sizes of which every group samples two or more; their profile is on the card"
    )
    chase: Share = Field(0.5, description="share of a group that takes fixed sizes")
    penalty: Weight = Field(PENALTY, description="of a size outside the range; 0 = none")
    informed: Share = Field(
        0.0, description="share of the run in which the policy learns from recordings what each size costs"
    )
    local: Weight = Field(0.0, description="weight of what a chunk cost in the advantage of its choice")
    profiled: some_of(tuple(range(1, LONGEST + 1))) = Field(
        tuple(range(1, LONGEST + 1)), description="fixed sizes whose errors are counted; fewer: less to wait for"
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
        self.total = options.steps or self.steps
        self.data = sequences(options, self.settings, frames=1)
        self.data_summary = describe(self.data.speech, self.data.train)
        self.lm = load_lm(options).requires_grad_(False)
        heads = checkpoints.load_module(options.checkpoint, "dcar-heads", Heads(self.lm))
        load = lambda name: checkpoints.load_module(options.checkpoint, name)
        recogniser = Hama() if self.settings.ear == "hama" else load("ears")
        self.errors = PhonemeErrors(load("codec"), load("decoder"), load("refiner"), recogniser)
        self.prepare(heads)

    def prepare(self, heads: Heads) -> None:
        """What follows from the modules loaded: the decoder with the heads' LoRA, a fresh policy, nothing rolled
        out."""
        self.heads = heads
        backend = Backend(self.lm.device, precision(self.lm.device))  # many rows at once are fastest so
        self.decoder = Decoder.from_model(self.lm, heads.lora, backend)
        self.policy = Policy(self.lm)
        self.modules = {self.name: self.policy}
        self.helpers = {"reference": Reference(self.policy)} if self.settings.informed else {}
        self.share = 0.0  # of the run that was over at the last step
        self.states: list[States] = []
        self.experience: Experience | None = None
        self._recorded: dict[int, float] = {}

    @cached_property
    def merged(self) -> LanguageModel:
        """What teacher-forced passes go through."""
        return merged(self.lm, self.heads)

    def batch(self, rng: np.random.Generator, step: int) -> Recorded | Experience:
        """Recordings in the informed start; then rollouts of the present policy, kept for ``UPDATES`` steps (a resumed
        run begins with new ones of both)."""
        reference = self.helpers.get("reference")
        if reference is not None and not reference.over:
            if max(self.share, step / self.total) < self.settings.informed:
                return self.recorded(rng, step)
            reference.hold(self.policy)
        if self.experience is None or step % UPDATES == 0:
            self.experience = self.explore(rng)
        return self.experience

    def loss(self, batch: Recorded | Experience, progress: Progress) -> Loss:
        self.share = progress.share
        seen = batch.walk if isinstance(batch, Recorded) else batch.rollouts
        with torch.autocast(seen.hidden.device.type, enabled=False):
            log_probs = self.policy(seen.hidden, batch.allowed).log_softmax(-1)
        within = log_probs.detach().masked_fill(~batch.allowed[:, None], float("-inf")).log_softmax(-1)
        ranges = [(batch.allowed == sizes).all(1) for sizes in batch.allowed.unique(dim=0)]  # which rows have each
        information = float(np.mean([mutual_information(within[rows], seen.mask[rows]) for rows in ranges]))
        if isinstance(batch, Recorded):
            loss = informed_loss(log_probs, seen.costs, batch.allowed, seen.mask)
            return loss, {"informed loss": loss.item(), "informed information": information}
        weight, own = kl_weight(progress.share), batch.own
        taken = seen.actions, seen.log_probs, batch.advantage, seen.mask
        loss, kl = policy_loss(log_probs, *taken, batch.reference, weight)
        return loss, {
            "reward": batch.reward[own].mean().item(),
            **({} if own.all() else {"chased reward": batch.reward[~own].mean().item()}),
            "error": batch.error[own].mean().item(),
            "excess": seen.excess(own),
            "kl": kl.item(),
            "information": information,
            "chunk": seen.mean_chunk,
        }

    def recorded(self, rng: np.random.Generator, step: int) -> Recorded:
        """Chance schedules each of some recordings in several ranges, from anywhere in its first half on, as behind a
        prompt."""
        if not self.states or step % NEW_EVERY == 0:
            speech, _ = self.collate(rng, self._choose(rng, self.data.train, RECORDINGS))
            new = recorded_states(self.merged, self.heads, speech, max(self.settings.guidance))
            self.states = [*self.states[1 - KEPT :], new]
        states = self.states[int(rng.integers(len(self.states)))].repeat(RANGES)
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        allowed = allowed_sizes([self._range(rng) for _ in states.frames])
        start = (torch.rand(len(allowed), generator=generator) * states.frames / 2).long()
        return Recorded(walk(states, start, by_chance(allowed.float(), generator)), allowed)

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
        advantage = advantages(reward, GROUP)[:, None]
        if self.settings.local:
            advantage = advantage + self.settings.local * local_advantages(rollouts.costs, actions, mask, GROUP)
        reference = self.reference(rollouts.hidden, schedule.allowed)
        return Experience(rollouts, schedule.allowed, reference, schedule.fixed == 0, advantage, reward, error)

    @torch.no_grad()
    def reference(self, hidden: Tensor, allowed: Tensor) -> Tensor:
        """Log-probabilities of the policy that DCPO began with: [R, 1, 7] even, or informed [R, S, 7]."""
        if "reference" in self.helpers:
            return self.helpers["reference"].policy(hidden, allowed).log_softmax(-1)
        return self.policy.reference(allowed)[:, None]

    def roll_out(self, utterances: Utterances, schedule: Schedule, seed: int) -> tuple[Rollouts, Tensor]:
        """Rollouts of every row and their error rates [R]."""
        batch, prompt = utterances.speech, utterances.prompt_frames
        # speech that does not end is cut, and its errors counted
        limits = (1.5 * (batch.frames - prompt)).long() + 20
        policy = self.policy.runner() if schedule.rule == "policy" else None
        prefix, generator = prefix_batch(self.lm, batch), torch.Generator().manual_seed(seed)
        before = batch.codes[:, :prompt, 0]
        rollouts = roll_out(self.decoder, self.heads, policy, prefix, schedule, limits, SAMPLING, generator, before)
        whole = [torch.cat(parts) for parts in zip(before, rollouts.codes)]
        return rollouts, self.errors.of_codes(whole, batch.speaker, utterances.prompt, utterances.truth)

    @cached_property
    def profile(self) -> dict[int, float]:
        """Fixed size -> error rate on training utterances: what a guidance range is chosen by (appendix B.1)."""
        rng = np.random.default_rng(0)
        utterances = self.utterances(rng, self._choose(rng, self.data.train, PROFILED))
        return {size: self._error(utterances, (size,)) for size in sorted(self.settings.profiled)}

    def evaluate(self) -> dict[str, float]:
        """Phoneme error rates on held-out utterances, of recordings, fixed sizes, chance, sure heads and the policy in
        some ranges, and what the choices cost on the recordings (``_figures``)."""
        rng, sizes, every = np.random.default_rng(1), sorted(self.settings.profiled), list(range(1, LONGEST + 1))
        utterances = self.utterances(rng, self._choose(rng, self.data.test, TESTED))
        scores = {f"guidance profile on training speech, fixed {size}": rate for size, rate in self.profile.items()}
        scores["phoneme error rate, recordings"] = utterances.recorded.mean().item()
        scores |= {f"phoneme error rate, fixed {size}": self._error(utterances, (size,)) for size in sizes}
        ranges = {tuple(sorted(self.settings.guidance)), *(((2, 3), tuple(every)) if sizes == every else ())}
        states = recorded_states(self.merged, self.heads, utterances.speech, max(map(max, ranges)))
        start = torch.full_like(states.frames, utterances.prompt_frames)
        for chosen in sorted(ranges, key=lambda r: (-min(r), -len(r))):
            word = ",".join(map(str, chosen))
            for rule in ("random", "sure", "policy"):
                rollouts, error = self.roll_out(utterances, _strict(chosen, len(utterances.truth), rule), 0)
                scores[f"phoneme error rate, {rule} {word}"] = error.mean().item()
                scores[f"mean chunk, {rule} {word}"] = rollouts.mean_chunk
                scores[f"excess nats a token, {rule} {word}"] = rollouts.excess(rollouts.mask.any(1))
            scores |= {f"{name} {word}": value for name, value in self._figures(states, start, chosen).items()}
        return scores

    @torch.no_grad()
    def _figures(self, states: States, start: Tensor, sizes: tuple[int, ...]) -> dict[str, float]:
        """Mean excess nats a token that the policy's choices in a range cost on recordings, those of chance and of the
        sure rule at the same mean size, and how much the state says about the policy's choice."""
        rows, generator = len(start), torch.Generator().manual_seed(0)
        allowed = allowed_sizes([sizes] * rows)
        runner = self.policy.runner()
        terms, cache = runner.range_terms(allowed), runner.new_cache(int(states.frames.max()) + 2, rows)

        def by_policy(hidden: Tensor, _: Tensor) -> Tensor:
            logits = runner.step(hidden, terms, cache).masked_fill(~allowed, float("-inf"))
            return by_chance(logits.softmax(-1), generator)(hidden, _)

        def sure(threshold: float) -> Walk:
            return walk(states, start, lambda _, confidence: sure_sizes(confidence, allowed, threshold) - 1)

        taken = walk(states, start, by_policy)
        surest = sure(bisect(lambda x: -sure(x).mean_chunk, -taken.mean_chunk, -10.0, 0.0))
        chance = walk(states, start, by_chance(tilted(allowed[0], taken.mean_chunk).expand(rows, -1), generator))
        logits = self.policy(taken.hidden, allowed).masked_fill(~allowed[:, None], float("-inf"))
        found = {"policy": taken, "random at its mean chunk": chance, "sure at its mean chunk": surest}
        return {
            **{f"excess nats a token on recordings, {who}": w.excess for who, w in found.items()},
            **{f"mean chunk on recordings, {who}": w.mean_chunk for who, w in found.items()},
            "information of the state about the choice, nats": mutual_information(logits.log_softmax(-1), taken.mask),
        }

    def _error(self, utterances: Utterances, sizes: tuple[int, ...]) -> float:
        return self.roll_out(utterances, _strict(sizes, len(utterances.truth), "random"), 0)[1].mean().item()

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

    def collate(self, rng: np.random.Generator, chosen: list[int]) -> tuple[SpeechBatch, list[int]]:
        """What to say, and for each another utterance of the same voice to sound like."""
        others = [int(rng.choice(self.data.same_speaker(i))) for i in chosen]
        items = []
        for i, other in zip(chosen, others):
            codes = self.data.codes.get(i)
            items.append((self.data.speech.ids(i), codes, np.full(len(codes), -1), self.data.codes.speakers[other]))
        return self.data.collate(items), others

    def utterances(self, rng: np.random.Generator, chosen: list[int]) -> Utterances:
        """With their truths and the voices' prompts."""
        speech, others = self.collate(rng, chosen)
        voices = [self.data.codes.get(other)[:PROMPT_FRAMES] for other in others]
        prompt = torch.stack([torch.from_numpy(np.resize(v, (PROMPT_FRAMES, v.shape[1]))) for v in voices])
        truth = [self.data.speech.sounds(i).tolist() for i in chosen]
        recorded = torch.tensor([self._recording(i, t) for i, t in zip(chosen, truth)])
        return Utterances(speech, truth, recorded, prompt)

    def _recording(self, index: int, truth: list[int]) -> float:
        """Error rate of the recording itself, computed once."""
        if index not in self._recorded:
            self._recorded[index] = self.errors.of_samples(torch.from_numpy(self.data.speech.samples(index)), truth)
        return self._recorded[index]


class NoChaseSettings(PolicySettings):
    chase: Share = Field(0.0, description="share of a group that takes fixed sizes")


class NoChaseTask(PolicyTask):
    Settings = NoChaseSettings
    name = "dcar-no-chase"


class NoPenaltySettings(PolicySettings):
    penalty: Weight = Field(0.0, description="of a size outside the range; 0 = none")


class NoPenaltyTask(PolicyTask):
    Settings = NoPenaltySettings
    name = "dcar-no-penalty"


def allowed_sizes(ranges: Sequence[Sequence[int]]) -> Tensor:
    """Ranges of sizes -> [R, 7] bool."""
    return torch.tensor([[size in sizes for size in range(1, LONGEST + 1)] for sizes in ranges])


def _strict(sizes: tuple[int, ...], rows: int, rule: Rule) -> Schedule:
    """All rows in one range that nothing leaves, as in use."""
    fixed = torch.full((rows,), sizes[0] if len(sizes) == 1 else 0)
    return Schedule(allowed_sizes([sizes] * rows), fixed, True, rule)
