"""What likelihoods share: the summary of the columns they are bound to, and the contract of a bound likelihood."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.columns import Columns
from unbounded.contracts import Parallel

Parameters = Arrays
WIDTHS = 4.0  # standard deviations from the mean of an atom within which its rows are expected


class Bound(ABC):
    """A likelihood with its prior, bound to columns: an exponential family with a conjugate prior.

    Everything about an atom is its count m and its statistics s, the sum of its rows' terms; both add and subtract.
    Arrays over atoms have the atom first: counts [K], statistics [K, F].
    """

    columns: Columns

    @property
    @abstractmethod
    def n_terms(self) -> int:
        """F, the length of an atom's statistics."""

    @property
    def imputed(self) -> Array:
        """The columns whose holes are part of the chain's state (those of others are skipped, which is exact)."""
        return np.empty(0, np.int64)

    @abstractmethod
    def terms(self, X: Array) -> Array:
        """[n, F]: the terms of rows (NumPy, for reference and small data)."""

    @abstractmethod
    def log_base(self, X: Array) -> Array:
        """[n]: the part of log f(x | atom) that is the same for all atoms; kernels leave it out."""

    @abstractmethod
    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        """[K]: log of the integral over the parameters of the product of f(x_i | theta), without log_base."""

    def log_evidence(self, counts: Array, statistics: Array) -> float:
        """The log marginal of all atoms together."""
        return float(self.log_marginal(counts, statistics).sum())

    def merge_gains(self, counts: Array, statistics: Array, i: Array, j: Array) -> Array:
        """Log marginals gained when atoms i and j become one, for every pair of them."""
        alone = self.log_marginal(counts, statistics)
        return self.log_marginal(counts[i] + counts[j], statistics[i] + statistics[j]) - alone[i] - alone[j]

    @abstractmethod
    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        """One draw of every atom's parameters given its members."""

    def draw_in_parallel(
        self, counts: Array, statistics: Array, rng: np.random.Generator, parallel: Parallel
    ) -> Parameters:
        """The same draw, to the bit, by several threads: for likelihoods whose draws take long."""
        return self.draw(counts, statistics, rng)

    @abstractmethod
    def centre(self, counts: Array, statistics: Array) -> Parameters:
        """The centre of what `draw` samples from; counts need not be whole."""

    def coarse(self) -> tuple[Bound, Array]:
        """For first guesses: a likelihood with only a few terms for each column, and which of the terms these are."""
        return self, np.arange(self.n_terms)

    @abstractmethod
    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        """(bias [K], eta [K, F]) with log f(x | k) = bias_k + eta_k . terms(x) + log_base(x)."""

    def log_given(self, parameters: Parameters, X: Any) -> Array:
        """[n, K]: log densities of the observed cells of rows given the parameters of atoms, without log_base."""
        bias, eta = self.natural(parameters)
        return np.asarray(self.terms(X) @ eta.T + bias)

    def finite(self, eta: Array, parameters: Parameters, log_weights: Array) -> Any:
        """What `logits` takes: natural parameters with weights, as they are or in a form that is quicker to use."""
        return eta

    @property
    def cuts_by_products(self) -> bool:
        """Whether sets of rows are cut by products of matrices, without writing all terms."""
        return False

    @abstractmethod
    def spec(self, first: int = 0) -> tuple[Any, ...]:
        """The compiled description; terms start at row `first` of a block."""

    @abstractmethod
    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        """Room for the collapsed state of `slots` atoms."""

    @abstractmethod
    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        """The collapsed state of atoms with these statistics, one slot each."""

    @abstractmethod
    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        """[n, columns]: one row from the atom of each label."""

    def with_holes(self, counts: Array, statistics: Array) -> tuple[Bound, Array]:
        """The same likelihood and statistics, ready for new rows with holes when those it was bound to had none."""
        if self.columns.missing:
            return self, statistics
        columns = replace(self.columns, holes=np.ones_like(self.columns.holes))
        able: Bound = replace(self, columns=columns)  # type: ignore[type-var]
        added = able.n_terms - self.n_terms
        return able, np.concatenate([statistics, np.repeat(counts[:, None], added, axis=1)], axis=1)

    def check(self, X: Any) -> None:
        """Refuse new rows that the likelihood cannot have produced."""

    def float32_error(self, parameters: Parameters) -> float:
        """A bound, in nats, on the rounding error of a log likelihood in single precision: for any row that may well
        belong to the atom."""
        bias, eta = self.natural(parameters)
        reach = np.maximum(np.abs(self.columns.low), np.abs(self.columns.high)).max(initial=1.0)
        return float(np.finfo(np.float32).eps * (np.abs(bias) + np.abs(eta).sum(1) * reach).max(initial=0.0))

    def impute(
        self, data: Array, holes: Array, labels: Array, parameters: Parameters, key: np.uint64, first: int
    ) -> None:
        """Redraw the values of the holes (row, column) of `data` given each row's atom."""

    def log_predictive_missing(self, counts: Array, statistics: Array, X: Array) -> Array:
        """[K, n]: log predictive, without log_base, of rows whose holes `evaluate` cannot skip."""
        raise TypeError("this likelihood skips holes in its compiled code")

    def log_predictive(self, counts: Array, statistics: Array, X: Array) -> Array:
        """[K, n]: log predictive without log_base, as a ratio of marginals: slow and obvious."""
        terms = self.terms(X)
        together = np.stack([self.log_marginal(counts + 1, statistics + f) for f in terms], axis=1)
        return together - self.log_marginal(counts, statistics)[:, None]


def reach_of(mean: Array, width: Array, low: Array, high: Array) -> Array:
    """[K, D]: how far from the origin rows of an atom may be in each column, a few standard deviations beyond its mean.
    Where the data go further than all atoms do, all of it is larger in proportion: some atom has those rows.
    """
    reach: Array = np.abs(mean) + WIDTHS * width
    farthest = np.maximum(np.abs(low), np.abs(high)) / reach.max(0, initial=1e-300)
    return reach * farthest.max(initial=1.0)  # mutant: float32 reach


def vector(value: Any, size: int, name: str) -> Array:
    array = np.asarray(value, dtype=float)
    if array.ndim > 1 or array.size not in (1, size):
        raise ValueError(f"{name} must be one number or {size} numbers, got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite.")
    return np.broadcast_to(array, size).copy()


def positive(value: Any, name: str, size: int | None = None) -> Any:
    array = np.asarray(value, dtype=float) if size is None else vector(value, size, name)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"{name} must be positive and finite, got {value}.")
    return float(array) if size is None else array
