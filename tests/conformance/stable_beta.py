"""A measure of features that the library does not have, in one class and its law: the stable-beta process.

A beta-Bernoulli process with a discount (Teh and Gorur 2009): atoms of few rows are more likely, and the number of
atoms grows as a power of that of rows. The rate of weights is in proportion to w^(-1 - discount) (1 - w)^(c + discount
- 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import betaln

from unbounded.compiled.jit import implements
from unbounded.models.features.entries import binary_column
from unbounded.models.features.laws import draw_column, entry_ceiling, entry_ratio, is_binary, new_ratio, tail_weight
from unbounded.models.features.measure import FeatureHyper, FeatureMeasure, blank, draws_by_ratio
from unbounded.randomness import log_gamma_draws

Array = np.ndarray


class StableLaw(NamedTuple):
    c: float
    discount: float
    n: float
    rate: float
    first: float = 1.0

    def log_entry(self, others: float, weight: float, z: int) -> float:
        if others < 0.0:
            return z * weight
        return z * math.log((others - self.discount) / (self.n - 1.0 - others + self.c + self.discount))

    def draw_weight(self, others: float, z: int, key: np.uint64) -> float:
        return 0.0


@dataclass(frozen=True)
class StableBeta(FeatureMeasure):
    discount: float = 0.3

    binary: ClassVar[bool] = True

    def _log_scale(self, c: float) -> float:
        """So that the first row has one atom per unit of mass."""
        return math.lgamma(1.0 + c) - math.lgamma(1.0 - self.discount) - math.lgamma(c + self.discount)

    def expected(self, c: float, n: float) -> float:
        d = self.discount
        sums = [math.exp(math.lgamma(c + d + m) - math.lgamma(c + m)) for m in (0.0, n)]
        return math.exp(math.lgamma(1.0 + c) - math.lgamma(c + d)) * (sums[1] - sums[0]) / d

    def log_atom(self, c: float, n: float, counts: Array) -> Array:
        return self._log_scale(c) + betaln(counts - self.discount, n - counts + c + self.discount)

    def log_entries(self, Z: Array) -> float:
        return 0.0

    def own_ghosts(self, hyper: FeatureHyper, counts: Array, n: int, total: int, rng: np.random.Generator) -> Array:
        return rng.binomial(total, rng.beta(*self.weight_shapes(hyper, counts, n)))

    def ghost_counts(self, hyper: FeatureHyper, n: int, total: int, size: int, rng: np.random.Generator) -> Array:
        if size == 0:
            return np.empty(0, np.int64)
        c, d, everyone = hyper.c, self.discount, n + total
        one = total * math.exp(self.log_atom(c, everyone, np.ones(1))[0])
        first = one / (self.expected(c, everyone) - self.expected(c, n))
        return draws_by_ratio(
            rng.random(size), first, lambda t: (total - t) * (t - d) / ((t + 1.0) * (everyone - t - 1.0 + c + d))
        )

    def weight_shapes(self, hyper: FeatureHyper, amounts: Array, n: float) -> tuple[Array, Array]:
        return amounts - self.discount, n - amounts + hyper.c + self.discount

    def draw_weights(self, first: Array, second: Array, rng: np.random.Generator) -> Array:
        return log_gamma_draws(first, rng) - log_gamma_draws(second, rng)

    def log_weight_density(self, weights: Array, first: Array, second: Array) -> Array:
        return first * weights - (first + second) * np.logaddexp(0.0, weights) - betaln(first, second)

    def law(self, hyper: FeatureHyper, n: float, open_: bool = True) -> StableLaw:
        c, d = hyper.c, self.discount
        ratio = math.lgamma(1.0 + c) - math.lgamma(c + d) + math.lgamma(n + c + d - 1.0) - math.lgamma(n + c)
        return StableLaw(c, d, float(n), hyper.alpha * math.exp(ratio) if open_ else 0.0)

    def later_entries(self, hyper: FeatureHyper, first: Array, i: Array, n: int, rng: np.random.Generator) -> Array:
        weights = rng.beta(first - self.discount, hyper.c + self.discount + i)
        Z = (rng.random((n, len(first))) < weights) & (np.arange(n)[:, None] > i)
        return Z + blank(first, i, n)


@implements(is_binary, StableLaw)
def _is_binary(law):
    return True


@implements(entry_ratio, StableLaw)
def _entry_ratio(law, others, weight, z):
    if z > 0:
        return 0.0
    if others < 0.0:
        return math.exp(min(weight, 700.0))
    return (others - law.discount) / (law.n - 1.0 - others + law.c + law.discount)


@implements(entry_ceiling, StableLaw)
def _entry_ceiling(law, others, weight, z):
    return entry_ratio(law, others, weight, z)


@implements(tail_weight, StableLaw)
def _tail_weight(law, others, z, key):
    return 0.0


@implements(new_ratio, StableLaw)
def _new_ratio(law, z):
    return 0.0


@implements(draw_column, StableLaw)
def _draw_column(law, column, pull, weight, curve, key, row, work):
    binary_column(column, pull, weight, curve, key, row, work.busy)
