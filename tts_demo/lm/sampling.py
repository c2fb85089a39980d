"""Sampling tokens on the device: temperature, top-k, top-p, repetition-aware sampling; on a GPU without any host sync,
and inside CUDA graphs, which get their random numbers and their temperature from outside."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ..config import LMConfig, Sampling
from .graphs import available
from .model import Prefix


class Noise:
    """Exponential random numbers [N] made ahead, taken one after the other."""

    def __init__(self, values: Tensor) -> None:
        self.values, self._taken = values, 0

    def take(self, like: Tensor) -> Tensor:
        """The next ones, in the shape of ``like``."""
        first = self._taken
        self._taken += like.numel()
        return self.values[first : self._taken].view(like.shape)


Source = torch.Generator | Noise | None  # of random numbers; None: PyTorch's own generator


class DeviceSampling(Sampling):
    """Sampling settings inside a CUDA graph. ``temperature`` is a tensor [] float64 on the device, so that one graph
    serves every temperature above 0; having no dimension, it leaves the dtype of the logits that it divides."""

    def __post_init__(self) -> None:
        """Checks nothing: the settings that it was made of were checked, and a tensor on a GPU would have to be
        read."""


def is_greedy(sampling: Sampling) -> bool:
    return not isinstance(sampling, DeviceSampling) and sampling.temperature == 0


@dataclass(frozen=True)
class Distribution:
    """Categorical distributions over candidate ids, for any number of rows: ``weights`` [..., M] proportional to the
    probabilities of ``ids`` [..., M] (normalising costs two operators). Ids that are not listed have probability 0."""

    weights: Tensor
    ids: Tensor

    def sample(self, source: Source = None) -> Tensor:
        """One token a row [...]."""
        return self.ids.gather(-1, race(self.weights, source)[..., None])[..., 0]

    def full(self, size: int) -> Tensor:
        """Probabilities of all ids [..., size]."""
        probs = self.weights / self.weights.sum(-1, keepdim=True)
        return probs.new_zeros(*probs.shape[:-1], size).scatter_(-1, self.ids, probs)

    @staticmethod
    def concat(parts: "Sequence[Distribution]", size: int) -> "Distribution":
        """The rows of several distributions [B, M] as one."""
        if len({part.ids.shape[-1] for part in parts}) > 1:
            parts = [_over_all_ids(part.full(size)) for part in parts]
        return Distribution(torch.cat([part.weights for part in parts]), torch.cat([part.ids for part in parts]))


def _over_all_ids(probs: Tensor) -> Distribution:
    return Distribution(probs, torch.arange(probs.shape[-1], device=probs.device).expand_as(probs))


def distribution(
    logits: Tensor, sampling: Sampling, forbid: Tensor | None = None, history: Tensor | None = None
) -> Distribution:
    """The distribution that ``sample`` draws from: logits [B, V] -> candidates [B, M], likeliest first, as many as
    top-k leaves, or all ids; greedy has one.

    forbid: [V] bool, True = probability 0. history [B, W] as for ``sample``: the distribution then includes the redraws
    of repetition-aware sampling in closed form: the mass of each repeated token is spread over the other tokens by the
    untruncated distribution. None: repetition is ignored."""
    logits = _without(logits, forbid)
    if is_greedy(sampling):
        ids = _likeliest(logits, sampling, history)[:, None]
        return Distribution(logits.new_ones(ids.shape), ids)
    found = Distribution(*_truncated(logits, sampling))
    if _never_redrawn(found.ids, sampling, history):
        return found
    return _over_all_ids(_with_redraws(found.full(logits.shape[-1]), logits, sampling, history))


def probabilities(
    logits: Tensor, sampling: Sampling, forbid: Tensor | None = None, history: Tensor | None = None
) -> Tensor:
    """``distribution`` as probabilities of all ids [B, V]. Differentiable."""
    return distribution(logits, sampling, forbid, history).full(logits.shape[-1])


def _truncated(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """logits [B, V] -> weights [B, M], proportional to the probabilities, and their ids [B, M], likeliest first, after
    temperature, top-k and top-p. Top-p counts the whole mass, tokens beyond top-k included, as in CosyVoice."""
    size = logits.shape[-1]
    k = min(sampling.top_k or size, size)
    if k == 1:
        ids = logits.argmax(-1, keepdim=True)
        return logits.new_ones(ids.shape), ids
    probs, ids = (logits / sampling.temperature).softmax(-1).topk(k, dim=-1)
    if sampling.top_p < 1:
        before = probs.cumsum(-1) - probs  # mass of the likelier tokens; the first token always stays
        probs = probs * (before < sampling.top_p)
    return probs, ids


def _likeliest(logits: Tensor, sampling: Sampling, history: Tensor | None) -> Tensor:
    """logits [B, V] -> the likeliest token [B], or the likeliest of the others where it is repeated."""
    best = logits.argmax(-1, keepdim=True)
    if history is None or not sampling.repeat_window:
        return best[:, 0]
    repeated = (history == best).sum(-1, keepdim=True) >= sampling.repeat_threshold
    return torch.where(repeated, logits.scatter(-1, best, float("-inf")).argmax(-1, keepdim=True), best)[:, 0]


def _never_redrawn(ids: Tensor, sampling: Sampling, history: Tensor | None) -> bool:
    """Whether no id of ``ids`` [B, M] reaches the repetition threshold in ``history``, so that no redraw can happen.
    Always False on a GPU, where the check would be a host sync."""
    if history is None or not sampling.repeat_window:
        return True
    times = (history[:, :, None] == ids[:, None]).sum(1)
    return host_may_read(ids.device) and not (times >= sampling.repeat_threshold).any()


def _with_redraws(probs: Tensor, logits: Tensor, sampling: Sampling, history: Tensor) -> Tensor:
    """The truncated probabilities [B, V] with the redraws of repetition-aware sampling included."""
    size = logits.shape[-1]
    counts = logits.new_zeros(len(logits), size + 1)  # one column more, where -1 (none) falls
    counts.scatter_add_(-1, history.remainder(size + 1), counts.new_ones(1).expand(history.shape))
    repeated = probs * (counts[:, :size] >= sampling.repeat_threshold)
    scaled = logits / sampling.temperature
    again, top = scaled.softmax(-1), scaled.argmax(-1, keepdim=True)
    # A redraw of token r comes from again / (1 - again_r). The likeliest token is handled separately: there 1 - again_r
    # may vanish in rounding.
    share = (repeated / (1 - again)).scatter(-1, top, 0.0)
    others = scaled.scatter(-1, top, float("-inf")).softmax(-1)
    once = probs - repeated + again * (share.sum(-1, keepdim=True) - share)
    return (once + repeated.gather(-1, top) * others).clamp(min=0)


def sample(
    logits: Tensor,
    sampling: Sampling,
    source: Source = None,
    history: Tensor | None = None,
    forbid: Tensor | None = None,
) -> Tensor:
    """Sample one token a row: logits [B, V] -> [B].

    history: [B, W] recent tokens, -1 = none. A token that fills at least ``repeat_ratio`` of the window is sampled
    again from the untruncated distribution (VALL-E 2, section 3.2) of the other tokens (CosyVoice since 2026: without
    it the redraw often is the same token); a greedy redraw is the likeliest of the others. forbid: [V] or [B, V] bool.
    A GPU always makes the redraw, because checking would be a host sync; a CPU makes it only where it is needed."""
    logits = _without(logits, forbid)
    if is_greedy(sampling):
        return _likeliest(logits, sampling, history)
    probs, ids = _truncated(logits, sampling)
    token = ids.gather(-1, race(probs, source)[..., None])
    if history is None or not sampling.repeat_window:
        return token[:, 0]
    if host_may_read(token.device) and max((history == token).sum(-1).tolist()) < sampling.repeat_threshold:
        return token[:, 0]
    repeats = (history == token).sum(-1) >= sampling.repeat_threshold
    others = (logits / sampling.temperature).scatter(-1, token, float("-inf")).softmax(-1)
    return torch.where(repeats, race(others, source), token[:, 0])


def host_may_read(device: torch.device) -> bool:
    """Whether the host may look at a value at no cost: where there are graphs it would have to wait for it."""
    return not available(device)


@dataclass(frozen=True)
class Sampler:
    """What one launch samples with: the settings, and where its random numbers come from."""

    sampling: Sampling
    source: Source = None
    temperature: Tensor | None = None  # of ``sampling``, on the device, for CUDA graphs
    host_may_read: bool = False  # whether the host may look at a value at no cost

    @staticmethod
    def of(sampling: Sampling, generator: torch.Generator, numbers: int, temperature: Tensor) -> "Sampler":
        """numbers: random numbers that a launch takes at most (see ``numbers``), made ahead for graphs."""
        if host_may_read(temperature.device):
            return Sampler(sampling, generator, temperature, True)
        if not numbers:
            return Sampler(sampling, None, temperature)
        values = torch.empty(numbers, device=temperature.device)
        return Sampler(sampling, Noise(values.exponential_(generator=generator)), temperature)

    def sample(self, logits: Tensor, history: Tensor | None = None, forbid: Tensor | None = None) -> Tensor:
        """As ``sample``: [B]."""
        return sample(logits, self.sampling, self.source, history, forbid)

    def distribution(self, logits: Tensor, forbid: Tensor | None = None, history: Tensor | None = None) -> Distribution:
        """As ``distribution``."""
        return distribution(logits, self.sampling, forbid, history)

    def cooler(self, share: float) -> "Sampler":
        """At ``share`` of the temperature, with the same random numbers."""
        return replace(self, sampling=replace(self.sampling, temperature=share * self.sampling.temperature))

    @cached_property
    def structure(self) -> Sampling:
        """What a CUDA graph depends on: everything but the temperature."""
        return replace(self.sampling, temperature=float(not is_greedy(self.sampling)))

    @property
    def inputs(self) -> tuple[Tensor | None, Tensor | None]:
        """What a CUDA graph is given: random numbers and temperature."""
        noise = self.source.values if isinstance(self.source, Noise) else None
        return noise, None if is_greedy(self.sampling) else self.temperature

    @staticmethod
    def inside(structure: Sampling, noise: Tensor | None, temperature: Tensor | None) -> "Sampler":
        """The same from a CUDA graph's ``structure`` and ``inputs``."""
        if temperature is not None:
            structure = DeviceSampling(**vars(structure) | {"temperature": temperature})
        return Sampler(structure, None if noise is None else Noise(noise))


