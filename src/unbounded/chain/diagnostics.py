"""How far draws can be trusted, in numbers: rank-normalised split R-hat and effective sample sizes (Vehtari
et al. 2021).

ArviZ has the same numbers, to which tests compare these. It has no R-hat of a single chain, though, logs a
complaint instead, and takes a second to import, which every fit would pay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from unbounded.arrays import Array

LEAST = 4  # draws of a chain, below which there are no halves to compare
ROUNDING = 1e-12  # of a number: what two sums of the same terms may differ by


class Diagnostics(NamedTuple):
    """The diagnostics of one scalar."""

    constant: bool
    r_hat: float
    ess_bulk: float
    ess_tail: float
    drift: float  # from the first halves of the chains to the second, in standard deviations
    drift_error: float  # standard error of the same


def diagnose(draws: Array) -> Diagnostics:
    """draws: [chains, draws], finite. Chains that never move are fine if they agree; else R-hat is infinite."""
    draws = without_rounding(draws)  # mutant: ranks of rounding
    if np.ptp(draws) <= ROUNDING * np.abs(draws).max():
        return Diagnostics(True, 1.0, float(draws.size), float(draws.size), 0.0, 0.0)
    if draws.shape[1] < LEAST:
        return Diagnostics(False, np.inf, 0.0, 0.0, 0.0, np.inf)
    halves = _halves(draws)
    return Diagnostics(False, r_hat(draws), ess(_normal(halves)), _ess_tail(draws, halves), *_drift(halves))


def without_rounding(draws: Array) -> Array:
    """Treat draws that differ only by rounding as equal: their ranks must not depend on the last digits."""
    values, place = np.unique(draws, return_inverse=True)
    new = np.append(True, np.diff(values) > ROUNDING * np.abs(values[1:]))
    same: Array = values[np.flatnonzero(new)][np.cumsum(new) - 1]
    return same[place].reshape(draws.shape)


def r_hat(draws: Array) -> float:
    """R-hat of the halves of all chains (one chain has two): the larger of those of ranks and of folded ranks."""
    halves = _halves(draws)  # mutant: halves
    folded = np.abs(halves - np.median(halves))
    return max(_r_hat(_normal(halves)), _r_hat(_normal(folded)))  # mutant: spread of ranks


def _drift(halves: Array) -> tuple[float, float]:
    """How much higher the second halves are than the first ones, and its standard error."""
    means, sd = halves.mean(1).reshape(-1, 2), halves.std()
    if sd == 0.0:  # what moved was the draw between the halves
        return 0.0, 0.0
    variances = [half.var() / ess(half[None, :]) for half in halves]
    return float((means[:, 1] - means[:, 0]).mean() / sd), float(np.sqrt(sum(variances)) / len(means) / sd)


def _halves(draws: Array) -> Array:
    """Every chain as two; of an odd number of draws the middle one is left out."""
    half = draws.shape[1] // 2
    return np.stack([draws[:, :half], draws[:, -half:]], 1).reshape(-1, half)


def _normal(draws: Array) -> Array:
    """Normal scores of the ranks, so that heavy tails do no harm."""
    ranks = rankdata(draws).reshape(draws.shape)
    scores: Array = ndtri((ranks - 0.375) / (draws.size + 0.25))
    return scores


def _r_hat(chains: Array) -> float:
    n = chains.shape[1]
    within, between = chains.var(1, ddof=1).mean(), chains.mean(1).var(ddof=1)
    if within <= 1e-20 * between or within == 0.0:  # no chain moves
        return np.inf if between > 0.0 else 1.0
    return float(np.sqrt(between / within + (n - 1) / n))


def ess(chains: Array) -> float:
    """The number of independent draws that would give the mean as precisely (Geyer's initial monotone sequence)."""
    m, n = chains.shape
    if np.ptp(chains) == 0.0:
        return float(chains.size)
    covariances = _autocovariances(chains).mean(0)
    within = covariances[0] * n / (n - 1)
    # mutant: total variance
    total = covariances[0] + (chains.mean(1).var(ddof=1) if m > 1 else 0.0)
    correlations = 1.0 - (within - covariances) / total
    correlations[0] = 1.0
    pairs = correlations[: n - n % 2].reshape(-1, 2).sum(1)
    most = max((n - 3) // 2, 0)
    last = int(np.argmax(pairs[:most] <= 0.0)) if (pairs[:most] <= 0.0).any() else most
    length = 2.0 * np.minimum.accumulate(pairs[:last]).sum() - 1.0 + max(correlations[2 * last], 0.0)
    return float(m * n / max(length, 1.0 / np.log10(m * n)))


def _autocovariances(chains: Array) -> Array:
    n = chains.shape[1]
    spectrum = np.fft.rfft(chains - chains.mean(1, keepdims=True), 2 * n, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, 2 * n, axis=1)[:, :n] / n


def _ess_tail(draws: Array, halves: Array) -> float:
    """The smaller effective sample size of the 5% and the 95% quantile."""
    return min(ess((halves <= np.quantile(draws, share)).astype(float)) for share in (0.05, 0.95))
