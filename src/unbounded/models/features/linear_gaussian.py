"""Linear Gaussian factors: x_i ~ N(b + sum_k Z_ik A_k, sigma_X^2 I), A_kd ~ N(0, sigma_A^2) (docs/features.md).

Loadings of mobile and frozen atoms are drawn, all together; those of a shard's private atoms are integrated out. The
intercept b is the loadings of an atom that all rows use, with a prior of its own: b_d ~ N(level, base), both sampled.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtrs

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.likelihoods.base import positive
from unbounded.models.features.likelihood import FeatureBound, FeatureStatistics, Loadings
from unbounded.models.features.linear_gaussian_compiled import NARROW, LinearGaussianSpec, LinearGaussianTail, impute
from unbounded.priors import InverseGamma

FLOAT32_TOLERANCE = 0.02  # nats
FINEST = 1e-4  # of the data's spread: the default prior of the noise counts as one cell with this error
EVEN = 0.01  # of the data's spread: the same for the spread of the intercept over columns
LARGEST = 1e35  # values are not larger than this, and not all of them smaller than its inverse
WIDE = 10.0  # prior standard deviation of the intercept's level, in units of the data's size


class Scales(NamedTuple):
    """Variances of the noise and of the loadings; mean and variance of the columns of the intercept."""

    noise: float
    loading: float
    level: float = 0.0
    base: float = 1.0


class Intercept(NamedTuple):
    """The prior of the intercept: b_d ~ N(level, base), level ~ N(0, wide^2), base ~ `base`."""

    wide: float
    base: InverseGamma

    def draw(self, rng: np.random.Generator) -> tuple[float, float]:
        return self.wide * float(rng.standard_normal()), self.base.draw(rng)

    def given(self, values: Array, base: float, rng: np.random.Generator) -> tuple[float, float]:
        """(level, base) given the intercept: each from its law given the other."""
        precision = values.size / base + self.wide**-2
        level = (float(values.sum()) / base + math.sqrt(precision) * float(rng.standard_normal())) / precision
        return level, self.base.given(values.size, float(np.sum((values - level) ** 2))).draw(rng)

    def log_density(self, level: float, base: float) -> float:
        apart = level / self.wide
        return self.base.log_density(base) - 0.5 * (apart**2 + math.log(2.0 * math.pi * self.wide**2))


@dataclass(frozen=True)
class LinearGaussian:
    """Linear Gaussian factors.

    Parameters
    ----------
    noise : float, InverseGamma or None, default None
        Standard deviation of the noise: a number fixes it; an `InverseGamma` prior on the variance is sampled; None is
        such a prior, scaled to the data and weak.
    loading : float, InverseGamma or None, default None
        Standard deviation of the loadings, in the same way.
    intercept : bool or float, default True
        What a row without features expects. True: a number for every column, around a common level, with a prior so
        wide that it does not matter where the zero of the data is; False: zero; a number: normal around zero with that
        standard deviation. It is no feature, and is not counted as one.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.BetaBernoulliFeatures(ub.LinearGaussian(noise=0.5, intercept=False))
    """

    noise: float | InverseGamma | None = None
    loading: float | InverseGamma | None = None
    intercept: bool | float = True
    name: ClassVar[str] = "linear_gaussian"

    def __post_init__(self) -> None:
        for name in ("noise", "loading"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, InverseGamma):
                positive(value, name)
        if not isinstance(self.intercept, bool):
            positive(self.intercept, "intercept")

    def bind(self, columns: Columns) -> BoundLinearGaussian:
        """The likelihood with its priors scaled to these columns, which it checks.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.LinearGaussian().bind(describe(np.eye(4))).columns.size
        4
        """
        _check_size(columns)
        _warn_of_constant_columns(columns)
        _warn_of_far_rows(columns)
        centre = np.zeros(columns.size) if self.intercept is False else columns.mean
        sd = np.where(columns.constant, 0.0, columns.sd)
        spread, reach = (float(np.sqrt(np.mean(sd**2 + (columns.mean - c) ** 2))) for c in (centre, 0.0))
        spread = spread if spread > 0.0 else max(reach, 1.0)
        noise = InverseGamma(0.5, 0.5 * (FINEST * spread) ** 2) if self.noise is None else self.noise
        loading = InverseGamma(1.0, 0.5 * spread**2) if self.loading is None else self.loading
        own: Intercept | float = float(self.intercept) ** 2
        if self.intercept is True:
            own = Intercept(WIDE * max(reach, spread), InverseGamma(0.5, 0.5 * (EVEN * spread) ** 2))
        return BoundLinearGaussian(columns, centre, noise, loading, own, spread)


@dataclass(frozen=True)
class LinearGaussianAtZero(LinearGaussian):
    """Linear Gaussian factors of rows that are zero without features: a name for the command line."""

    intercept: bool | float = False
    name: ClassVar[str] = "linear_gaussian_at_zero"


def _check_size(columns: Columns) -> None:
    """Refuse values that are zero or infinite in single precision, or when they are multiplied several times."""
    largest = columns.largest[np.isfinite(columns.largest)].max(initial=0.0)
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:
        raise ValueError(
            f"linear_gaussian: the largest value is {largest:.1g}, and values must be between {1.0 / LARGEST:g} and "
            f"{LARGEST:g}: multiply the data by a number that brings them near 1."
        )


def _warn_of_constant_columns(columns: Columns) -> None:
    """Columns share the variance of the noise, and a constant one has none."""
    constant = np.flatnonzero(columns.constant & (columns.n_rows - columns.holes > 1))
    if len(constant) and len(constant) < columns.size:
        some = ", ".join(str(c) for c in constant[:8]) + ", ..." * (len(constant) > 8)
        warnings.warn(
            f"columns without any variation ({some}) say nothing of features and make the noise, which all columns "
            "share, too small; leave them out.",
            stacklevel=2,
        )


def _warn_of_far_rows(columns: Columns) -> None:
    """Rows share the variance of the noise, and a few distant ones would make it as large as their distance."""
    far = np.flatnonzero(columns.centre != columns.mean)  # mutant: far said
    if len(far):
        column = int(far[0])
        reach = max(columns.high[column] - columns.centre[column], columns.centre[column] - columns.low[column])
        warnings.warn(
            f"a few rows are far away from all others (in column {column} up to {reach / columns.sd[column]:.0f} times "
            "as far as most of them are apart): noise, which all rows share, may grow until it hides the features of "
            "the others; leave such rows out, or set their values to NaN.",
            stacklevel=2,
        )


def _solved(lower: Array, right: Array, transposed: bool = False) -> Array:
    """L^-1 B, or (transposed) L'^-1 B, for NumPy's Cholesky factor. SciPy's checks take longer than solving."""
    if not right.size:
        return right
    value: Array = dtrtrs(lower.T, right, lower=0, trans=0 if transposed else 1)[0]
    return value


