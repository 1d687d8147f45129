"""The gamma-Poisson process (Titsias 2008): a row uses an atom 0, 1, 2, ... times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from unbounded.arrays import Array
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
from unbounded.models.features.measure import FeatureHyper, FeatureMeasure, blank
from unbounded.randomness import log_gamma_draws


class PoissonLaw(NamedTuple):
    """A mobile column's weight is the log of its mean."""

    c: float
    n: float  # rows and ghosts
    rate: float  # of new atoms for a row
    first: float  # probability that the entry of a new atom is 1

    def log_entry(self, others: float, weight: float, z: int) -> float:
        """Log probability of an entry, up to a constant, for the reference kernel (laws.py)."""
        if others < 0.0:
            return z * weight - math.lgamma(z + 1.0)
        return math.lgamma(others + z) - z * math.log(self.c + self.n) - math.lgamma(z + 1.0)

    def draw_weight(self, others: float, z: int, key: np.uint64) -> float:
        return 0.0


@joined
@dataclass(frozen=True)
class GammaPoisson(FeatureMeasure):
    """Gamma-Poisson process (Titsias 2008): a row uses an atom 0, 1, 2, ... times.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> process, rng = ub.GammaPoisson(), np.random.default_rng(0)
    >>> process.simulate(process.draw_prior(rng), 100, rng).shape[0]  # Z of 100 rows
    100
    """

    def expected(self, c: float, n: float) -> float:
        return math.log1p(n / c)

    def log_atom(self, c: float, n: float, counts: Array) -> Array:
        value: Array = gammaln(counts) - counts * math.log(c + n)
        return value

    def log_entries(self, Z: Array) -> float:
        return -float(gammaln(Z + 1.0).sum())

    def own_ghosts(self, hyper: FeatureHyper, counts: Array, n: int, total: int, rng: np.random.Generator) -> Array:
        return rng.poisson(total * rng.gamma(counts, 1.0 / (hyper.c + n)))

    def ghost_counts(self, hyper: FeatureHyper, n: int, total: int, size: int, rng: np.random.Generator) -> Array:
        # mutant: gp ghosts
        return rng.logseries(total / (hyper.c + n + total), size) if size else np.empty(0, np.int64)

    def weight_shapes(self, hyper: FeatureHyper, amounts: Array, n: float) -> tuple[Array, Array]:
        return amounts, np.full(len(amounts), hyper.c + n)

    def draw_weights(self, first: Array, second: Array, rng: np.random.Generator) -> Array:
        """Logs of gamma draws."""
        value: Array = log_gamma_draws(first, rng) - np.log(second)
        return value

    def log_weight_density(self, weights: Array, first: Array, second: Array) -> Array:
        value: Array = first * (weights + np.log(second)) - second * np.exp(weights) - gammaln(first)
        return value

    def law(self, hyper: FeatureHyper, n: float, open_: bool = True) -> PoissonLaw:
        step = -math.log1p(-1.0 / (hyper.c + n))  # log((c + n) / (c + n - 1))
        first = 1.0 / (hyper.c + n) / step  # mutant: gp first
        return PoissonLaw(hyper.c, float(n), hyper.alpha * step if open_ else 0.0, first)

    def later_entries(self, hyper: FeatureHyper, first: Array, i: Array, n: int, rng: np.random.Generator) -> Array:
        means = rng.gamma(first, 1.0 / (hyper.c + i + 1.0))
        Z = rng.poisson(means, (n, len(first))) * (np.arange(n)[:, None] > i)
        return Z + blank(first, i, n)


# ---- the law, compiled


@implements(is_binary, PoissonLaw)
def _is_binary(law):
    return False


@implements(entry_ratio, PoissonLaw)
def _entry_ratio(law, others, weight, z):
    return math.exp(weight) / (z + 1.0) if others < 0.0 else (others + z) / ((z + 1.0) * (law.c + law.n))


@implements(entry_ceiling, PoissonLaw)
def _entry_ceiling(law, others, weight, z):
    return entry_ratio(law, others, weight, z)


@implements(tail_weight, PoissonLaw)
def _tail_weight(law, others, z, key):
    return 0.0


@implements(new_ratio, PoissonLaw)
def _new_ratio(law, z):
    return z / ((z + 1.0) * (law.c + law.n))


@implements(draw_column, PoissonLaw)
def _draw_column(law, column, pull, weight, curve, key, row, work):
    count_column(law, column, pull, weight, curve, key, row, work)
