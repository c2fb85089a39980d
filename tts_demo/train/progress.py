"""How far a run is, which every schedule follows: of the learning rate, of weights in the loss, of what is frozen."""

import math
from dataclasses import dataclass

WARMUP = 100  # steps in which the learning rate rises
SHORT = 0.1  # share of the run that a beginning lasts at most
LAST = 0.02  # of the peak learning rate


@dataclass(frozen=True)
class Progress:
    """step: updates so far, those of the runs that it resumes included. share: how much of the run is over, 0 to 1: of
    its ``--steps`` or of its ``--minutes``, whichever is further. A run of minutes may end after a hundredth of its
    steps, so no schedule counts steps alone."""

    step: int = 0
    share: float = 0.0

    @classmethod
    def of(cls, step: int, steps: int, clock: float = 0.0) -> "Progress":
        """clock: share of the minutes that are over."""
        return cls(step, min(1.0, max(step / max(1, steps), clock)))

    def ramp(self, steps: int) -> float:
        """0 to 1 over the first ``steps`` updates, or the first tenth of the run where that is shorter."""
        return min(1.0, max(self.step / steps, self.share / SHORT)) if steps else 1.0

    def begins(self, steps: int) -> bool:
        """Whether such a beginning is still going on."""
        return self.ramp(steps) < 1


def learning_rate(progress: Progress, steps: int, peak: float, flat: float = 0.0) -> float:
    """Linear warm-up (of ``WARMUP`` steps, or a tenth of a shorter run), the peak for a share ``flat`` of the run, then
    a cosine down to 2 % of it. ``steps``: of the whole run, were it not to end by the clock."""
    following = Progress(progress.step + 1, progress.share + 1 / max(1, steps))  # the first step is one too
    rising = following.ramp(WARMUP)
    start = max(flat, min(SHORT, WARMUP / max(1, steps)))
    done = max(0.0, progress.share - start) / max(1e-9, 1 - start)
    return peak * min(rising, LAST + (1 - LAST) * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))
