"""One small example per likelihood and per measure of features, with textbook formulas that share no code.

A new member needs an entry here, or the conformance tests fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats
from stable_beta import StableBeta

from unbounded.columns import describe
from unbounded.models.features.beta_bernoulli import BetaBernoulli
from unbounded.models.features.beta_negative_binomial import BetaNegativeBinomial
from unbounded.models.features.gamma_poisson import GammaPoisson
from unbounded.models.features.likelihood import FeatureStatistics
from unbounded.models.features.linear_gaussian import LinearGaussian, Scales
from unbounded.models.features.poisson_factors import Background, PoissonFactors
from unbounded.priors import Gamma

Array = np.ndarray
_rng = np.random.default_rng(11)
Z = (_rng.random((18, 2)) < 0.5).astype(np.int64)
Z[0] = 1


@dataclass(frozen=True)
class FeatureExample:
    """Rows X with entries Z, scales, loadings; and what theory says of them."""

    likelihood: Any
    X: Array
    scales: Any
    loadings: Array  # always-on ones last
    statistics: Callable[[Any, Array, Array], FeatureStatistics]  # (bound, X, Z), always-on columns included
    log_given: Callable[[Any, FeatureStatistics, Array, Any], float]  # log density given loadings, as in log_joint
    variance: Callable[[Array, Any], Array]  # of cells with these expectations
    always: tuple[float, float] = (0.0, 0.0)  # mean and standard deviation of the intercept
    log_scales: Callable[[Any], float] = lambda bound: 0.0  # log density of the scales, as log_joint counts it

    @cached_property
    def bound(self) -> Any:
        return self.likelihood.bind(describe(self.X))


# ---- linear Gaussian


def _gaussian_statistics(bound: Any, X: Array, Z: Array) -> FeatureStatistics:
    z = np.hstack([Z, np.ones((len(Z), bound.fixed))])
    x = X - bound.centre
    return FeatureStatistics(z.sum(0), z.T @ z, z.T @ x, np.zeros(X.shape[1]), float((x**2).sum()), len(X))


def _gaussian_given(bound: Any, s: FeatureStatistics, loadings: Array, scales: Scales) -> float:
    """From the statistics: |X - Z A|^2 = |X|^2 - 2 A.Z'X + A.(Z'Z A)."""
    square = s.square - 2.0 * np.sum(loadings * s.sums) + np.sum(loadings * (s.products @ loadings))
    return float(-0.5 * square / scales.noise - 0.5 * s.n_rows * loadings.shape[1] * np.log(2 * np.pi * scales.noise))


_A = np.array([[1.0, -0.6, 0.3], [0.5, 0.8, -0.4]])
_REAL = Z @ _A + 0.6 * _rng.normal(size=(18, 3))


_LEVEL, _BASE = 0.4, 1.21


def _log_level(bound: Any) -> float:
    """A level and a variance of the intercept, each by its own prior."""
    prior = bound.intercept
    variance = stats.invgamma.logpdf(_BASE, prior.base.shape, scale=prior.base.scale)
    return float(stats.norm.logpdf(_LEVEL, 0.0, prior.wide) + variance)


def _gaussian(intercept: float | bool) -> FeatureExample:
    loadings = np.vstack([_A, [[0.3, -0.2, 0.1]]]) if intercept else _A
    sampled = intercept is True
    scales = Scales(0.49, 0.81, _LEVEL, _BASE) if sampled else Scales(0.49, 0.81)
    return FeatureExample(
        LinearGaussian(noise=0.7, loading=0.9, intercept=intercept), _REAL, scales, loadings,
        _gaussian_statistics, _gaussian_given, lambda mean, scales: np.full_like(mean, scales.noise),
        (_LEVEL, _BASE**0.5) if sampled else (0.0, float(intercept)), *([_log_level] if sampled else []),
    )  # fmt: skip


# ---- Poisson factors


def _poisson_statistics(bound: Any, X: Array, Z: Array) -> FeatureStatistics:
    """Counts split over a row's atoms as evenly as it goes, the rest to the background."""
    sums, rest = np.zeros((Z.shape[1], X.shape[1])), np.zeros(X.shape[1])
    for x, z in zip(X, Z, strict=True):
        used = np.flatnonzero(z)
        if len(used):
            sums[used] += x // len(used)
        rest += x - (len(used) * (x // len(used)) if len(used) else 0)
    return FeatureStatistics(Z.sum(0), np.zeros((Z.shape[1], 0)), sums, rest, 0.0, len(X))


def _poisson_given(bound: Any, s: FeatureStatistics, loadings: Array, scales: Background) -> float:
    atoms = s.sums * np.log(loadings) - s.members[:, None] * loadings
    return float(atoms.sum() + (s.rest * np.log(scales.background) - s.n_rows * scales.background).sum())


_THETA = np.array([[2.0, 0.3, 1.0], [0.4, 1.5, 0.8]])
_BACKGROUND = np.array([0.5, 0.8, 0.3])

LIKELIHOOD_EXAMPLES = {
    "linear_gaussian": _gaussian(True),
    "linear_gaussian-around-zero": _gaussian(1.1),
    "linear_gaussian_at_zero": _gaussian(False),
    "poisson_factors": FeatureExample(
        PoissonFactors(shape=1.5, rate=1.2, background=_BACKGROUND),
        _rng.poisson(Z @ _THETA + _BACKGROUND).astype(float), Background(_BACKGROUND), _THETA, _poisson_statistics,
        _poisson_given, lambda mean, scales: mean,
    ),
}  # fmt: skip


# ---- measures


@dataclass(frozen=True)
class MeasureExample:
    """A measure with priors on its hyper-parameters."""

    measure: Any
    largest: int  # entries that matter
    entry: Callable[[float], Any]  # the law of an entry of an atom whose weight, as kernels take it, is this


_PRIORS = Gamma(6.0, 3.0), Gamma(30.0, 6.0)  # not near 0, where counts have heavy tails

MEASURE_EXAMPLES = {
    BetaBernoulli: MeasureExample(BetaBernoulli(*_PRIORS), 1, lambda w: stats.bernoulli(1.0 / (1.0 + np.exp(-w)))),
    GammaPoisson: MeasureExample(GammaPoisson(*_PRIORS), 40, lambda w: stats.poisson(np.exp(w))),
    BetaNegativeBinomial: MeasureExample(
        BetaNegativeBinomial(*_PRIORS, failures=0.8), 80, lambda w: stats.nbinom(0.8, -np.expm1(w))
    ),
    StableBeta: MeasureExample(StableBeta(*_PRIORS), 1, lambda w: stats.bernoulli(1.0 / (1.0 + np.exp(-w)))),
}
