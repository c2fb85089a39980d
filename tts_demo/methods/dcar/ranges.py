"""The option ``chunk_range``, parsed."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ...config import UserError

LONGEST = 7  # the base head and six more (DCAR, section 5.1)
CONFIDENT = 0.3  # probability of a head's likeliest token from which on ``sure:`` takes its token
Chooser = Literal["fixed", "policy", "random", "sure"]
RULES = ("policy", "random", "sure")
HALVINGS = 30  # of an interval in ``bisect``


@dataclass(frozen=True)
class ChunkRange:
    """The chunk sizes of a run, ascending, and how each is chosen (sure: see ``confident_size``). tilt: of sizes chosen
    by chance, how much likelier each is than the next smaller one, as a logarithm; 0: all are alike."""

    sizes: tuple[int, ...]
    chooser: Chooser
    tilt: float = 0.0

    @classmethod
    def parse(cls, word: str) -> "ChunkRange":
        """``3`` | ``2,3,4`` | ``free`` | ``sure:2,3,4`` | ``random:2,3,4`` | ``random:2,3,4@2.8``, which has that mean.
        Raises UserError for anything else."""
        bare = str(word).replace(" ", "").lower()
        rule, colon, rest = bare.rpartition(":")
        sizes, at, mean = rest.partition("@")
        rule = rule if colon else "policy"
        parts = [str(size) for size in range(1, LONGEST + 1)] if sizes == "free" else sizes.split(",")
        named = rule in RULES and not (colon and rule == "policy") and (not at or rule == "random")
        if not named or not all(part in "1234567" and len(part) == 1 for part in parts):
            raise UserError(
                f"chunk_range must be a number from 1 to {LONGEST} such as 3, several such as 2,3,4, the word free, "
                f"or random: or sure: and several such as sure:2,3,4, not {word!r}."
            )
        chosen = tuple(sorted({int(part) for part in parts}))
        if not at:
            return cls(chosen, "fixed" if len(chosen) == 1 else rule)
        return cls(chosen, rule, tilt_of(chosen, _mean_within(chosen, mean)))

    def chances(self, device: torch.device) -> Tensor:
        """[1, sizes], proportional to the probability of each size by chance. Made on the device, for CUDA graphs."""
        return (self.tilt * torch.arange(len(self.sizes), device=device)).float().exp()[None]


def _mean_within(sizes: tuple[int, ...], word: str) -> float:
    try:
        mean = float(word)
    except ValueError:
        mean = math.nan
    if not sizes[0] < mean < sizes[-1]:
        raise UserError(f"The mean chunk size behind @ must lie between {sizes[0]} and {sizes[-1]}, not {word!r}.")
    return mean


def tilt_of(sizes: Sequence[int], mean: float) -> float:
    """The tilt with which sizes chosen by chance have this mean."""
    values = torch.tensor(sizes, dtype=torch.float64)
    places = torch.arange(len(sizes), dtype=torch.float64)
    return bisect(lambda tilt: float((tilt * places).softmax(-1) @ values), mean, -30.0, 30.0)


def bisect(rising: Callable[[float], float], goal: float, low: float, high: float) -> float:
    """The argument at which ``rising``, a function that rises with it, reaches ``goal``."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < goal else (low, middle)
    return (low + high) / 2


def confident_size(sizes: tuple[int, ...], logits: Tensor) -> Tensor:
    """The largest of ``sizes`` [1] whose tokens beyond the smallest size all have a likeliest value of a probability of
    ``CONFIDENT`` or more: logits [n, V] of the base head and the extra heads after it."""
    confident = logits.amax(-1) - logits.logsumexp(-1) >= math.log(CONFIDENT)
    limit = sizes[0] + confident[sizes[0] :].long().cumprod(0).sum(0, keepdim=True)
    return sum((b - a) * (limit >= b) for a, b in itertools.pairwise(sizes)) + sizes[0] + 0 * limit


def size_at(sizes: tuple[int, ...], index: Tensor) -> Tensor:
    """``sizes[index]``, index [1]: without a table that the device would have to be given."""
    return sum((b - a) * (index >= i) for i, (a, b) in enumerate(itertools.pairwise(sizes), 1)) + sizes[0] + 0 * index
