"""Gaussian with independent columns and a normal-inverse-gamma prior (docs/model.md, "Diagonal Gaussian").

Holes (NaN) are skipped: a column's law given an atom only sees the rows that have it, which is exact.
Terms: x^2 for each column, x for each column and, only when the data have holes, 1 where the column is observed.
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
from unbounded.compiled.lanes import lane_log
from unbounded.likelihoods.base import Bound, Parameters, positive, reach_of, vector
from unbounded.likelihoods.columnwise import rows_seen
from unbounded.likelihoods.operations import accumulate, clear, copy_row, evaluate, screen, update, write_terms


@dataclass(frozen=True)
class DiagonalGaussian:
    """Atoms with independent columns: x_d ~ N(mu, v), mu ~ N(mean, v / kappa), v ~ IG(shape, scale).

    Parameters
    ----------
    mean : float, array or None, default None
        Prior mean of an atom's centre; None: the column means.
    kappa : float, default 0.05
        How many observations the prior mean is worth.
    shape : float, default 2.0
        Of the inverse gamma prior of an atom's variance.
    scale : float, array or None, default None
        Of the same; None: an atom is expected to have half of the column's variance.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(ub.DiagonalGaussian(shape=3.0))
    """

    mean: ArrayLike | None = None
    kappa: float = 0.05
    shape: float = 2.0
    scale: ArrayLike | None = None

    name: ClassVar[str] = "diagonal_gaussian"

    def bind(self, columns: Columns) -> BoundDiagonalGaussian:
        """The likelihood with its prior scaled to these columns, which it checks.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.DiagonalGaussian().bind(describe(np.eye(4))).n_terms  # sums of columns and of their squares
        8
        """
        size = columns.size
        spread = columns.spread()
        centre = np.where(np.isfinite(columns.centre), columns.centre, 0.0)
        shape = positive(self.shape, "shape")
        mean = np.zeros(size) if self.mean is None else (vector(self.mean, size, "mean") - centre) / spread
        if self.scale is None:
            scale = np.full(size, 0.5 * max(shape - 1.0, 0.5))
        else:
            scale = positive(self.scale, "scale", size) / spread**2
        return BoundDiagonalGaussian(columns, centre, 1.0 / spread, mean, positive(self.kappa, "kappa"), shape, scale)


@dataclass(frozen=True)
class BoundDiagonalGaussian(Bound):
    columns: Columns
    shift: Array
    inverse_scale: Array
    mean0: Array
    kappa0: float
    shape0: float
    scale0: Array

    @property
    def size(self) -> int:
        return self.columns.size

    @property
    def n_terms(self) -> int:
        return self.size * (3 if self.columns.missing else 2)

    def terms(self, X: Array) -> Array:
        x = (X[:, self.columns.index] - self.shift) * self.inverse_scale
        observed = ~np.isnan(x)
        x = np.where(observed, x, 0.0)
        parts = [x * x, x, observed.astype(float)]
        return np.concatenate(parts[: 3 if self.columns.missing else 2], axis=1)

    def log_base(self, X: Array) -> Array:
        observed = ~np.isnan(X[:, self.columns.index])
        return observed @ (np.log(self.inverse_scale) - 0.5 * math.log(2 * math.pi))

    def _posterior(self, counts: Array, statistics: Array) -> tuple[Array, Array, Array, Array, Array]:
        """(n, kappa_n, mean_n, shape_n, scale_n), each [K, D]."""
        d = self.size
        n = np.broadcast_to(rows_seen(self.columns, counts, statistics[:, 2 * d :]), (len(counts), d))
        kappa = self.kappa0 + n
        mean = (self.kappa0 * self.mean0 + statistics[:, d : 2 * d]) / kappa
        scatter = statistics[:, :d] + self.kappa0 * self.mean0**2 - kappa * mean**2  # mutant: diagonal scatter
        return n, kappa, mean, self.shape0 + 0.5 * n, self.scale0 + 0.5 * np.maximum(scatter, 0.0)

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        _, kappa, _, shape, scale = self._posterior(counts, statistics)
        value = (
            gammaln(shape)
            - gammaln(self.shape0)
            + self.shape0 * np.log(self.scale0)
            - shape * np.log(scale)
            + 0.5 * (math.log(self.kappa0) - np.log(kappa))
        )
        return value.sum(1)

    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        _, kappa, mean, shape, scale = self._posterior(counts, statistics)
        variance = scale / rng.standard_gamma(shape)
        return {"mean": mean + np.sqrt(variance / kappa) * rng.standard_normal(mean.shape), "variance": variance}

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        _, _, mean, shape, scale = self._posterior(counts, statistics)
        return {"mean": mean, "variance": scale / shape}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        mean, variance = parameters["mean"], parameters["variance"]
        constant = -0.5 * (np.log(variance) + mean**2 / variance)
        parts = [-0.5 / variance, mean / variance]
        if self.columns.missing:
            return np.zeros(len(mean)), np.concatenate([*parts, constant], axis=1)
        return constant.sum(1), np.concatenate(parts, axis=1)

    def float32_error(self, parameters: Parameters) -> float:
        low, high = ((edge - self.shift) * self.inverse_scale for edge in (self.columns.low, self.columns.high))
        variance = parameters["variance"]
        terms = (reach_of(parameters["mean"], np.sqrt(variance), low, high) ** 2 / variance).sum(1)
        return float(np.finfo(np.float32).eps * terms.max(initial=0.0))

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        noise = np.sqrt(parameters["variance"][labels]) * rng.standard_normal((len(labels), self.size))
        return (parameters["mean"][labels] + noise) / self.inverse_scale + self.shift

    def spec(self, first: int = 0) -> tuple[Any, ...]:
        return (
            DiagonalSpec(
                self.columns.index, first, int(self.columns.missing), self.shift, self.inverse_scale, self.mean0,
                self.kappa0, self.shape0, self.scale0,
            ),
        )  # fmt: skip

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        cells = [np.zeros((slots, self.size)) for _ in range(6)]
        return (DiagonalTail._make([*cells, np.zeros(slots), np.empty(lanes)]),)

    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        n, _, mean, _, scale = self._posterior(counts, statistics)
        (tail,) = self.tail(len(counts), lanes)
        (spec,) = self.spec()
        tail.n[:], tail.mean[:], tail.scale[:] = n, mean, scale
        for slot in range(len(counts)):
            _set_constants(spec, tail, slot)
        return (tail,)


class DiagonalSpec(NamedTuple):
    columns: Array
    first: int
    missing: int
    shift: Array
    inverse_scale: Array
    mean0: Array
    kappa0: float
    shape0: float
    scale0: Array


class DiagonalTail(NamedTuple):
    n: Array
    mean: Array
    scale: Array
    constant: Array
    power: Array
    ratio: Array  # log predictive of a column: constant - power log(1 + ratio (x - mean)^2)
    total: Array  # sum of the constants
    squares: Array


@implements(write_terms, DiagonalSpec)
def _write_terms(spec, block):
    data, start, size, terms = block.data, block.start, block.size, block.terms
    d = spec.columns.size
    lanes = terms.shape[1]
    f = spec.first
    for j in range(d):
        c, shift, scale = spec.columns[j], spec.shift[j], spec.inverse_scale[j]
        for r in range(lanes):
            x = terms.dtype.type((data[start + r, c] - shift) * scale if r < size else 0.0)
            seen = not np.isnan(x)
            x = x if seen else terms.dtype.type(0.0)
            terms[f + j, r] = x * x
            terms[f + d + j, r] = x
            if spec.missing:
                terms[f + 2 * d + j, r] = seen


@implements(accumulate, DiagonalSpec)
def _accumulate(spec, data, rows, statistics):
    d = spec.columns.size
    f = spec.first
    for i in range(rows.size):
        for j in range(d):
            x = (data[rows[i], spec.columns[j]] - spec.shift[j]) * spec.inverse_scale[j]
            if not np.isnan(x):
                statistics[f + j] += x * x
                statistics[f + d + j] += x
                if spec.missing:
                    statistics[f + 2 * d + j] += 1.0


@jit
def _set_constants(spec, tail, slot):
    total = 0.0
    last_n, gammas = -1.0, 0.0
    for j in range(spec.columns.size):
        n = tail.n[slot, j]
        kappa = spec.kappa0 + n
        shape = spec.shape0 + 0.5 * n
        if n != last_n:
            gammas = math.lgamma(shape + 0.5) - math.lgamma(shape)
            last_n = n
        spread = 2.0 * tail.scale[slot, j] * (kappa + 1.0) / kappa
        tail.constant[slot, j] = gammas - 0.5 * math.log(0.5 * spread)
        tail.power[slot, j] = shape + 0.5
        tail.ratio[slot, j] = 1.0 / spread
        total += tail.constant[slot, j]
    tail.total[slot] = total


@implements(clear, DiagonalSpec)
def _clear(spec, tail, slot):
    for j in range(spec.columns.size):
        tail.n[slot, j] = 0.0
    copy_row(spec.mean0, tail.mean, slot)
    copy_row(spec.scale0, tail.scale, slot)
    _set_constants(spec, tail, slot)


@implements(update, DiagonalSpec)
def _update(spec, tail, slot, block, r, sign):
    terms = block.terms
    d = spec.columns.size
    f = spec.first
    for j in range(d):
        if spec.missing and terms[f + 2 * d + j, r] == 0:
            continue
        n = tail.n[slot, j] + sign
        if n < 0.5:
            tail.n[slot, j], tail.mean[slot, j], tail.scale[slot, j] = 0.0, spec.mean0[j], spec.scale0[j]
            continue
        x = np.float64(terms[f + d + j, r])
        kappa = spec.kappa0 + tail.n[slot, j]
        gap = x - tail.mean[slot, j]
        scale = tail.scale[slot, j] + 0.5 * sign * kappa / (kappa + sign) * gap * gap
        tail.scale[slot, j] = max(scale, spec.scale0[j])
        tail.mean[slot, j] += sign * gap / (kappa + sign)
        tail.n[slot, j] = n
    _set_constants(spec, tail, slot)


@implements(evaluate, DiagonalSpec)
def _evaluate(spec, tail, slot, block, begin, end, out):
    terms = block.terms
    d = spec.columns.size
    f = spec.first
    if not spec.missing:
        total = tail.total[slot]
        for r in range(begin, end):
            out[r] += total
    for j in range(d):
        mean, power, ratio = tail.mean[slot, j], tail.power[slot, j], tail.ratio[slot, j]
        constant = tail.constant[slot, j]
        if spec.missing:
            for r in range(begin, end):
                gap = terms[f + d + j, r] - mean
                seen = np.float64(terms[f + 2 * d + j, r])
                out[r] += seen * (constant - power * lane_log(1.0 + ratio * gap * gap))
        else:
            for r in range(begin, end):
                gap = terms[f + d + j, r] - mean
                out[r] -= power * lane_log(1.0 + ratio * gap * gap)


@implements(screen, DiagonalSpec)
def _screen(spec, tail, slot, block, begin, end, out):
    """Sum of logs of 1 + q_j is at least the log of 1 + their sum, and powers are at least the smallest one."""
    terms = block.terms
    d = spec.columns.size
    x0 = spec.first + d
    top, power = tail.total[slot], np.inf
    for j in range(d):
        power = min(power, tail.power[slot, j])
    if spec.missing:
        top = 0.0
        for j in range(d):
            top += max(0.0, tail.constant[slot, j])
    squares = tail.squares
    for r in range(begin, end):
        squares[r] = 0.0
    for j in range(d):
        mean, ratio = tail.mean[slot, j], tail.ratio[slot, j]
        for r in range(begin, end):
            gap = terms[x0 + j, r] - mean
            seen = np.float64(terms[x0 + d + j, r]) if spec.missing else 1.0
            squares[r] += seen * ratio * gap * gap
    for r in range(begin, end):
        out[r] += top - power * lane_log(1.0 + squares[r])
