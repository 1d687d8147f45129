"""Poisson factors for count data: x_id ~ Poisson(b_d + sum_k Z_ik theta_kd), theta_kd ~ Gamma (docs/features.md).

Loadings cannot be integrated out row by row: they are kept for every atom, private ones too, and only the weights of
the tail are collapsed. At the end of a local step every count is split over the background and the row's atoms; given
the parts, loadings are gamma again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlogy

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.compiled.draws import binomial, log_gamma, poisson, stream, uniform
from unbounded.compiled.jit import implements, inline, jit
from unbounded.compiled.lanes import lane_log
from unbounded.likelihoods.base import positive
from unbounded.models.features.kernel import (
    apply,
    arrive,
    collect,
    depart,
    draw_column,
    draw_entry,
    is_binary,
    mobile_waits,
    open_slot,
    prepare,
    seek,
    shift,
    sweep_mobile,
    visit_mobile,
)
from unbounded.models.features.likelihood import FeatureBound, FeatureStatistics
from unbounded.priors import Gamma


class Background(NamedTuple):
    background: Array  # [D]


class PoissonFamily(NamedTuple):
    loadings: Array  # [shared, D]
    totals: Array  # [shared]
    background: Array
    shape: float
    rate: Array


class PoissonTail(NamedTuple):
    loadings: Array  # [slots, D]
    totals: Array  # [slots]
    rates: Array  # flat: D x rows, the expectation of every cell of the block
    counts: Array  # flat: D x rows
    size: Array  # [1] rows of the block


@dataclass(frozen=True)
class PoissonFactors:
    """Poisson factors.

    shape : float, default 0.5
        Of the gamma prior of loadings; small means that an atom speaks of few columns.
    rate : float or array, default None
        Of the same; None makes the prior mean of a column's loadings the column's mean.
    background : float, array or Gamma, default None
        Expected counts of a row that uses no atom: numbers fix it; a `Gamma` prior is sampled, column by column; None
        is such a prior with shape 1 and a tenth of the column's mean as its mean.
    """

    shape: float = 0.5
    rate: ArrayLike | None = None
    background: ArrayLike | None = None
    name: ClassVar[str] = "poisson_factors"

    def __post_init__(self) -> None:
        positive(self.shape, "shape")

    def bind(self, columns: Columns) -> BoundPoissonFactors:
        if (columns.low < 0).any() or not columns.whole.all():
            wrong = int(np.flatnonzero((columns.low < 0) | ~columns.whole)[0])
            raise ValueError(f"Poisson factors need counts 0, 1, 2, ...; column {wrong} has others.")
        size = columns.size
        means = np.maximum(columns.mean, 1.0 / (columns.n_rows + 1.0))
        rate = self.shape / means if self.rate is None else positive(self.rate, "rate", size)
        if self.background is None:
            prior: Gamma | None = Gamma(1.0, 10.0)
            level = means
        elif isinstance(self.background, Gamma):
            prior, level = self.background, np.ones(size)
        else:
            prior, level = None, positive(self.background, "background", size)
        return BoundPoissonFactors(columns, self.shape, rate, prior, level)


@dataclass(frozen=True)
class BoundPoissonFactors(FeatureBound):
    columns: Columns
    shape: float
    rate: Array
    prior: Gamma | None  # of background / level
    level: Array
    gram: ClassVar[bool] = False
    keeps_loadings: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    # ---- scales

    def start(self) -> Background:
        return Background(self.level * (1.0 if self.prior is None else self.prior.mean))

    def pack(self, scales: Background) -> Array:
        return scales.background

    def unpack(self, values: Array) -> Background:
        return Background(np.asarray(values, float))

    def draw_scales(self, rng: np.random.Generator) -> Background:
        if self.prior is None:
            return self.start()
        return Background(self.level * rng.gamma(self.prior.shape, 1.0 / self.prior.rate, self.columns.size))

    def scalars(self, scales: Background) -> dict[str, float]:
        return {} if self.prior is None else {"background": float(scales.background.sum())}

    # ---- loadings

    def draw(
        self, scales: Background, statistics: FeatureStatistics, rng: np.random.Generator
    ) -> tuple[Array, Background]:
        shape, rate = self.shape + statistics.sums, self.rate + statistics.members[:, None]
        loadings = np.maximum(rng.standard_gamma(shape), 1e-200) / rate
        if self.prior is not None:
            rest = rng.standard_gamma(self.prior.shape + statistics.rest)
            scales = Background(np.maximum(rest, 1e-200) / (self.prior.rate / self.level + statistics.n_rows))
        return loadings, scales

    def expected(self, scales: Background, statistics: FeatureStatistics) -> Array:
        value: Array = (self.shape + statistics.sums) / (self.rate + statistics.members[:, None])
        return value

    def draw_prior(self, scales: Background, size: int, rng: np.random.Generator) -> Array:
        return np.maximum(rng.standard_gamma(self.shape, (size, self.columns.size)), 1e-200) / self.rate

    def log_joint(self, scales: Background, statistics: FeatureStatistics) -> float:
        """Log density of the parts of the counts and of the background given Z, up to what no atom changes."""
        size = len(statistics.members)
        a, exposure = self.shape, self.rate + statistics.members[:, None]
        atoms = gammaln(a + statistics.sums) - (a + statistics.sums) * np.log(exposure)
        value = atoms.sum() + size * (a * np.log(self.rate) - gammaln(a)).sum()
        value += (xlogy(statistics.rest, scales.background) - statistics.n_rows * scales.background).sum()
        if self.prior is not None:
            ratios = scales.background / self.level
            value += sum(self.prior.log_density(max(x, 1e-300)) for x in ratios) - np.log(self.level).sum()
        return float(value)

    # ---- compiled parts

    def family(self, scales: Background, loadings: Array, usable: int, dtype: str) -> PoissonFamily:
        theta = np.ascontiguousarray(loadings)
        return PoissonFamily(theta, theta.sum(1), scales.background, self.shape, self.rate)

    def tail(self, scales: Background, slots: int, lanes: int, family: Any, private: Array) -> PoissonTail:
        d = self.columns.size
        loadings = np.ones((slots, d))
        loadings[: len(private)] = private
        cells = np.empty(lanes * d)
        return PoissonTail(loadings, loadings.sum(1), cells, np.empty(lanes * d), np.zeros(1, np.int64))

    def fill(self, family: Any, tail: Any, data: Array, Z: Array, shared: int) -> None:
        """Loadings are kept: there is nothing to rebuild."""

    def impute(
        self, data: Array, holes: Array, Z: Array, loadings: Array, scales: Background, key: Any, first: int
    ) -> None:
        _impute(data, holes, Z, loadings, scales.background, key, first)

    # ---- rows

    def mean(self, Z: Array, loadings: Array, scales: Background) -> Array:
        return Z @ loadings + scales.background

    def log_cells(self, X: Array, mean: Array, scales: Background) -> Array:
        value: Array = xlogy(X, mean) - mean - gammaln(X + 1.0)
        return value

    def simulate(self, Z: Array, scales: Background, rng: np.random.Generator, loadings: Array | None = None) -> Array:
        theta = self.draw_prior(scales, Z.shape[1], rng) if loadings is None else loadings
        return rng.poisson(self.mean(Z, theta, scales)).astype(float)

    def check(self, X: Array) -> None:
        there = X[~np.isnan(X)]
        if (there < 0).any() or (there != np.rint(there)).any():
            raise ValueError("Poisson factors need counts 0, 1, 2, ...; the rows have other values.")


# ---- the mobile columns


@implements(mobile_waits, PoissonFamily)
def _mobile_waits(family):
    return False


@implements(visit_mobile, PoissonFamily)
def _visit_mobile(family, law, tail, z, r, usable, order, weights, key, row, work):
    pass


@implements(prepare, PoissonFamily)
def _prepare(family, tail, data, start, z, usable, work):
    columns, size = z.shape
    d = data.shape[1]
    shared = family.loadings.shape[0]
    tail.size[0] = size
    rates, counts = tail.rates[: d * size].reshape(d, size), tail.counts[: d * size].reshape(d, size)
    for j in range(d):
        for r in range(size):
            rates[j, r] = family.background[j]
            counts[j, r] = data[start + r, j]
        for k in range(columns):
            theta = family.loadings[k, j] if k < shared else tail.loadings[k - shared, j]
            for r in range(size):
                rates[j, r] += z[k, r] * theta


@implements(sweep_mobile, PoissonFamily)
def _sweep_mobile(family, law, tail, z, usable, order, weights, key, first, work):
    """Update the mobile columns of all rows of a block; private entries are part of the rates."""
    size = z.shape[1]
    d = family.background.size
    rates, counts = tail.rates[: d * size].reshape(d, size), tail.counts[: d * size].reshape(d, size)
    gain = work.lanes[:size]
    for q in range(usable):
        k = order[q]
        own = stream(key, k)
        if not is_binary(law):
            for r in range(size):
                old = int(z[k, r])
                u = uniform(own, first + r)
                new = draw_entry(law, family, tail, z, r, 0, k, old, -1.0, weights[k], True, u, work.ladder)
                if new != old:
                    apply(family, tail, z, r, 0, k, float(new - old))
                    z[k, r] = new
            continue
        for r in range(size):
            gain[r] = -family.totals[k]
        for j in range(d):
            theta = family.loadings[k, j]
            for r in range(size):
                low = max(rates[j, r] - z[k, r] * theta, 1e-250)
                rates[j, r] = low
                gain[r] += counts[j, r] * lane_log((low + theta) / low)
        draw_column(law, z[k], gain, weights[k], 0.0, own, first, work)
        for j in range(d):
            theta = family.loadings[k, j]
            for r in range(size):
                rates[j, r] += z[k, r] * theta


# ---- visits


@implements(seek, PoissonFamily)
def _seek(family, law, tail, data, start, z, r, shared, members, key, row, work, born):
    return r


@implements(arrive, PoissonFamily)
def _arrive(family, tail, data, start, z, r, shared, members):
    pass


@implements(depart, PoissonFamily)
def _depart(family, tail, z, r, shared):
    pass


@inline
def _loadings(family, tail, shared, column):
    return tail.loadings[column - shared] if column >= family.loadings.shape[0] else family.loadings[column]


@implements(shift, PoissonFamily)
def _shift(family, tail, z, r, shared, column, step):
    if step == 0.0:
        return 0.0
    size = tail.size[0]
    private = column >= family.loadings.shape[0]
    theta = _loadings(family, tail, shared, column)
    value = -step * (tail.totals[column - shared] if private else family.totals[column])
    for j in range(theta.size):
        x = tail.counts[j * size + r]
        if x > 0.0:
            rate = tail.rates[j * size + r]
            value += x * math.log(max(rate + step * theta[j], 1e-250) / rate)
    return value


@implements(apply, PoissonFamily)
def _apply(family, tail, z, r, shared, column, step):
    size = tail.size[0]
    theta = _loadings(family, tail, shared, column)
    for j in range(theta.size):
        tail.rates[j * size + r] = max(tail.rates[j * size + r] + step * theta[j], 1e-250)


@implements(open_slot, PoissonFamily)
def _open_slot(family, tail, slot, key):
    """A new atom's loadings come from the prior."""
    total = 0.0
    for j in range(family.background.size):
        theta = math.exp(max(log_gamma(family.shape, stream(key, j)), -460.0)) / family.rate[j]
        tail.loadings[slot, j] = theta
        total += theta
    tail.totals[slot] = total


