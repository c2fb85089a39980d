"""How many tokens to draft: a fixed number, or by what rounds cost and how many are accepted (``auto``)."""

from collections.abc import Callable, Sequence

import torch

from ...runtime import synchronize, work_clock

LONGEST = 8  # drafted tokens a pass
FURTHEST = 4  # ``auto`` drafts no more: the draft is trained for three tokens after the last one with base features
TURNS, BLOCK = 3, 4  # of rounds that are timed to find their costs
MEASURED_FRAMES = (1 + (1 + TURNS) * (1 + BLOCK)) * (1 + FURTHEST)  # that the longest of these rounds make at most


class Length:
    """Draft length of the next round: always the same."""

    def __init__(self, length: int) -> None:
        self.length = length

    def best(self) -> int:
        return self.length

    def observe(self, accepted: int, verified: int) -> None:
        """verified: accepted tokens plus the one rejected, if any (tokens after it carry no information)."""


class DraftLength(Length):
    """The draft length with the most tokens per unit of time at the recent acceptance rate, for ``auto``."""

    # Slow: an estimate of a few passes leads from length to length, and each change costs what its code takes to load.
    MEMORY = 0.98  # weight of the past, a pass
    PRIOR, STRENGTH = 0.7, 20.0  # acceptance rate assumed at tolerance 0, and how many tokens that is worth

    def __init__(self, costs: Sequence[float], tolerance: float = 0.0) -> None:
        """costs: of a round with 0, 1, 2, ... drafted tokens (``round_costs``)."""
        self.costs = costs
        # The estimate returns to the prior while nothing is drafted, so that drafting is tried again.
        self.prior = 1 - (1 - self.PRIOR) * (1 - tolerance)
        self.accepted = self.verified = 0.0

    @property
    def rate(self) -> float:
        """Estimated probability that a drafted token is accepted, given that those before it were."""
        return (self.accepted + self.prior * self.STRENGTH) / (self.verified + self.STRENGTH)

    def observe(self, accepted: int, verified: int) -> None:
        self.accepted = self.MEMORY * self.accepted + accepted
        self.verified = self.MEMORY * self.verified + verified

    def best(self) -> int:
        """0 = drafting does not pay now."""
        rate, expected, speeds = self.rate, 0.0, []
        for n, cost in enumerate(self.costs):
            expected += rate**n  # 1 + a + ... + a^n tokens are expected of n drafted ones
            speeds.append(expected / cost)
        return max(range(len(speeds)), key=speeds.__getitem__)


def round_costs(rounds: Sequence[Callable[[], object]], device: torch.device) -> tuple[float, ...]:
    """rounds: one for each draft length from 0 on -> the time of each over that of the first. Of ``BLOCK`` rounds one
    after the other, as in a run: behind rounds of another length the cheapest would pay most for what those have driven
    from the CPU's cache. The fastest of ``TURNS`` blocks, which a busy machine delays least."""
    taken: list[list[float]] = [[] for _ in rounds]
    clock = work_clock(device)
    for _ in range(1 + TURNS):
        for each, spent in zip(rounds, taken):
            each()
            synchronize(device)
            started = clock()
            for _ in range(BLOCK):
                each()
            synchronize(device)
            spent.append(clock() - started)
    fastest = [min(spent[1:]) for spent in taken]  # the first ones build what the others use
    return tuple(spent / fastest[0] for spent in fastest)
