"""How many tokens to draft: the longest allowed, and the choice of ``auto`` by the recent acceptance rate."""

from __future__ import annotations

LONGEST = 8  # drafted tokens a pass


class DraftLength:
    """The draft length with the most tokens per unit of time at the recent acceptance rate, for ``auto``.

    Costs are in units of a base pass over one token: a drafted token costs ``draft``, verifying more than one token
    costs ``jump`` once and ``slope`` for each of them. They are constants, not clock readings, so that a seed gives the
    same tokens twice.
    """

    FURTHEST = 4  # auto drafts no more: the draft is trained for three tokens after the last one with base features
    MEMORY = 0.95  # weight of the past, a pass
    PRIOR, STRENGTH = 0.83, 2.0  # acceptance rate assumed at tolerance 0, and how many tokens that is worth

    def __init__(self, draft: float, jump: float, slope: float, tolerance: float = 0.0) -> None:
        self.costs = [1.0] + [1 + jump + (draft + slope) * n for n in range(1, self.FURTHEST + 1)]
        # The estimate returns to the prior while nothing is drafted, so that drafting is tried again.
        self.prior = 1 - (1 - self.PRIOR) * (1 - tolerance)
        self.accepted = self.verified = 0.0

    @property
    def rate(self) -> float:
        """Estimated probability that a drafted token is accepted, given that those before it were."""
        return (self.accepted + self.prior * self.STRENGTH) / (self.verified + self.STRENGTH)

    def observe(self, accepted: int, verified: int) -> None:
        """verified: accepted tokens plus the one rejected, if any (tokens after it carry no information)."""
        self.accepted = self.MEMORY * self.accepted + accepted
        self.verified = self.MEMORY * self.verified + verified

    def best(self) -> int:
        """0 = drafting does not pay now."""
        rate, expected, speeds = self.rate, 0.0, []
        for n, cost in enumerate(self.costs):
            expected += rate**n  # 1 + a + ... + a^n tokens are expected of n drafted ones
            speeds.append(expected / cost)
        return max(range(len(speeds)), key=speeds.__getitem__)