@implements(collect, PoissonFamily)
def _collect(family, tail, data, start, z, first, key, products, sums, rest):
    """Split every count over the background and the row's atoms."""
    columns, size = z.shape
    d = data.shape[1]
    shared = family.loadings.shape[0]
    counts = tail.counts[: d * size].reshape(d, size)
    for r in range(size):
        for j in range(d):
            left = int(counts[j, r])
            if left == 0:
                continue
            mass = family.background[j]
            for k in range(columns):
                if z[k, r] > 0:
                    mass += z[k, r] * (family.loadings[k, j] if k < shared else tail.loadings[k - shared, j])
            own = stream(key, (first + start + r) * d + j)
            for k in range(columns):
                if left > 0 and z[k, r] > 0:
                    part = z[k, r] * (family.loadings[k, j] if k < shared else tail.loadings[k - shared, j])
                    taken = binomial(left, min(part / mass, 1.0), stream(own, k))  # mutant: collect taken
                    sums[k, j] += taken
                    left -= taken
                    mass = max(mass - part, family.background[j])
            rest[j] += left


@jit
def _impute(data, holes, Z, loadings, background, key, first):
    d = data.shape[1]
    for q in range(holes.shape[0]):
        i, j = holes[q, 0], holes[q, 1]
        mean = background[j]
        for k in range(Z.shape[0]):
            mean += Z[k, i] * loadings[k, j]
        data[i, j] = poisson(mean, stream(key, (first + i) * d + j))
