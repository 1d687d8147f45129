"""Full-covariance Gaussian with a normal-inverse-Wishart prior (docs/model.md, "Gaussian").

Columns are shifted and scaled to mean 0 and standard deviation 1 before anything else, which the prior follows exactly:
quadratic terms lose no digits to a large mean, and no copy of the data is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, multigammaln

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.contracts import Parallel, in_this_thread
from unbounded.likelihoods.base import Bound, Parameters, positive, reach_of, vector
from unbounded.likelihoods.diagonal_gaussian import BoundDiagonalGaussian
from unbounded.likelihoods.gaussian_compiled import (
    NEGLIGIBLE,
    PRODUCT_COLUMNS,
    STAGED_COLUMNS,
    GaussianSpec,
    GaussianTail,
    Holes,
    Normals,
    PlaneGaussian,
    StagedGaussian,
    draw_holes,
)

BLOCK_CELLS = 2**16  # of the matrices of atoms that are processed together


@dataclass(frozen=True)
class Gaussian:
    """Atoms with any covariance: x ~ N(mu, Sigma), mu ~ N(mean, Sigma / kappa), Sigma ~ IW(dof, scale).

    Parameters
    ----------
    mean : float, array or None, default None
        Prior mean of an atom's centre; None: the column means (of most rows, where a few are far away).
    kappa : float, default 0.05
        How many observations the prior mean is worth.
    dof : float or None, default None
        Degrees of freedom, above D - 1; None: D + 2.
    scale : float, array or None, default None
        The prior scale matrix (D x D), its diagonal, or one number; None: an atom is expected to have half of each
        column's variance.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(ub.Gaussian(kappa=0.1, scale=2.0))
    """

    mean: ArrayLike | None = None
    kappa: float = 0.05
    dof: float | None = None
    scale: ArrayLike | None = None

    name: ClassVar[str] = "gaussian"

    def bind(self, columns: Columns) -> BoundGaussian:
        """The likelihood with its prior scaled to these columns, which it checks.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.Gaussian().bind(describe(np.eye(4))).n_terms  # sums of columns and of their products
        14
        """
        size = columns.size
        spread = columns.spread()
        centre = np.where(np.isfinite(columns.centre), columns.centre, 0.0)
        dof = float(size + 2 if self.dof is None else self.dof)
        if dof <= size - 1:
            raise ValueError(f"Gaussian: dof must be above the number of columns minus one ({size - 1}), got {dof}.")
        if self.scale is None:
            scale = np.diag(np.full(size, 0.5 * max(dof - size - 1, 1.0)))
        else:
            scale = _scale_matrix(self.scale, size) / np.outer(spread, spread)
        mean = np.zeros(size) if self.mean is None else (vector(self.mean, size, "mean") - centre) / spread
        return BoundGaussian(columns, centre, 1.0 / spread, mean, positive(self.kappa, "kappa"), dof, scale)


def _scale_matrix(scale: Any, size: int) -> Array:
    matrix = np.asarray(scale, dtype=float)
    if matrix.ndim < 2:
        matrix = np.diag(vector(matrix, size, "scale"))
    definite = matrix.shape == (size, size) and np.allclose(matrix, matrix.T)
    if not definite or np.linalg.eigvalsh(matrix).min() <= 0:
        raise ValueError(f"Gaussian: scale must be a symmetric positive definite {size} x {size} matrix.")
    return matrix


@dataclass(frozen=True)
class BoundGaussian(Bound):
    columns: Columns
    shift: Array
    inverse_scale: Array
    mean0: Array
    kappa0: float
    dof0: float
    scale0: Array

    @property
    def size(self) -> int:
        return self.columns.size

    @property
    def n_terms(self) -> int:
        return self.size * (self.size + 1) // 2 + self.size

    @property
    def cuts_by_products(self) -> bool:
        return self.size >= PRODUCT_COLUMNS

    @property
    def imputed(self) -> Array:
        return self.columns.index if self.columns.missing else self.columns.index[:0]

    def terms(self, X: Array) -> Array:
        x = (X[:, self.columns.index] - self.shift) * self.inverse_scale
        a, b = self._pairs
        return np.concatenate([x[:, a] * x[:, b], x], axis=1)

    def log_base(self, X: Array) -> Array:
        observed = ~np.isnan(X[:, self.columns.index])
        return observed @ (np.log(self.inverse_scale) - 0.5 * math.log(2 * math.pi))

    @cached_property
    def _pairs(self) -> tuple[Array, Array]:
        return np.triu_indices(self.size)

    @cached_property
    def _lowest(self) -> float:
        return float(np.linalg.eigvalsh(self.scale0)[0])

    @cached_property
    def _log_prior(self) -> float:
        """The part of a marginal that depends on the prior alone."""
        half = 0.5 * self.dof0
        return float(half * np.linalg.slogdet(self.scale0)[1] - multigammaln(half, self.size))

    @cached_property
    def _unpacked(self) -> Array:
        """[d, d]: which of the terms is the product of two columns."""
        a, b = self._pairs
        term = np.empty((self.size, self.size), np.int64)
        term[a, b] = term[b, a] = np.arange(len(a))
        return term

    def _posterior(self, counts: Array, statistics: Array) -> tuple[Array, Array, Array, Array]:
        """(kappa_n, dof_n, mean_n, scale_n) for every atom."""
        kappa = self.kappa0 + counts
        mean = (self.kappa0 * self.mean0 + statistics[:, len(self._pairs[0]) :]) / kappa[:, None]
        pull = np.sqrt(kappa)[:, None] * mean
        scale = np.take(statistics, self._unpacked, axis=1)
        scale += self.scale0 + self.kappa0 * np.outer(self.mean0, self.mean0)
        scale -= pull[:, :, None] * pull[:, None, :]
        return kappa, self.dof0 + counts, mean, _repair(scale, self._lowest)

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        d = self.size
        step = max(1, BLOCK_CELLS // d**2)
        if len(counts) > step:  # a few at a time: their matrices stay in cache
            parts = [slice(i, i + step) for i in range(0, len(counts), step)]
            return np.concatenate([self.log_marginal(counts[part], statistics[part]) for part in parts])
        kappa, dof, _, scale = self._posterior(counts, statistics)
        return (
            multigammaln_rows(dof / 2, d)
            + self._log_prior
            - dof * np.log(np.diagonal(np.linalg.cholesky(scale), axis1=1, axis2=2)).sum(1)
            + 0.5 * d * (math.log(self.kappa0) - np.log(kappa))
            + 0.5 * d * counts * math.log(2.0)
        )

    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        return self.draw_in_parallel(counts, statistics, rng, in_this_thread)

    def draw_in_parallel(
        self, counts: Array, statistics: Array, rng: np.random.Generator, parallel: Parallel
    ) -> Parameters:
        """mu and the Cholesky factor W of the precision, Lambda = W W': Bartlett's decomposition.

        Random numbers are drawn first, so that threads may share the rest without changing a bit.
        """
        k, d = len(counts), self.size
        noise = rng.standard_normal((k, d, d))
        chi = np.sqrt(rng.chisquare((self.dof0 + counts)[:, None] - np.arange(d)))
        jitter = rng.standard_normal((k, d, 1))
        mu, factor, precision, log_det = np.empty((k, d)), np.empty((k, d, d)), np.empty((k, d, d)), np.empty(k)

        def some(atoms: slice) -> None:
            kappa, _, mean, scale = self._posterior(counts[atoms], statistics[atoms])
            lower = np.linalg.cholesky(scale)
            bartlett = np.tril(noise[atoms], -1)
            bartlett[:, np.arange(d), np.arange(d)] = chi[atoms]
            # scale = C C', so inverse(scale) = C^-T C^-1 and Lambda = (C^-T B)(C^-T B)'.
            factor[atoms] = half = np.linalg.solve(np.swapaxes(lower, 1, 2), bartlett)
            # Lambda^-1 = factor^-T factor^-1.
            shift = np.linalg.solve(np.swapaxes(half, 1, 2), jitter[atoms] / np.sqrt(kappa)[:, None, None])
            mu[atoms] = mean + shift[:, :, 0]
            precision[atoms] = half @ np.swapaxes(half, 1, 2)
            log_det[atoms] = np.log(chi[atoms]).sum(1) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)

        self._by_blocks(k, some, parallel)
        return {"mean": mu, "factor": factor, "precision": precision, "log_det": log_det}

    def _by_blocks(self, n_atoms: int, some: Callable[[slice], None], parallel: Parallel) -> None:
        """Process a few atoms at a time, so that their matrices stay in cache."""
        step = max(1, BLOCK_CELLS // self.size**2)
        blocks = [slice(first, first + step) for first in range(0, n_atoms, step)]

        def part(i: int, n: int) -> None:
            for block in blocks[i::n]:
                some(block)

        if len(blocks) > 1:
            parallel(part)
        else:
            part(0, 1)

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        _, dof, mean, scale = self._posterior(counts, statistics)
        lower = np.linalg.cholesky(scale)
        factor = np.swapaxes(np.linalg.inv(lower), 1, 2) * np.sqrt(dof)[:, None, None]
        log_det = 0.5 * self.size * np.log(dof) - np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
        return {"mean": mean, "factor": factor, "precision": factor @ np.swapaxes(factor, 1, 2), "log_det": log_det}

    def coarse(self) -> tuple[Bound, Array]:
        """The diagonal Gaussian with the same expected variances."""
        columns = replace(self.columns, holes=np.zeros_like(self.columns.holes))
        shape = max(0.5 * (self.dof0 - self.size + 1.0), 1.5)
        scale = np.diag(self.scale0) / max(self.dof0 - self.size - 1.0, 1.0) * (shape - 1.0)
        coarse = BoundDiagonalGaussian(columns, self.shift, self.inverse_scale, self.mean0, self.kappa0, shape, scale)
        a, b = self._pairs
        return coarse, np.append(np.flatnonzero(a == b), len(a) + np.arange(self.size))

    @cached_property
    def _doubled(self) -> tuple[Array, Array]:
        """Where the pairs are in a matrix, and how often each of them occurs in a quadratic form, halved."""
        a, b = self._pairs
        return a * self.size + b, np.where(a == b, -0.5, -1.0)

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        mu, precision = parameters["mean"], parameters["precision"]
        where, times = self._doubled
        eta = np.empty((len(mu), self.n_terms))
        quadratic, pull = eta[:, : len(where)], eta[:, len(where) :]
        np.multiply(np.take(precision.reshape(len(mu), precision.shape[1] ** 2), where, axis=1), times, out=quadratic)
        pull[:] = np.matmul(precision, mu[:, :, None])[:, :, 0]
        return parameters["log_det"] - 0.5 * np.einsum("ki,ki->k", pull, mu), eta

    def log_given(self, parameters: Parameters, X: Array) -> Array:
        """The columns of a row that are observed have a normal distribution, too."""
        x = (X[:, self.columns.index] - self.shift) * self.inverse_scale
        out, holes = np.zeros((len(x), len(parameters["mean"]))), np.isnan(x)
        whole = ~holes.any(1)
        out[whole] = super().log_given(parameters, X[whole])
        covariance = np.linalg.inv(parameters["precision"])
        for pattern in np.unique(holes[~whole], axis=0):
            keep, rows = np.flatnonzero(~pattern), np.flatnonzero((holes == pattern).all(1))
            lower = np.linalg.cholesky(covariance[:, keep[:, None], keep])
            apart = x[rows][:, keep][None] - parameters["mean"][:, None, keep]
            white = np.linalg.solve(lower, np.swapaxes(apart, 1, 2))
            log_det = np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
            out[rows] = (-0.5 * (white**2).sum(1) - log_det[:, None]).T
        return out

    def finite(self, eta: Array, parameters: Parameters, log_weights: Array) -> Any:
        if self.size == 2:
            return PlaneGaussian(eta)
        if self.size < STAGED_COLUMNS or not len(eta):
            return eta
        rotation, back = _discriminating(parameters["mean"], parameters["precision"])
        # In rotated coordinates Lambda = T'T with T lower triangular: the Cholesky factor of the reversed matrix.
        factor = np.empty_like(parameters["factor"])

        def some(atoms: slice) -> None:
            half = back.T[::-1] @ parameters["factor"][atoms]
            lower = np.linalg.cholesky(half @ np.swapaxes(half, 1, 2))
            factor[atoms] = np.swapaxes(lower, 1, 2)[:, ::-1, ::-1]

        self._by_blocks(len(eta), some, in_this_thread)
        rotated = parameters["mean"] @ rotation.T
        offset = np.matmul(factor, rotated[:, :, None])[:, :, 0]
        weight = log_weights + parameters["log_det"]
        for j, most in ((self.size // 4, 0.1), (self.size // 2, 0.3)):
            if _open_share(factor, offset, weight, rotated, j) < most:
                parts = (factor, offset, rotation, _lead(factor, offset, weight, j), eta)
                return StagedGaussian._make([*(np.ascontiguousarray(part, dtype=eta.dtype) for part in parts), j])
        return eta

    def float32_error(self, parameters: Parameters) -> float:
        """x' Lambda x cancels to less than its terms, whose sizes count."""
        factor, precision = parameters["factor"], np.abs(parameters["precision"])
        width = np.sqrt(np.einsum("kij,kij->ki", *(2 * [np.linalg.inv(factor).swapaxes(1, 2)])))
        low, high = ((edge - self.shift) * self.inverse_scale for edge in (self.columns.low, self.columns.high))
        reach = reach_of(parameters["mean"], width, low, high)
        terms = np.einsum("ki,kij,kj->k", reach, precision, reach)
        return float(np.finfo(np.float32).eps * terms.max(initial=0.0))

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        noise = rng.standard_normal((len(labels), self.size, 1))
        white = np.linalg.solve(np.swapaxes(parameters["factor"], 1, 2)[labels], noise)[:, :, 0]
        return (parameters["mean"][labels] + white) / self.inverse_scale + self.shift

    @cached_property
    def _factor0(self) -> Array:
        return np.ascontiguousarray(np.linalg.cholesky(self.scale0).T)

    def spec(self, first: int = 0) -> tuple[Any, ...]:
        prior = self.mean0, self.kappa0, self.dof0, self._factor0
        return (GaussianSpec._make([self.columns.index, first, self.shift, self.inverse_scale, *prior]),)

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        d = self.size
        return (
            GaussianTail(
                np.zeros((slots, d, d)), np.zeros((slots, d)), np.zeros(slots), np.zeros(slots),
                np.empty((d, lanes)), np.empty(lanes), np.empty(d),
            ),
        )  # fmt: skip

    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        kappa, dof, mean, scale = self._posterior(counts, statistics)
        (tail,) = self.tail(len(counts), lanes)
        tail.factor[:] = np.swapaxes(np.linalg.cholesky(scale), 1, 2)
        tail.mean[:], tail.n[:] = mean, counts
        d = self.size
        tail.constant[:] = (
            gammaln(0.5 * (dof + 1))
            - gammaln(0.5 * (dof + 1 - d))
            + 0.5 * d * (np.log(kappa / (kappa + 1)) + math.log(2.0))
            - np.log(np.diagonal(tail.factor, axis1=1, axis2=2)).sum(1)
        )
        return (tail,)

    def impute(
        self, data: Array, holes: Array, labels: Array, parameters: Parameters, key: np.uint64, first: int
    ) -> None:
        here = holes[np.isin(holes[:, 1], self.columns.index)]
        if len(here):
            column = np.full(data.shape[1], -1)
            column[self.columns.index] = np.arange(self.size)
            rows, starts = np.unique(here[:, 0], return_index=True)
            found = Holes(rows, np.append(starts, len(here)), column[here[:, 1]])
            draw_holes(
                self.spec()[0], data, found, labels, Normals(parameters["mean"], parameters["precision"]), key, first
            )

    def log_predictive_missing(self, counts: Array, statistics: Array, X: Array) -> Array:
        """Log predictive [K, n] of rows with holes: the marginal of a multivariate t over the observed columns."""
        kappa, dof, mean, scale = self._posterior(counts, statistics)
        x = (X[:, self.columns.index] - self.shift) * self.inverse_scale
        patterns, which = np.unique(np.isnan(x), axis=0, return_inverse=True)
        out = np.zeros((len(counts), len(x)))
        for p, pattern in enumerate(patterns):
            keep = np.flatnonzero(~pattern)
            rows = np.flatnonzero(which.ravel() == p)
            if len(keep):
                freedom = dof - self.size + 1
                spread = scale[:, keep[:, None], keep] * ((kappa + 1) / kappa)[:, None, None]
                out[:, rows] = _student(x[rows][:, keep], mean[:, keep], spread, freedom)
        return out


