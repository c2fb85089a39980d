"""How many tokens to draft: the longest allowed, and what ``auto`` makes of the recent acceptance rate."""

from __future__ import annotations

LONGEST = 8  # drafted tokens a pass


class DraftLength:
    """The length that says most per unit of time at the recent acceptance rate, for ``auto``.

    Costs are in passes of the base model over one token: a drafted token costs ``draft``, judging more than one token
    costs ``jump`` and each of them ``slope``. They are constants, not clock readings, so that a seed gives the same
    tokens twice. On one thread of an EPYC, 12 layers of 192 and a draft of 2, a pass of the draft costs 0.24 with
    drawing, and judging 1, 2, 3, 4, 8 tokens 1.31, 1.38, 1.43, 1.59, 1.97 (``bench_analyses.step_milliseconds``). On an
    accelerator, where reading the weights dominates, a further token is assumed to be nearly free: not yet measured.
    """

    FURTHEST = 4  # auto drafts no more: the draft learns to hear itself three tokens deep, and its fourth is one such
    MEMORY = 0.95  # weight of the past, a pass
    # where the rate starts at tolerance 0 (the bundled draft's), and how many tokens that is worth
    PRIOR, STRENGTH = 0.83, 2.0

    def __init__(self, draft: float, jump: float, slope: float, tolerance: float = 0.0) -> None:
        self.costs = [1.0] + [1 + jump + (draft + slope) * n for n in range(1, self.FURTHEST + 1)]
        # drifts back to it while nothing is drafted: it tries again
        self.prior = 1 - (1 - self.PRIOR) * (1 - tolerance)
        self.accepted = self.judged = 0.0

    @property
    def rate(self) -> float:
        """Chance that a drafted token is accepted, given that those before it were."""
        return (self.accepted + self.prior * self.STRENGTH) / (self.judged + self.STRENGTH)

    def observe(self, accepted: int, judged: int) -> None:
        """judged: accepted tokens plus the one rejected, if any (tokens behind it say nothing)."""
        self.accepted = self.MEMORY * self.accepted + accepted
        self.judged = self.MEMORY * self.judged + judged

    def best(self) -> int:
        """0 = drafting does not pay now."""
        rate, said, speeds = self.rate, 0.0, []
        for n, cost in enumerate(self.costs):
            said += rate**n  # 1 + a + ... + a^n tokens are expected of n drafted ones
            speeds.append(said / cost)
        return max(range(len(speeds)), key=speeds.__getitem__)
