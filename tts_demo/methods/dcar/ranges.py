"""The option ``chunk_range``, parsed."""

import itertools
import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ...config import UserError

LONGEST = 7  # the base head and six more (DCAR, section 5.1)
CONFIDENT = 0.3  # probability of a head's likeliest token from which on ``sure:`` takes its token
Chooser = Literal["fixed", "policy", "random", "sure"]
RULES = ("policy", "random", "sure")


@dataclass(frozen=True)
class ChunkRange:
    """The chunk sizes of a run, ascending, and how each is chosen (sure: see ``confident_size``)."""

    sizes: tuple[int, ...]
    chooser: Chooser

    @classmethod
    def parse(cls, word: str) -> "ChunkRange":
        """``3`` | ``2,3,4`` | ``free`` | ``random:2,3,4`` | ``sure:2,3,4``. Raises UserError for anything else."""
        bare = str(word).replace(" ", "").lower()
        rule, colon, sizes = bare.rpartition(":")
        rule = rule if colon else "policy"
        parts = [str(size) for size in range(1, LONGEST + 1)] if sizes == "free" else sizes.split(",")
        named = rule in RULES and not (colon and rule == "policy")
        if not named or not all(part in "1234567" and len(part) == 1 for part in parts):
            raise UserError(
                f"chunk_range must be a number from 1 to {LONGEST} such as 3, several such as 2,3,4, the word free, "
                f"or random: or sure: and several such as sure:2,3,4, not {word!r}."
            )
        chosen = tuple(sorted({int(part) for part in parts}))
        return cls(chosen, "fixed" if len(chosen) == 1 else rule)


def confident_size(sizes: tuple[int, ...], logits: Tensor) -> Tensor:
    """The largest of ``sizes`` [1] whose tokens beyond the smallest size all have a likeliest value of a probability of
    ``CONFIDENT`` or more: logits [n, V] of the base head and the extra heads after it."""
    confident = logits.amax(-1) - logits.logsumexp(-1) >= math.log(CONFIDENT)
    limit = sizes[0] + confident[sizes[0] :].long().cumprod(0).sum(0, keepdim=True)
    return sum((b - a) * (limit >= b) for a, b in itertools.pairwise(sizes)) + sizes[0] + 0 * limit


def size_at(sizes: tuple[int, ...], index: Tensor) -> Tensor:
    """``sizes[index]``, index [1]: without a table that the device would have to be given."""
    return sum((b - a) * (index >= i) for i, (a, b) in enumerate(itertools.pairwise(sizes), 1)) + sizes[0] + 0 * index
