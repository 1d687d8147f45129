"""Independent count columns with gamma priors (docs/model.md, "Poisson"). Holes (NaN) are skipped, exactly.

Terms: x for each column and, only when the data have holes, 1 where the column is observed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.compiled.jit import implements, jit
from unbounded.likelihoods.base import Bound, Parameters, positive
from unbounded.likelihoods.columnwise import add_values, rows_seen, value_terms, values_in_lanes
from unbounded.likelihoods.operations import accumulate, clear, copy_row, evaluate, screen, update, write_terms


@dataclass(frozen=True)
class Poisson:
    """Columns of counts: x_d ~ Poisson(rate_d), rate_d ~ Gamma(shape, 1 / scale).

    Parameters
    ----------
    shape : float or array, default 1.0
        Of the gamma prior of a rate: the larger, the closer rates are to their mean.
    mean : float, array or None, default None
        Prior mean of a rate; None: the column's (slightly smoothed) mean.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(ub.Poisson(shape=3.0))
    """

    shape: ArrayLike = 1.0
    mean: ArrayLike | None = None

    name: ClassVar[str] = "poisson"

    def bind(self, columns: Columns) -> BoundPoisson:
        """The likelihood with its prior fitted to these columns, which it checks.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.Poisson().bind(describe(np.eye(4))).n_terms
        4
        """
        wrong = (columns.low < 0) | ~columns.whole
        if wrong.any():
            raise ValueError(
                f"Poisson: column {columns.index[wrong][0]} has values that are not counts (0, 1, 2, ...)."
            )
        seen = columns.n_rows - columns.holes
        shape = positive(self.shape, "shape", columns.size)
        smoothed = (np.nan_to_num(columns.mean) * seen + 1.0) / (seen + 1.0)
        mean = smoothed if self.mean is None else positive(self.mean, "mean", columns.size)
        return BoundPoisson(columns, shape, shape / mean)


@dataclass(frozen=True)
class BoundPoisson(Bound):
    columns: Columns
    shape0: Array
    rate0: Array

    @property
    def n_terms(self) -> int:
        return self.columns.size * (2 if self.columns.missing else 1)

    def terms(self, X: Array) -> Array:
        return value_terms(X, self.columns)

    def log_base(self, X: Array) -> Array:
        return -gammaln(np.nan_to_num(X[:, self.columns.index]) + 1.0).sum(1)

    def _posterior(self, counts: Array, statistics: Array) -> tuple[Array, Array]:
        d = self.columns.size
        n = rows_seen(self.columns, counts, statistics[:, d:])
        return self.shape0 + statistics[:, :d], self.rate0 + n

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        shape, rate = self._posterior(counts, statistics)
        prior = self.shape0 * np.log(self.rate0) - gammaln(self.shape0)  # mutant: poisson prior
        return (gammaln(shape) - shape * np.log(rate) + prior).sum(1)

    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        shape, rate = self._posterior(counts, statistics)
        return {"rate": np.maximum(rng.standard_gamma(shape) / rate, 1e-300)}

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        shape, rate = self._posterior(counts, statistics)
        return {"rate": shape / rate}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        rate = parameters["rate"]
        if self.columns.missing:
            return np.zeros(len(rate)), np.concatenate([np.log(rate), -rate], axis=1)
        return -rate.sum(1), np.log(rate)

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        return rng.poisson(parameters["rate"][labels]).astype(float)

    def spec(self, first: int = 0) -> tuple[Any, ...]:
        return (PoissonSpec(self.columns.index, first, int(self.columns.missing), self.shape0, self.rate0),)

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        return (PoissonTail(*(np.zeros((slots, self.columns.size)) for _ in range(4))),)

    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        (tail,) = self.tail(len(counts), lanes)
        (spec,) = self.spec()
        tail.shape[:], tail.rate[:] = self._posterior(counts, statistics)
        for slot in range(len(counts)):
            _set_logs(spec, tail, slot)
        return (tail,)


class PoissonSpec(NamedTuple):
    columns: Array
    first: int
    missing: int
    shape0: Array
    rate0: Array


class PoissonTail(NamedTuple):
    shape: Array
    rate: Array
    at_zero: Array  # log predictive of x = 0, less lnGamma(shape)
    log_next: Array  # log(rate + 1)


@implements(write_terms, PoissonSpec)
def _write_terms(spec, block):
    values_in_lanes(spec, block)


@implements(accumulate, PoissonSpec)
def _accumulate(spec, data, rows, statistics):
    add_values(spec, data, rows, statistics)


@jit
def _set_logs(spec, tail, slot):
    for j in range(spec.columns.size):
        shape, rate = tail.shape[slot, j], tail.rate[slot, j]
        tail.log_next[slot, j] = math.log(rate + 1.0)
        tail.at_zero[slot, j] = shape * (math.log(rate) - tail.log_next[slot, j]) - math.lgamma(shape)


@implements(clear, PoissonSpec)
def _clear(spec, tail, slot):
    copy_row(spec.shape0, tail.shape, slot)
    copy_row(spec.rate0, tail.rate, slot)
    _set_logs(spec, tail, slot)


@implements(update, PoissonSpec)
def _update(spec, tail, slot, block, r, sign):
    terms = block.terms
    d = spec.columns.size
    for j in range(d):
        tail.shape[slot, j] += sign * np.float64(terms[spec.first + j, r])
        tail.rate[slot, j] += sign * (np.float64(terms[spec.first + d + j, r]) if spec.missing else 1.0)
    _set_logs(spec, tail, slot)


@implements(evaluate, PoissonSpec)
def _evaluate(spec, tail, slot, block, begin, end, out):
    """The negative binomial, without 1 / x!, which all atoms share."""
    terms = block.terms
    d = spec.columns.size
    for j in range(d):
        shape, zero, log_next = tail.shape[slot, j], tail.at_zero[slot, j], tail.log_next[slot, j]
        for r in range(begin, end):
            if spec.missing and terms[spec.first + d + j, r] == 0:
                continue
            x = np.float64(terms[spec.first + j, r])
            out[r] += zero + math.lgamma(shape + x) - x * log_next


@implements(screen, PoissonSpec)
def _screen(spec, tail, slot, block, begin, end, out):
    for r in range(begin, end):
        out[r] += np.inf
