"""One small example per likelihood: rows, a prior in the user's own units, and textbook formulas that share no code.

A new likelihood needs an entry in EXAMPLES, or the conformance tests fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, stats

from unbounded.columns import describe
from unbounded.likelihoods import (
    Bernoulli,
    Bound,
    Categorical,
    DiagonalGaussian,
    Gaussian,
    Multinomial,
    Poisson,
    Product,
)

Array = np.ndarray
_rng = np.random.default_rng(20240607)


@dataclass(frozen=True)
class Example:
    """Rows and a likelihood, with what theory says about it."""

    likelihood: Any
    X: Any
    log_density: Callable[[Bound, dict[str, Array], int, Array], Array]  # of rows given the parameters of atom k
    moments: Callable[[Bound, dict[str, Array]], tuple[Array, Array]]  # mean and variance of a row, each [K, columns]
    posterior_mean: Callable[[Any, Array], dict[str, Array]]  # of some parameters, given complete rows
    grid: tuple[Array, Array] | None  # values that column 0 may take, and their weights in a sum (or an integral)


def holed(X: Array, share: float = 0.2) -> Array:
    """The same rows with holes; the first row stays whole and no column is empty."""
    holes = np.random.default_rng(3).random(X.shape) < share
    holes[0] = False
    return np.where(holes, np.nan, X)


def filled(X: Array, columns: Array) -> Array:
    """Rows as the kernels see them when a likelihood imputes some columns: a number in each of their holes."""
    out = X.copy()
    out[:, columns] = np.where(np.isnan(X), np.nanmean(X, axis=0), X)[:, columns]
    return out


# ---- Gaussian


def _gaussian_law(bound: Any, parameters: dict[str, Array]) -> tuple[Array, Array]:
    """Means and covariances in the units of the data."""
    precision = parameters["factor"] @ np.swapaxes(parameters["factor"], 1, 2)
    spread = 1.0 / bound.inverse_scale
    return parameters["mean"] * spread + bound.shift, np.linalg.inv(precision) * np.outer(spread, spread)


def _gaussian_moments(bound: Any, parameters: dict[str, Array]) -> tuple[Array, Array]:
    means, covariances = _gaussian_law(bound, parameters)
    return means, np.diagonal(covariances, axis1=1, axis2=2)


def _gaussian_log_density(bound: Any, parameters: dict[str, Array], k: int, X: Array) -> Array:
    means, covariances = _gaussian_law(bound, parameters)
    return stats.multivariate_normal(means[k], covariances[k]).logpdf(X)


def _gaussian_posterior(prior: Gaussian, X: Array) -> dict[str, Array]:
    n, d = X.shape
    mean0, scale0 = np.broadcast_to(prior.mean, d), np.asarray(prior.scale)
    mean = (prior.kappa * mean0 + X.sum(0)) / (prior.kappa + n)
    gap = X.mean(0) - mean0
    scatter = (X - X.mean(0)).T @ (X - X.mean(0))
    scale = scale0 + scatter + prior.kappa * n / (prior.kappa + n) * np.outer(gap, gap)
    return {"mean": mean, "precision": (prior.dof + n) * np.linalg.inv(scale)}


# ---- diagonal Gaussian


def _diagonal_log_density(bound: Any, parameters: dict[str, Array], k: int, X: Array) -> Array:
    spread = 1.0 / bound.inverse_scale
    mean, sd = parameters["mean"][k] * spread + bound.shift, np.sqrt(parameters["variance"][k]) * spread
    return np.nansum(stats.norm(mean, sd).logpdf(X), axis=1)


def _diagonal_moments(bound: Any, parameters: dict[str, Array]) -> tuple[Array, Array]:
    return parameters["mean"] / bound.inverse_scale + bound.shift, parameters["variance"] / bound.inverse_scale**2


def _diagonal_posterior(prior: DiagonalGaussian, X: Array) -> dict[str, Array]:
    n = len(X)
    mean = (prior.kappa * np.asarray(prior.mean) + X.sum(0)) / (prior.kappa + n)
    gap = X.mean(0) - np.asarray(prior.mean)
    scale = np.asarray(prior.scale) + 0.5 * n * X.var(0) + 0.5 * prior.kappa * n / (prior.kappa + n) * gap**2
    return {"mean": mean, "variance": scale / (prior.shape + 0.5 * n - 1.0)}


# ---- columns of 0 and 1, codes, counts


def _bernoulli_log_density(bound: Any, parameters: dict[str, Array], k: int, X: Array) -> Array:
    share = np.broadcast_to(parameters["share"][k], X.shape)
    return np.where(np.isnan(X), 0.0, stats.bernoulli(share).logpmf(np.nan_to_num(X))).sum(1)


def _categorical_log_density(bound: Any, parameters: dict[str, Array], k: int, X: Array) -> Array:
    out = np.zeros(len(X))
    for column, start in enumerate(bound.starts):
        seen = ~np.isnan(X[:, column])
        out[seen] += np.log(parameters["share"][k, start + X[seen, column].astype(int)])
    return out


def _categorical_posterior(prior: Categorical, X: Array) -> dict[str, Array]:
    shares = []
    for column, levels in enumerate(prior.levels):
        count = np.bincount(X[:, column].astype(int), minlength=levels)
        shares.append((prior.concentration / levels + count) / (prior.concentration + len(X)))
    return {"share": np.concatenate(shares)}


def _poisson_log_density(bound: Any, parameters: dict[str, Array], k: int, X: Array) -> Array:
    rate = np.broadcast_to(parameters["rate"][k], X.shape)
    return np.where(np.isnan(X), 0.0, stats.poisson(rate).logpmf(np.nan_to_num(X))).sum(1)


def _multinomial_log_density(bound: Any, parameters: dict[str, Array], k: int, X: Any) -> Array:
    x = np.asarray(X.todense() if sparse.issparse(X) else X)
    return stats.multinomial.logpmf(x, x.sum(1).astype(int), parameters["share"][k])


def _multinomial_moments(bound: Any, parameters: dict[str, Array]) -> tuple[Array, Array]:
    """Simulated rows have the average total of the data."""
    total, share = max(1, round(bound.columns.mean.sum())), parameters["share"]
    return total * share, total * share * (1.0 - share)


def _multinomial_posterior(prior: Multinomial, X: Any) -> dict[str, Array]:
    centre = np.asarray(prior.centre) / np.sum(prior.centre)
    total = np.asarray(X.sum(0)).ravel()
    return {"share": (prior.concentration * centre + total) / (prior.concentration + total.sum())}


# ---- a mixed table


def _parts(bound: Any, parameters: dict[str, Array]) -> list[tuple[str, Any, dict[str, Array]]]:
    names = ("gaussian", "categorical", "bernoulli")
    own = [{name[2:]: v for name, v in parameters.items() if name.startswith(f"{i}/")} for i in range(len(names))]
    return list(zip(names, bound.parts, own, strict=True))


def _product_log_density(bound: Any, parameters: dict[str, Array], k: int, X: Array) -> Array:
    terms = [
        EXAMPLES[name].log_density(part, own, k, X[:, part.columns.index])
        for name, part, own in _parts(bound, parameters)
    ]
    return np.sum(terms, axis=0)


def _product_moments(bound: Any, parameters: dict[str, Array]) -> tuple[Array, Array]:
    out = np.empty((2, len(parameters["1/share"]), bound.columns.size))
    for name, part, own in _parts(bound, parameters):
        out[:, :, part.columns.index] = EXAMPLES[name].moments(part, own)
    return out[0], out[1]


def _product_posterior(prior: Product, X: Array) -> dict[str, Array]:
    out: dict[str, Array] = {}
    for i, (likelihood, columns) in enumerate(prior.parts):
        found = EXAMPLES[likelihood.name].posterior_mean(likelihood, X[:, columns])
        out |= {f"{i}/{name}": value for name, value in found.items()}
    return out


def _categorical_moments(bound: Any, parameters: dict[str, Array]) -> tuple[Array, Array]:
    columns = list(zip(bound.starts, bound.levels, strict=True))
    first, second = (
        np.stack([parameters["share"][:, s : s + levels] @ np.arange(levels) ** power for s, levels in columns], axis=1)
        for power in (1, 2)
    )
    return first, second - first**2


def _interval(low: float, high: float, cells: int = 4000) -> tuple[Array, Array]:
    """Midpoints and widths."""
    edges = np.linspace(low, high, cells + 1)
    return 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)


_N = 36
_LABEL = np.arange(_N) % 3
_plane = np.array([[40.0, -3.0], [52.0, -2.0], [46.0, 0.5]])[_LABEL] + _rng.normal(size=(_N, 2)) * [3.0, 0.4]
_wide = _rng.normal(size=(_N, 5)) @ _rng.normal(size=(5, 5)) + 7.0
_bits = (_rng.random((_N, 4)) < np.array([[0.9, 0.8, 0.2, 0.5], [0.2, 0.3, 0.9, 0.5], [0.5] * 4])[_LABEL]).astype(float)
_codes = np.stack([_rng.integers(0, 3, _N), (_rng.integers(0, 2, _N) + _LABEL) % 4], axis=1).astype(float)
_counts = _rng.poisson(np.array([[1.0, 6.0], [4.0, 0.5], [9.0, 3.0]])[_LABEL]).astype(float)
_words = _rng.multinomial(8, np.array([[0.6, 0.2, 0.1, 0.1, 0.0], [0.1, 0.1, 0.2, 0.2, 0.4], [0.2] * 5])[_LABEL])
_words[5] = 0  # a row without words
_mixed = np.column_stack([_plane[:, 0], _bits[:, 0], _plane[:, 1], _codes[:, 0]])

_GAUSSIAN = Gaussian(mean=[45.0, -2.0], kappa=0.5, dof=5.0, scale=[[20.0, 0.6], [0.6, 0.5]])

EXAMPLES: dict[str, Example] = {
    "gaussian": Example(
        _GAUSSIAN,
        _plane,
        _gaussian_log_density,
        _gaussian_moments,
        _gaussian_posterior,
        _interval(-400.0, 500.0, 20000),
    ),
    "diagonal_gaussian": Example(
        DiagonalGaussian(mean=[45.0, -2.0], kappa=0.5, shape=2.5, scale=[12.0, 0.4]),
        _plane,
        _diagonal_log_density,
        _diagonal_moments,
        _diagonal_posterior,
        _interval(-400.0, 500.0, 20000),
    ),
    "bernoulli": Example(
        Bernoulli(yes=[0.8, 0.6, 1.0, 0.5], no=[0.7, 0.9, 0.5, 0.6]),
        _bits,
        _bernoulli_log_density,
        lambda bound, parameters: (parameters["share"], parameters["share"] * (1.0 - parameters["share"])),
        lambda prior, X: {"share": (prior.yes + X.sum(0)) / (np.add(prior.yes, prior.no) + len(X))},
        (np.array([0.0, 1.0]), np.ones(2)),
    ),
    "categorical": Example(
        Categorical(concentration=1.5, levels=[3, 4]),
        _codes,
        _categorical_log_density,
        _categorical_moments,
        _categorical_posterior,
        (np.arange(3.0), np.ones(3)),
    ),
    "multinomial": Example(
        Multinomial(concentration=2.5, centre=[3, 2, 2, 2, 1]),
        _words.astype(float),
        _multinomial_log_density,
        _multinomial_moments,
        _multinomial_posterior,
        None,
    ),
    "poisson": Example(
        Poisson(shape=[0.8, 1.3], mean=[4.0, 3.0]),
        _counts,
        _poisson_log_density,
        lambda bound, parameters: (parameters["rate"], parameters["rate"]),
        lambda prior, X: {"rate": (prior.shape + X.sum(0)) / (np.divide(prior.shape, prior.mean) + len(X))},
        (np.arange(400.0), np.ones(400)),
    ),
}

# Shapes and combinations that are not members of their own.
MORE: dict[str, Example] = {
    "gaussian-wide": Example(
        Gaussian(mean=7.0, kappa=0.5, dof=8.0, scale=5.0 * np.eye(5)),
        _wide,
        _gaussian_log_density,
        _gaussian_moments,
        _gaussian_posterior,
        _interval(-200.0, 220.0, 20000),
    ),
    "multinomial-csr": Example(
        EXAMPLES["multinomial"].likelihood,
        sparse.csr_matrix(_words.astype(float)),
        _multinomial_log_density,
        _multinomial_moments,
        _multinomial_posterior,
        None,
    ),
    "product": Example(
        Product((_GAUSSIAN, [0, 2]), (Categorical(1.5, levels=[3]), [3]), (Bernoulli(yes=0.8, no=0.7), [1])),
        _mixed,
        _product_log_density,
        _product_moments,
        _product_posterior,
        _interval(-400.0, 500.0, 20000),
    ),
}


@dataclass(frozen=True)
class Case:
    """An example with or without holes, and its likelihood bound to those rows."""

    example: Example
    X: Any
    bound: Bound

    @property
    def rows(self) -> Any:
        """Rows as the kernels see them."""
        return filled(self.X, self.bound.imputed) if self.bound.imputed.size else self.X

    def take(self, rows: Any) -> Any:
        return self.rows[rows]

    def statistics(self, rows: Any) -> Array:
        return self.bound.terms(self.take(rows)).sum(0)


def case(name: str) -> Case:
    base = name.removesuffix("-holes")
    example = (EXAMPLES | MORE)[base]
    X = holed(example.X) if name.endswith("-holes") else example.X
    return Case(example, X, example.likelihood.bind(describe(X)))
