"""Poisson factors for count data: x_id ~ Poisson(b_d + sum_k Z_ik theta_kd), theta_kd ~ Gamma (docs/features.md).

Loadings cannot be integrated out row by row: they are kept for every atom, private ones too, and only the weights of
the tail are collapsed. At the end of a local step every count is split between the background and the row's atoms;
given the parts, loadings are gamma distributed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlogy

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.likelihoods.base import positive
from unbounded.models.features.likelihood import FeatureBound, FeatureStatistics
from unbounded.models.features.poisson_factors_compiled import PoissonFactorsSpec, PoissonFactorsTail, impute
from unbounded.priors import Gamma


class Background(NamedTuple):
    background: Array  # [D]


@dataclass(frozen=True)
class PoissonFactors:
    """Poisson factors.

    Parameters
    ----------
    shape : float, default 0.5
        Of the gamma prior of loadings; small means that an atom speaks of few columns.
    rate : float, array or None, default None
        Of the same; None makes the prior mean of a column's loadings the column's mean.
    background : float, array, Gamma or None, default None
        Expected counts of a row that uses no atom: numbers fix it; a `Gamma` prior is sampled, column by column; None
        is such a prior with shape 1 and a tenth of the column's mean as its mean.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.BetaBernoulliFeatures(ub.PoissonFactors())
    """

    shape: float = 0.5
    rate: ArrayLike | None = None
    background: ArrayLike | None = None
    name: ClassVar[str] = "poisson_factors"

    def __post_init__(self) -> None:
        positive(self.shape, "shape")

    def bind(self, columns: Columns) -> BoundPoissonFactors:
        """The likelihood with its prior scaled to these columns, which it checks.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.PoissonFactors().bind(describe(np.eye(4))).columns.size
        4
        """
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

    @property
    def centre(self) -> Array:  # type: ignore[override]
        return np.zeros(self.columns.size)

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
        """Log density of the parts of the counts and of the background given Z, up to a constant of the data."""
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

    def spec(self, scales: Background, loadings: Array, usable: int, dtype: str) -> PoissonFactorsSpec:
        theta = np.ascontiguousarray(loadings)
        return PoissonFactorsSpec(theta, theta.sum(1), scales.background, self.shape, self.rate)

    def precision(self, spec: Any) -> np.dtype[Any]:
        return np.dtype(float)

    def tail(self, scales: Background, slots: int, lanes: int, spec: Any, private: Array) -> PoissonFactorsTail:
        d = self.columns.size
        loadings = np.ones((slots, d))
        loadings[: len(private)] = private
        cells = np.empty(lanes * d)
        return PoissonFactorsTail(loadings, loadings.sum(1), cells, np.empty(lanes * d), np.zeros(1, np.int64))

    def impute(
        self, data: Array, holes: Array, Z: Array, loadings: Array, scales: Background, key: Any, first: int
    ) -> None:
        impute(data, holes, Z, loadings, scales.background, key, first)

    # ---- rows

    def mean(self, Z: Array, loadings: Array, scales: Background) -> Array:
        return Z @ loadings + scales.background

    def log_cells(self, X: Array, mean: Array, scales: Background) -> Array:
        value: Array = xlogy(X, mean) - mean - gammaln(X + 1.0)
        return value

    def gains(self, scales: Background, base: Array, added: Array) -> tuple[Array, Array, Array]:
        return np.zeros_like(base), np.log1p(added / base), added

    def tempered(self, scales: Background, loadings: Array, power: float) -> tuple[Background, Array, float]:
        return Background(scales.background * power), loadings * power, power

    def with_new(self, scales: Background, entries: Array, rng: np.random.Generator) -> Background:
        return Background(scales.background + entries @ self.draw_prior(scales, len(entries), rng))

    def simulate(self, Z: Array, scales: Background, rng: np.random.Generator, loadings: Array | None = None) -> Array:
        theta = self.draw_prior(scales, Z.shape[1], rng) if loadings is None else loadings
        return rng.poisson(self.mean(Z, theta, scales)).astype(float)

    def check(self, X: Array) -> None:
        there = X[~np.isnan(X)]
        if (there < 0).any() or (there != np.rint(there)).any():
            raise ValueError("Poisson factors need counts 0, 1, 2, ...; the rows have other values.")