def _student(x: Array, mean: Array, scatter: Array, freedom: Array) -> Array:
    """Log density [K, n] of t_freedom(mean, scatter / freedom), without the (2 pi)^(-d/2) that all atoms share."""
    d = x.shape[1]
    factor = np.linalg.cholesky(scatter)
    white = np.linalg.solve(factor, np.swapaxes(x[None] - mean[:, None], 1, 2))
    log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(1)
    constant = gammaln(0.5 * (freedom + d)) - gammaln(0.5 * freedom) - log_det + 0.5 * d * math.log(2.0)
    return constant[:, None] - 0.5 * (freedom + d)[:, None] * np.log1p((white**2).sum(1))


def _discriminating(means: Array, precision: Array) -> tuple[Array, Array]:
    """A change of coordinates (and its inverse) whose first ones have most of the spread between atoms.

    As in linear discriminants: whiten by the average precision, then turn to the principal axes of the means.
    """
    whiten = np.linalg.cholesky(precision.mean(0)).T
    gaps = (means - means.mean(0)) @ whiten.T
    axes = np.linalg.eigh(gaps.T @ gaps)[1][:, ::-1]
    return axes.T @ whiten, np.linalg.solve(whiten, axes)


def _open_share(factor: Array, offset: Array, weight: Array, means: Array, j: int) -> float:
    """Share of atoms that j coordinates would leave open for rows of an atom, averaged over (some) atoms.

    The form of a row is a noncentral chi-square around the gap between means; rows 1.5 standard deviations out count.
    """
    d, k = factor.shape[1], min(len(means), 100)
    gap = ((factor[:, :j, :j] @ means[:k, :j].T - offset[:, :j, None]) ** 2).sum(1).T
    bound = weight - 0.5 * (gap + j) + 1.5 * np.sqrt(gap + 0.5 * j)
    return float((bound >= (weight[:k] - 0.5 * d - NEGLIGIBLE)[:, None]).mean())