def numbers(sampling: Sampling, vocab: int, rows: int = 1, redraws: bool = True) -> int:
    """How many random numbers ``sample`` takes for logits [rows, vocab], with a history if ``redraws``."""
    if sampling.temperature == 0:
        return 0
    return rows * (min(sampling.top_k or vocab, vocab) + (vocab if redraws and sampling.repeat_window else 0))


def race(probs: Tensor, source: Source = None) -> Tensor:
    """Draw an index a row of unnormalised probs [..., M] -> [...]: ``multinomial`` without its host sync."""
    if isinstance(source, Noise):
        return (probs / source.take(probs)).argmax(-1)
    return (probs / torch.empty_like(probs).exponential_(generator=source)).argmax(-1)


def _without(logits: Tensor, forbid: Tensor | None) -> Tensor:
    return logits if forbid is None else logits.masked_fill(forbid, float("-inf"))


def special_ids(speech_codes: int, vocab: int, device: torch.device | str) -> Tensor:
    """[V] bool: the ids that are not codes, end of speech among them."""
    return torch.arange(vocab, device=device) >= speech_codes


class Ending:
    """Shortest and longest length of speech, in frames. End of speech (any id from ``speech_codes`` on) has probability
    0 before ``shortest``: a model sometimes ends before the text."""

    def __init__(
        self, speech_codes: int, vocab: int, shortest: int, longest: int, device: torch.device | str = "cpu"
    ) -> None:
        self.speech_codes, self.shortest, self.longest = speech_codes, shortest, longest
        self.ids = special_ids(speech_codes, vocab, device) if shortest else None

    @classmethod
    def of(cls, config: LMConfig, prefix: Prefix, max_frames: int, forced: bool) -> "Ending":
        """The limits of a run from ``prefix``; ``forced``: exactly ``max_frames``."""
        shortest = max_frames if forced else prefix.shortest
        return cls(config.speech_codes, config.vocab, shortest, max_frames, prefix.x.device)

    def forbid(self, frames: int, count: int = 1) -> Tensor | None:
        """The ids that the ``count`` tokens after ``frames`` frames must not take: [V] or [count, V] bool, or None."""
        early = self.shortest - frames
        if early <= 0:
            return None
        if early >= count:
            return self.ids
        return self.ids & (torch.arange(count, device=self.ids.device) < early)[:, None]


class History:
    """The last W tokens of each row, for repetition-aware sampling. A ring: their order does not matter."""

    def __init__(self, window: int, batch: int = 1, device: torch.device | str = "cpu") -> None:
        self.tokens = torch.full((batch, window), -1, dtype=torch.long, device=device)  # [B, W]
        self.count = 0

    def push(self, tokens: Tensor) -> None:
        """tokens [B] of one step."""
        if self.tokens.shape[1]:
            self.tokens[:, self.count % self.tokens.shape[1]] = tokens
            self.count += 1