@dataclass(frozen=True)
class BoundLinearGaussian(FeatureBound):
    columns: Columns
    centre: Array  # of the arithmetic, not of a prior: subtracted before products, sums and casts to float32
    noise: float | InverseGamma
    loading: float | InverseGamma
    intercept: Intercept | float  # a number: variance of the always-on atom's loadings, around zero; 0: none
    spread: float
    gram: ClassVar[bool] = True
    keeps_loadings: ClassVar[bool] = False

    @cached_property
    def fixed(self) -> int:
        return int(isinstance(self.intercept, Intercept) or self.intercept > 0)

    # ---- scales

    def start(self) -> Scales:
        first = self.spread**2  # everything is noise at first: real features are found, but spurious ones would stay
        level, base = float(self.columns.mean.mean()), float(self.columns.mean.var()) + self.spread**2
        return Scales(
            first if isinstance(self.noise, InverseGamma) else self.noise**2,
            first if isinstance(self.loading, InverseGamma) else self.loading**2,
            *((level, base) if isinstance(self.intercept, Intercept) else ()),
        )

    def pack(self, scales: Scales) -> Array:
        return np.array(scales)

    def unpack(self, values: Array) -> Scales:
        return Scales(*(float(v) for v in values))

    def draw_scales(self, rng: np.random.Generator) -> Scales:
        return Scales(
            self.noise.draw(rng) if isinstance(self.noise, InverseGamma) else self.noise**2,
            self.loading.draw(rng) if isinstance(self.loading, InverseGamma) else self.loading**2,
            *(self.intercept.draw(rng) if isinstance(self.intercept, Intercept) else ()),
        )

    def scalars(self, scales: Scales) -> dict[str, float]:
        sampled = {"sigma_x": self.noise, "sigma_a": self.loading}
        values = dict(zip(sampled, np.sqrt(scales[:2]), strict=True))
        return {name: float(values[name]) for name, prior in sampled.items() if isinstance(prior, InverseGamma)}

    # ---- loadings

    def _precision(self, scales: Scales, size: int) -> Array:
        prior = np.full(size, 1.0 / scales.loading)
        if self.fixed:
            prior[-1] = 1.0 / self._base(scales)[1]
        return prior

    def _base(self, scales: Scales) -> tuple[Array, float]:
        """Prior mean (less the centre) and variance of the intercept."""
        if isinstance(self.intercept, Intercept):
            return scales.level - self.centre, scales.base  # mutant: intercept level
        return -self.centre, self.intercept

    def _pulls(self, scales: Scales, statistics: FeatureStatistics) -> Array:
        """Posterior precision times posterior mean of the loadings."""
        value: Array = statistics.sums / scales.noise
        if self.fixed:
            mean, variance = self._base(scales)
            value[-1] += mean / variance
        return value

    def draw(self, scales: Scales, statistics: FeatureStatistics, rng: np.random.Generator) -> tuple[Array, Scales]:
        """All loadings jointly, A ~ N(M^-1 Z'X / s, M^-1) with M = Z'Z / s + prior precision; then the scales."""
        size, d = statistics.sums.shape
        # mutant: draw precision
        precision = statistics.products / scales.noise + np.diag(self._precision(scales, size))
        lower = np.linalg.cholesky(precision)
        white = _solved(lower, self._pulls(scales, statistics))
        A = _solved(lower, white + rng.standard_normal((size, d)), transposed=True)
        noise, loading, level, base = scales
        if isinstance(self.noise, InverseGamma):
            errors = statistics.square - np.sum(A * (2.0 * statistics.sums - statistics.products @ A))
            noise = self.noise.given(statistics.n_rows * d, max(float(errors), 0.0)).draw(rng)
        if isinstance(self.loading, InverseGamma):
            free = A[: size - self.fixed]  # mutant: free loadings
            loading = self.loading.given(free.size, float(np.sum(free**2))).draw(rng)
        if isinstance(self.intercept, Intercept):
            level, base = self.intercept.given(A[-1] + self.centre, base, rng)
        return A, Scales(noise, loading, level, base)

    def expected(self, scales: Scales, statistics: FeatureStatistics) -> Array:
        """Posterior means of all loadings."""
        size = len(statistics.members)
        precision = statistics.products / scales.noise + np.diag(self._precision(scales, size))
        value: Array = np.linalg.solve(precision, self._pulls(scales, statistics))
        return value

    def posterior(self, scales: Scales, statistics: FeatureStatistics) -> Loadings:
        precision = statistics.products / scales.noise + np.diag(self._precision(scales, len(statistics.members)))
        covariance = np.linalg.inv(precision)
        return Loadings(covariance @ self._pulls(scales, statistics), covariance, scales.loading)

    def draw_prior(self, scales: Scales, size: int, rng: np.random.Generator) -> Array:
        return math.sqrt(scales.loading) * rng.standard_normal((size, self.columns.size))

    def log_joint(self, scales: Scales, statistics: FeatureStatistics) -> float:
        """log p(X | Z, scales) + log p(scales)."""
        size, d = statistics.sums.shape
        prior = self._precision(scales, size)
        lower = np.linalg.cholesky(statistics.products / scales.noise + np.diag(prior))
        white = _solved(lower, self._pulls(scales, statistics))
        log_det = 2.0 * np.log(np.diag(lower)).sum() - np.log(prior).sum()
        value = -0.5 * d * (statistics.n_rows * math.log(2.0 * math.pi * scales.noise) + log_det)
        value -= 0.5 * (statistics.square / scales.noise - float(np.sum(white**2)))
        if self.fixed:
            mean, variance = self._base(scales)
            value -= 0.5 * float(mean @ mean) / variance
        for prior_, scale in ((self.noise, scales.noise), (self.loading, scales.loading)):
            value += prior_.log_density(scale) if isinstance(prior_, InverseGamma) else 0.0
        if isinstance(self.intercept, Intercept):
            value += self.intercept.log_density(scales.level, scales.base)
        return float(value)

    # ---- compiled parts

    def spec(self, scales: Scales, loadings: Array, usable: int, dtype: str) -> LinearGaussianSpec:
        A = np.ascontiguousarray(loadings)
        products = A @ A.T / scales.noise
        # mutant: features float32
        safe = dtype == "float32" and self._float32_error(scales, A, products) < FLOAT32_TOLERANCE
        kind = np.float32 if safe else np.float64
        norms = np.ascontiguousarray(np.diag(products)) * scales.noise
        np.fill_diagonal(products, 0.0)
        scaled = A[:usable] / scales.noise
        return LinearGaussianSpec(
            self.centre, A, norms, (scaled.T if usable <= NARROW else scaled).astype(kind).ravel(),
            np.ascontiguousarray(products[:usable], dtype=kind), scales.noise, scales.loading,
        )  # fmt: skip

    def _float32_error(self, scales: Scales, A: Array, products: Array) -> float:
        """Bound of the rounding error (nats) of log odds of 0/1 entries, from the data and from other features.

        Imputed values may lie outside the range of the data: by all features and eight times the noise.
        """
        reach = np.maximum(np.abs(self.columns.low - self.centre), np.abs(self.columns.high - self.centre))
        drawn = np.abs(A).sum(0) + 8.0 * math.sqrt(scales.noise)
        reach = np.where(self.columns.holes > 0, np.maximum(reach, drawn), reach)  # mutant: features float32 holes
        terms = np.abs(A) @ reach / scales.noise + np.abs(products).sum(1)
        return float(np.finfo(np.float32).eps * terms.max(initial=0.0))

    def precision(self, spec: Any) -> np.dtype[Any]:
        kind: np.dtype[Any] = spec.scaled.dtype
        return kind

    def tail(self, scales: Scales, slots: int, lanes: int, spec: Any, private: Array) -> LinearGaussianTail:
        d = self.columns.size
        columns, single = len(spec.loadings) + slots, self.precision(spec).itemsize == 4
        wide = lanes * d + columns * (lanes + d) if single else 0
        V = np.zeros((slots, slots))
        V.ravel()[:: slots + 1] = scales.loading  # np.diag is slow
        return LinearGaussianTail(
            V, np.zeros((slots, d)), np.zeros((slots, slots)), np.zeros((slots, d)), np.empty(d), np.empty(d),
            np.zeros(slots), np.zeros(3), np.zeros(slots), np.empty((2, slots)),
            np.empty(lanes * d, spec.scaled.dtype), np.empty(wide),
        )  # fmt: skip

    def impute(
        self, data: Array, holes: Array, Z: Array, loadings: Array, scales: Scales, key: Any, first: int
    ) -> None:
        impute(data, holes, Z, loadings, self.centre, math.sqrt(scales.noise), key, first)

    # ---- rows

    def mean(self, Z: Array, loadings: Array, scales: Scales) -> Array:
        free = len(loadings) - self.fixed
        return Z @ loadings[:free] + loadings[free:].sum(0) + self.centre

    def log_cells(self, X: Array, mean: Array, scales: Scales) -> Array:
        value: Array = -0.5 * ((X - mean) ** 2 / scales.noise + math.log(2.0 * math.pi * scales.noise))
        return value

    def gains(self, scales: Scales, base: Array, added: Array) -> tuple[Array, Array, Array]:
        return base, added / scales.noise, added**2 / (2.0 * scales.noise)

    def tempered(self, scales: Scales, loadings: Array, power: float) -> tuple[Scales, Array, float]:
        return scales._replace(noise=scales.noise / power), loadings, 1.0

    def with_new(self, scales: Scales, entries: Array, rng: np.random.Generator) -> Scales:
        return scales._replace(noise=scales.noise + float(np.sum(entries**2)) * scales.loading)

    def simulate(self, Z: Array, scales: Scales, rng: np.random.Generator, loadings: Array | None = None) -> Array:
        if loadings is None:
            loadings = self.draw_prior(scales, Z.shape[1], rng)
            if self.fixed:
                mean, variance = self._base(scales)
                loadings = np.vstack([loadings, rng.normal(mean, math.sqrt(variance))])
        mean = self.mean(Z, loadings, scales)
        value: Array = mean + math.sqrt(scales.noise) * rng.standard_normal(mean.shape)
        return value

    def check(self, X: Array) -> None:
        """Any finite rows are possible."""
