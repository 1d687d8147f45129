"""Point estimates of features: draws have their atoms in any order and number, so they are matched first.

Draws are compared by what a feature contributes to the data, the matrix z_k A_k. Matching feature k of one draw with
feature j of another leaves |z_k A_k - w_j B_j|^2 unexplained, so the best matching of two draws has the largest sum of
(z_k . w_j)(A_k . B_j): an assignment problem. All draws are matched with one of them, the reference.

An intercept absorbs whatever all rows have in common: contributions are compared after their means are subtracted, and
a feature that the other rows use, with the opposite loadings, is the same feature flipped: z A = t A + (t - z)(-A) for
any number t, which is 1 where entries are 0 or 1. Features of draws are flipped as the reference has them, where that
brings their entries closer. Two features of one row each, not the same, would have a little in common if one of them
were flipped, and then be said to be in half of the rows: such a pair is no match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from unbounded.arrays import ENTRIES, Array, Arrays, unpacked_entries

_BLOCK = 2**16


class FeatureDraw(NamedTuple):
    entries: Array | Arrays  # Z, [n, K], or what a snapshot has of it
    loadings: Array  # [K, D]
    log_joint: float
    always: Array = np.empty((0, 0))  # [1, D] those of the intercept, if there is one
    tops: Array | None = None  # t of each feature that is flipped, 0: it is not

    @classmethod
    def of(cls, snapshot: Arrays, log_joint: float) -> Self:
        size = int((snapshot["shape"] if "shape" in snapshot else snapshot["Z"].shape)[1])
        known, always = np.split(snapshot["loadings"], [size])
        return cls({name: snapshot[name] for name in ENTRIES if name in snapshot}, known, log_joint, always)

    @property
    def Z(self) -> Array:
        """[n, K], unpacked on demand, so that only one of many draws is in memory at a time."""
        Z = unpacked_entries(self.entries) if isinstance(self.entries, Mapping) else self.entries
        return Z if self.tops is None else np.where(self.tops > 0, self.tops - Z.astype(np.int32), Z)

    def flipped(self, tops: Array) -> FeatureDraw:
        """The draw with entries t - z of the features whose t is not 0."""
        if not tops.any():
            return self
        loadings = np.where(tops[:, None] > 0, -self.loadings, self.loadings)
        return self._replace(tops=tops, loadings=loadings, always=self.always + tops @ self.loadings)


class Estimate(NamedTuple):
    """Features that at least half of the draws have, the most used first."""

    components: Array  # [K, D] means over the draws that have the feature
    deviations: Array  # [K, D] and their standard deviations
    shared: Array  # [K] the share of the draws that have the feature
    assignments: Array  # [n, K] posterior mean of Z: draws that do not have the feature count as 0
    matches: list[Array]  # for each draw, which component each of its atoms is; -1: none of them
    tops: list[Array]  # for each draw, t of each of its atoms that is flipped, 0: it is not


def point_estimate(draws: Sequence[FeatureDraw]) -> Estimate:
    reference = _reference(draws)
    pairs = [match(reference, draw) for draw in draws]
    matches, tops = [own for own, _ in pairs], [top for _, top in pairs]
    draws = [draw.flipped(top) for draw, top in zip(draws, tops, strict=True)]
    size = len(reference.loadings)
    found = np.zeros(size)
    components, squares = np.zeros_like(reference.loadings), np.zeros_like(reference.loadings)
    usage = np.zeros(size)
    for draw, own in zip(draws, matches, strict=True):
        there = own >= 0
        found[own[there]] += 1
        components[own[there]] += draw.loadings[there]
        squares[own[there]] += (draw.loadings[there] - reference.loadings[own[there]]) ** 2
        usage[own[there]] += draw.Z.sum(0, dtype=float)[there]
    kept = np.flatnonzero(2 * found >= len(draws))
    kept = kept[np.argsort(-usage[kept], kind="stable")]
    place = np.full(size + 1, -1)
    place[kept] = np.arange(len(kept))
    matches = [place[own] for own in matches]  # index -1, the last one, also serves those without a match
    means = components[kept] / found[kept, None]
    # Deviations from the means, although sums are of differences to the reference, which is near them.
    spread = squares[kept] / found[kept, None] - (means - reference.loadings[kept]) ** 2
    deviations = np.sqrt(np.maximum(spread, 0.0))
    return Estimate(means, deviations, found[kept] / len(draws), _mean(draws, matches, len(kept)), matches, tops)


def _reference(draws: Sequence[FeatureDraw]) -> FeatureDraw:
    """Among draws with the most common number of features (the smaller of two), the most probable one."""
    numbers = Counter(len(draw.loadings) for draw in draws)
    common = min(numbers, key=lambda size: (-numbers[size], size))
    return max((draw for draw in draws if len(draw.loadings) == common), key=lambda draw: draw.log_joint)


def match(reference: FeatureDraw, draw: FeatureDraw) -> tuple[Array, Array]:
    """(which feature of the reference each feature of the draw is, -1: none; t if it has to be flipped, else 0)."""
    entries, n = (reference.Z, draw.Z), len(reference.Z)
    shared, tops = np.zeros((2, len(reference.loadings), len(draw.loadings)))
    for start in range(0, n, _BLOCK):
        first, other = (Z[start : start + _BLOCK].astype(float) for Z in entries)
        shared += first.T @ other
    if len(draw.always):
        first, other = (Z.mean(0, dtype=float) for Z in entries)
        shared, tops = _oriented(shared, first, other, n)
    gain = np.maximum(shared * (reference.loadings @ draw.loadings.T), 0.0)
    matches, flips = np.full(len(draw.loadings), -1), np.zeros(len(draw.loadings), np.int64)
    for k, j in zip(*linear_sum_assignment(gain, maximize=True), strict=True):
        if gain[k, j] > 0:
            matches[j], flips[j] = k, tops[k, j]
    return matches, flips


def _oriented(shared: Array, first: Array, other: Array, n: int) -> tuple[Array, Array]:
    """What columns have in common beside their means, 0 where they are closer the other way round; and t of the pairs
    that are closer when one is flipped, else 0."""
    both = np.add.outer(first, other)
    tops = np.maximum(np.rint(both), 1.0)
    closer = 4.0 * shared < n * tops * (2.0 * both - tops)  # |z - (t - w)|^2 < |z - w|^2
    covariance = shared - n * np.outer(first, other)
    covariance[closer != (covariance < 0.0)] = 0.0  # mutant: the way round
    return covariance, np.where(closer, tops, 0.0)


def _mean(draws: Sequence[FeatureDraw], matches: Sequence[Array], size: int) -> Array:
    total = np.zeros((len(draws[0].Z), size), np.float32)
    for draw, own in zip(draws, matches, strict=True):
        Z = draw.Z
        for j in np.flatnonzero(own >= 0):
            total[:, own[j]] += Z[:, j]
    total /= np.float32(len(draws))
    return total
