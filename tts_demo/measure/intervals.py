"""95 % intervals: by bootstrap over texts, and of the few rounds of a speed by Student's t."""

import numpy as np
import pandas as pd

STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # 97.5 % quantiles: of 2 rounds, of 3, of 4 ...


def mean(name: str, values: pd.Series) -> dict[str, float]:
    """The mean under ``name`` with its interval; {} without values."""
    known = values.dropna().to_numpy(float)
    low, high = bootstrap(known, np.ones(len(known)))
    return {name: float(known.mean()), f"{name}_low": low, f"{name}_high": high} if len(known) else {}


def rate(name: str, errors: pd.Series, words: pd.Series) -> dict[str, float]:
    """Errors over words, or over another row's errors, under ``name`` with its interval."""
    low, high = bootstrap(errors.to_numpy(), words.to_numpy())
    return {name: errors.sum() / max(words.sum(), 1), f"{name}_low": low, f"{name}_high": high}


def bootstrap(values: np.ndarray, weights: np.ndarray, draws: int = 1000) -> tuple[float, float]:
    """95 % interval of sum(values) / sum(weights), resampling texts."""
    if not len(values):
        return float("nan"), float("nan")
    index = np.random.default_rng(0).integers(len(values), size=(draws, len(values)))
    sums, counts = values[index].sum(1), weights[index].sum(1)
    ratios = np.divide(sums, counts, out=np.full(draws, np.inf), where=counts > 0)  # nothing to compare with: no bound
    low, high = np.quantile(ratios, (0.025, 0.975), method="nearest")
    return float(low), float(high)


def ratio(rounds: np.ndarray, over: np.ndarray | None = None) -> tuple[float, float]:
    """Interval of a figure of speed measured in ``rounds`` [n], or of its ratio to another row's rounds, n >= 2. It is
    Student's, of the logarithms: two rounds have the truth between them only half of the time, which is all that a
    bootstrap of so few would say."""
    logs = [np.log(side) for side in (rounds, over) if side is not None]
    middle = logs[0].mean() - sum(log.mean() for log in logs[1:])
    quantile = STUDENT[min(min(map(len, logs)) - 2, len(STUDENT) - 1)]
    spread = quantile * np.sqrt(sum(log.var(ddof=1) / len(log) for log in logs))
    return float(np.exp(middle - spread)), float(np.exp(middle + spread))