def _lead(factor: Array, offset: Array, weight: Array, j: int) -> Array:
    """Natural parameters of the bound by the first j coordinates: weight - |factor x - offset|^2 / 2 over those."""
    top = factor[:, :j, :j]
    precision = np.swapaxes(top, 1, 2) @ top
    a, b = np.triu_indices(j)
    quadratic = np.where(a == b, -0.5, -1.0) * precision[:, a, b]
    linear = np.matmul(offset[:, None, :j], top)[:, 0]
    constant = weight - 0.5 * (offset[:, :j] ** 2).sum(1)
    return np.concatenate([quadratic, linear, constant[:, None]], axis=1)


def multigammaln_rows(a: Array, d: int) -> Array:
    return gammaln(a[:, None] - 0.5 * np.arange(d)).sum(1) + 0.25 * d * (d - 1) * math.log(math.pi)


def _repair(matrices: Array, lowest: float) -> Array:
    """Symmetric matrices, with eigenvalues that rounding pushed below the lowest one of the prior's part lifted."""
    scale = np.trace(matrices, axis1=1, axis2=2)
    suspicious = np.flatnonzero(scale * 1e-10 > lowest)
    for k in suspicious:
        values, vectors = np.linalg.eigh(matrices[k])
        if values[0] < 0.5 * lowest:
            matrices[k] = (vectors * np.maximum(values, lowest)) @ vectors.T
    return matrices
