"""The option ``chunk_range``, parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...config import UserError

LONGEST = 7  # the base head and six more (DCAR, section 5.1)


@dataclass(frozen=True)
class ChunkRange:
    """The chunk sizes of a run, ascending, and how each is chosen: there is one, by the policy, or at random."""

    sizes: tuple[int, ...]
    chooser: Literal["fixed", "policy", "random"]

    @classmethod
    def parse(cls, word: str) -> ChunkRange:
        """``3`` | ``2,3,4`` | ``free`` | ``random:2,3,4``. Raises UserError for anything else."""
        bare = str(word).replace(" ", "").lower()
        random, sizes = bare.startswith("random:"), bare.removeprefix("random:")
        parts = [str(size) for size in range(1, LONGEST + 1)] if sizes == "free" else sizes.split(",")
        if not all(part in "1234567" and len(part) == 1 for part in parts):
            raise UserError(
                f"chunk_range must be a number from 1 to {LONGEST} such as 3, several such as 2,3,4, the word free, "
                f"or random: and several such as random:2,3,4, not {word!r}."
            )
        chosen = tuple(sorted({int(part) for part in parts}))
        return cls(chosen, "fixed" if len(chosen) == 1 else "random" if random else "policy")
