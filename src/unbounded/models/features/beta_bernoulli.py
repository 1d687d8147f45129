"""The beta-Bernoulli process, or Indian buffet process with two parameters: a row uses an atom or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betaln, digamma

from unbounded.arrays import Array
from unbounded.compiled.jit import implements
from unbounded.docstrings import joined
from unbounded.models.features.entries import binary_column
from unbounded.models.features.laws import (
    draw_column,
    entry_ceiling,
    entry_ratio,
    is_binary,
    new_ratio,
    tail_weight,
)
from unbounded.models.features.measure import FeatureHyper, FeatureMeasure, blank, draws_by_ratio
from unbounded.priors import Gamma, slice_within
from unbounded.randomness import log_gamma_draws


class BernoulliLaw(NamedTuple):
    """Entries are 0 or 1; a mobile column's weight is the log odds of its probability."""

    c: float
    n: float  # rows and ghosts
    rate: float  # of new atoms for a row
    first: float  # probability that the entry of a new atom is 1

    def log_entry(self, others: float, weight: float, z: int) -> float:
        """Log probability of an entry, up to a constant, for the reference kernel (laws.py)."""
        return z * (weight if others < 0.0 else math.log(others / (self.n - 1.0 - others + self.c)))

    def draw_weight(self, others: float, z: int, key: np.uint64) -> float:
        return 0.0


@joined
@dataclass(frozen=True)
class BetaBernoulli(FeatureMeasure):
    """Beta-Bernoulli process (Indian buffet with two parameters): a row uses an atom or not.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> process, rng = ub.BetaBernoulli(), np.random.default_rng(0)
    >>> process.simulate(process.draw_prior(rng), 100, rng).shape[0]  # Z of 100 rows
    100
    """

    binary: ClassVar[bool] = True

    def expected(self, c: float, n: float) -> float:
        return float(c * (digamma(c + n) - digamma(c)))

    def log_atom(self, c: float, n: float, counts: Array) -> Array:
        value: Array = math.log(c) + betaln(counts, n - counts + c)
        return value

    def log_entries(self, Z: Array) -> float:
        return 0.0

    def own_ghosts(self, hyper: FeatureHyper, counts: Array, n: int, total: int, rng: np.random.Generator) -> Array:
        return rng.binomial(total, rng.beta(counts, n - counts + hyper.c))

    def ghost_counts(self, hyper: FeatureHyper, n: int, total: int, size: int, rng: np.random.Generator) -> Array:
        if size == 0:
            return np.empty(0, np.int64)
        everyone, c = n + total, hyper.c
        first = total / (everyone - 1.0 + c) / (digamma(c + everyone) - digamma(c + n))

        def ratio(t: int) -> float:
            return (total - t) * t / ((t + 1.0) * (everyone - t - 1.0 + c))

        return draws_by_ratio(rng.random(size), first, ratio)

    def weight_shapes(self, hyper: FeatureHyper, amounts: Array, n: float) -> tuple[Array, Array]:
        return amounts, n - amounts + hyper.c

    def draw_weights(self, first: Array, second: Array, rng: np.random.Generator) -> Array:
        """Log odds of beta draws."""
        value: Array = log_gamma_draws(first, rng) - log_gamma_draws(second, rng)
        return value

    def log_weight_density(self, weights: Array, first: Array, second: Array) -> Array:
        value: Array = first * weights - (first + second) * np.logaddexp(0.0, weights) - betaln(first, second)
        return value

    def law(self, hyper: FeatureHyper, n: float, open_: bool = True) -> BernoulliLaw:
        rate = hyper.alpha * hyper.c / (hyper.c + n - 1.0)  # mutant: law rate
        return BernoulliLaw(hyper.c, float(n), rate if open_ else 0.0, 1.0)

    def later_entries(self, hyper: FeatureHyper, first: Array, i: Array, n: int, rng: np.random.Generator) -> Array:
        weights = rng.beta(first, hyper.c + i)
        Z = (rng.random((n, len(first))) < weights) & (np.arange(n)[:, None] > i)
        return Z + blank(first, i, n)


@dataclass(frozen=True)
class FiniteBetaBernoulli:
    """`size` atoms with weights b ~ Beta(alpha c / size, c): the process is the limit of large sizes.

    A column with m entries among n rows then has the rate alpha c B(m, n - m + c) (Griffiths and Ghahramani 2011; with
    c, Ghahramani et al. 2007). Counts are those of all atoms, unused ones included.
    """

    limit: BetaBernoulli
    size: int

    def log_prob(self, hyper: FeatureHyper, counts: Array, n: int) -> float:
        """Log p(Z) of all columns, weights integrated out."""
        a = hyper.alpha * hyper.c / self.size
        return float((betaln(a + counts, n - counts + hyper.c) - betaln(a, hyper.c)).sum())

    def log_weights(self, hyper: FeatureHyper, counts: Array, n: int, rng: np.random.Generator) -> Array:
        """Log odds of weights given Z."""
        a = hyper.alpha * hyper.c / self.size
        value: Array = log_gamma_draws(a + counts, rng) - log_gamma_draws(n - counts + hyper.c, rng)
        return value

    def update(self, hyper: FeatureHyper, counts: Array, n: int, rng: np.random.Generator) -> FeatureHyper:
        """Update sampled hyper-parameters given Z, one after the other, by slice sampling of u = x / (1 + x)."""
        for name, prior in (("c", self.limit.concentration), ("alpha", self.limit.mass)):
            if isinstance(prior, Gamma):
                now = hyper._asdict()

                def log_density(u: float, now: Any = now, name: str = name, prior: Gamma = prior) -> float:
                    if not 0.0 < u < 1.0:
                        return -np.inf
                    x = u / (1.0 - u)
                    moved = FeatureHyper(**now | {name: x})
                    return self.log_prob(moved, counts, n) + prior.log_density(x) - 2 * np.log1p(-u)

                u = slice_within(log_density, now[name] / (1.0 + now[name]), 0.0, 1.0, rng)
                hyper = hyper._replace(**{name: min(max(u / (1.0 - u), 1e-10), 1e10)})
        return hyper


# ---- the law, compiled


@implements(is_binary, BernoulliLaw)
def _is_binary(law):
    return True


@implements(entry_ratio, BernoulliLaw)
def _entry_ratio(law, others, weight, z):
    if z > 0:
        return 0.0
    # mutant: bernoulli ratio result
    return math.exp(min(weight, 700.0)) if others < 0.0 else others / (law.n - 1.0 - others + law.c)


@implements(entry_ceiling, BernoulliLaw)
def _entry_ceiling(law, others, weight, z):
    return entry_ratio(law, others, weight, z)


@implements(tail_weight, BernoulliLaw)
def _tail_weight(law, others, z, key):
    return 0.0


@implements(new_ratio, BernoulliLaw)
def _new_ratio(law, z):
    return 0.0


@implements(draw_column, BernoulliLaw)
def _draw_column(law, column, pull, weight, curve, key, row, work):
    binary_column(column, pull, weight, curve, key, row, work.busy)
