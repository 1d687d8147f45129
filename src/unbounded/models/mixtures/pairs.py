"""Which pair of clusters a merge is tried on (docs/jumps.md, "Merges")."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from unbounded.arrays import Array
from unbounded.likelihoods.base import Bound
from unbounded.models.mixtures.jump import Edit

UNLIKELY, FAR = 1e-9, 1e-12  # weights of pairs of neighbours that gain nothing, and of others
NEIGHBOURS = 6


class Pairs:
    """The chance of every pair of atoms to be chosen for a merge: pairs of neighbours by what they would gain, all
    others equally, hardly any.

    A coin makes halves as often as the prior has them, so that what counts for its reverse is the gain in likelihood;
    seeds have to find the halves, and what counts is the gain in all.
    """

    def __init__(self, edit: Edit):
        self.likelihood, self.atoms = edit.model.likelihood, edit.alive
        self.counts, self.statistics = edit.counts[self.atoms], edit.statistics[self.atoms]
        k = len(self.counts)
        i, j = np.triu_indices(k, 1)
        if k > NEIGHBOURS + 1:
            coarse, which = edit.model.coarse
            near = np.zeros((k, k), bool)
            gap = _gaps(coarse, self.counts, self.statistics[:, which])
            near[np.arange(k)[:, None], np.argpartition(gap, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]] = True
            listed = (near | near.T)[i, j]
            i, j = i[listed], j[listed]
        self.first, self.second = i, j
        self.gains = self.likelihood.merge_gains(self.counts, self.statistics, i, j)
        log_prior = edit.model.measure.log_merge(edit.state.hyper, self.counts[i], self.counts[j], k)
        self.weights = [expit(gain) + UNLIKELY for gain in (self.gains, self.gains + log_prior)]  # by coins, by seeds
        self.totals = [float(w.sum() + FAR * (k * (k - 1) // 2 - len(i))) for w in self.weights]

    def draw(self, u: float, seeds: bool) -> tuple[int, int, float, float]:
        """A pair, the log of its chance, and the likelihood that its merge gains."""
        weights, total = self.weights[seeds], self.totals[seeds]
        sums = np.cumsum(weights)
        aim = u * total
        q = int(np.searchsorted(sums, aim, side="right"))
        if q < len(sums):
            return self._pair(self.first[q], self.second[q], weights[q] / total, self.gains[q])
        k = len(self.atoms)
        i, j = np.triu_indices(k, 1)
        rest = np.flatnonzero(~np.isin(i * k + j, self.first * k + self.second))
        if not len(rest):  # rounding
            return self._pair(self.first[-1], self.second[-1], weights[-1] / total, self.gains[-1])
        q = rest[min(int((aim - sums[-1]) / FAR), len(rest) - 1)]
        gain = self.likelihood.merge_gains(self.counts, self.statistics, i[[q]], j[[q]])[0]
        return self._pair(i[q], j[q], FAR / total, gain)

    def _pair(self, i: int, j: int, chance: float, gain: float) -> tuple[int, int, float, float]:
        return int(self.atoms[i]), int(self.atoms[j]), math.log(chance), float(gain)

    def log_chance(self, a: int, b: int, seeds: bool) -> float:
        i, j = np.sort(np.searchsorted(self.atoms, [a, b]))
        weight = self.weights[seeds][(self.first == i) & (self.second == j)]
        return math.log((weight[0] if len(weight) else FAR) / self.totals[seeds])


def _gaps(likelihood: Bound, counts: Array, statistics: Array) -> Array:
    """[K, K]: log likelihood lost when the rows of two atoms change places; infinite for an atom with itself."""
    bias, eta = likelihood.natural(likelihood.centre(counts, statistics))
    score = statistics @ eta.T + counts[:, None] * bias
    lost = np.diagonal(score)[:, None] - score
    gap: Array = lost + lost.T
    np.fill_diagonal(gap, np.inf)
    return gap
