"""The beta-negative-binomial process: counts with more spread than Poisson ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, digamma, gammaln, xlog1py

from unbounded.arrays import Array
from unbounded.compiled.draws import log_beta
from unbounded.compiled.jit import implements
from unbounded.docstrings import joined
from unbounded.models.features.entries import count_column
from unbounded.models.features.laws import (
    draw_column,
    entry_ceiling,
    entry_ratio,
    is_binary,
    new_ratio,
    tail_weight,
)
from unbounded.models.features.measure import FeatureHyper, FeatureMeasure, blank, draws_by_ratio
from unbounded.randomness import log_gamma_draws


class NegativeBinomialLaw(NamedTuple):
    """A mobile column's weight is the log of its probability."""

    c: float
    n: float  # rows and ghosts
    rate: float  # of new atoms for a row
    first: float  # probability that the entry of a new atom is 1
    r: float

    def log_entry(self, others: float, weight: float, z: int) -> float:
        """Log probability of an entry, up to a constant, for the reference kernel (laws.py)."""
        return z * weight + math.lgamma(self.r + z) - math.lgamma(z + 1.0)

    def draw_weight(self, others: float, z: int, key: np.uint64) -> float:
        """The probability is drawn given the whole column, this entry included."""
        return float(log_beta(others + z, self.c + self.n * self.r, key))


@joined
@dataclass(frozen=True)
class BetaNegativeBinomial(FeatureMeasure):
    """Beta-negative-binomial process: counts with more spread than Poisson ones.

    Parameters
    ----------
    failures : float, default 1.0
        r of the negative binomial: the smaller, the more the counts vary.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> process, rng = ub.BetaNegativeBinomial(), np.random.default_rng(0)
    >>> process.simulate(process.draw_prior(rng), 100, rng).shape[0]  # Z of 100 rows
    100
    """

    failures: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.failures, Real) and 0 < float(self.failures) < math.inf):
            raise ValueError(f"failures must be a positive number, got {self.failures!r}.")

    def expected(self, c: float, n: float) -> float:
        return float(c * (digamma(c + n * self.failures) - digamma(c)))

    def log_atom(self, c: float, n: float, counts: Array) -> Array:
        value: Array = math.log(c) + betaln(counts, c + n * self.failures)  # mutant: bnb atom
        return value

    def log_entries(self, Z: Array) -> float:
        r = self.failures
        return float((gammaln(r + Z) - gammaln(r) - gammaln(Z + 1.0)).sum())

    def own_ghosts(self, hyper: FeatureHyper, counts: Array, n: int, total: int, rng: np.random.Generator) -> Array:
        mu = rng.beta(counts, hyper.c + n * self.failures)
        mean = rng.gamma(total * self.failures, mu / np.maximum(1.0 - mu, 1e-12)) if total else np.zeros(len(counts))
        return rng.poisson(np.minimum(mean, 1e15))

    def ghost_counts(self, hyper: FeatureHyper, n: int, total: int, size: int, rng: np.random.Generator) -> Array:
        if size == 0:
            return np.empty(0, np.int64)
        all_r, own_r = (n + total) * self.failures, total * self.failures
        c = hyper.c
        # p(1) = T r B(1, c + N r) over the whole mass, which is the difference of digammas.
        first = own_r / (c + all_r) / (digamma(c + all_r) - digamma(c + n * self.failures))  # mutant: bnb ghosts

        def ratio(t: int) -> float:
            return (own_r + t) * t / ((t + 1.0) * (t + c + all_r))

        return draws_by_ratio(rng.random(size), first, ratio)

    def weight_shapes(self, hyper: FeatureHyper, amounts: Array, n: float) -> tuple[Array, Array]:
        return amounts, np.full(len(amounts), hyper.c + n * self.failures)

    def draw_weights(self, first: Array, second: Array, rng: np.random.Generator) -> Array:
        """Logs of beta draws."""
        x, y = log_gamma_draws(first, rng), log_gamma_draws(second, rng)
        value: Array = x - np.logaddexp(x, y)
        return value

    def log_weight_density(self, weights: Array, first: Array, second: Array) -> Array:
        value: Array = first * weights + xlog1py(second - 1.0, -np.exp(weights)) - betaln(first, second)
        return value

    def law(self, hyper: FeatureHyper, n: float, open_: bool = True) -> NegativeBinomialLaw:
        r, c = self.failures, hyper.c
        step = float(digamma(c + n * r) - digamma(c + (n - 1.0) * r))
        first = r / (c + n * r) / step
        return NegativeBinomialLaw(c, float(n), hyper.alpha * c * step if open_ else 0.0, first, r)

    def later_entries(self, hyper: FeatureHyper, first: Array, i: Array, n: int, rng: np.random.Generator) -> Array:
        mu = rng.beta(first, hyper.c + (i + 1.0) * self.failures)
        Z = rng.negative_binomial(self.failures, np.maximum(1.0 - mu, 1e-12), (n, len(first)))
        return Z * (np.arange(n)[:, None] > i) + blank(first, i, n)


# ---- the law, compiled


@implements(is_binary, NegativeBinomialLaw)
def _is_binary(law):
    return False


@implements(entry_ratio, NegativeBinomialLaw)
def _entry_ratio(law, others, weight, z):
    return math.exp(weight) * (law.r + z) / (z + 1.0)


@implements(entry_ceiling, NegativeBinomialLaw)
def _entry_ceiling(law, others, weight, z):
    return math.exp(weight) * max(1.0, (law.r + z) / (z + 1.0))


@implements(tail_weight, NegativeBinomialLaw)
def _tail_weight(law, others, z, key):
    """The probability, drawn given the whole column, this entry included: tails are too heavy to be summed."""
    return log_beta(others + z, law.c + law.n * law.r, key)


@implements(new_ratio, NegativeBinomialLaw)
def _new_ratio(law, z):
    return (law.r + z) * z / ((z + 1.0) * (z + law.c + law.n * law.r))


@implements(draw_column, NegativeBinomialLaw)
def _draw_column(law, column, pull, weight, curve, key, row, work):
    count_column(law, column, pull, weight, curve, key, row, work)
