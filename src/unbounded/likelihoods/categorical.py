"""Independent categorical columns with Dirichlet priors (docs/model.md, "Categorical"). Holes are skipped, exactly.

A column holds the codes 0 .. levels-1. Terms: 1 at (column, code), that is, one term for each level of each column.
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
from unbounded.likelihoods.base import Bound, Parameters, positive, vector
from unbounded.likelihoods.operations import accumulate, clear, copy_row, evaluate, screen, update, write_terms

MOST_LEVELS = 1_000_000


@dataclass(frozen=True)
class Categorical:
    """Columns of codes 0, 1, 2, ...: x_d ~ Categorical(p), p ~ Dirichlet(concentration / levels, ...).

    Strings and categories of pandas are given codes by the estimator, which keeps what they stand for (`categories_`).

    Parameters
    ----------
    concentration : float, array or None, default None
        Total over a column's levels; None: the number of levels (the uniform Dirichlet).
    levels : int, array or None, default None
        Number of levels per column, when the data may lack some; None: the highest code plus one.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(ub.Categorical(concentration=0.5, levels=[3, 4]))  # of two columns
    """

    concentration: ArrayLike | None = None
    levels: ArrayLike | None = None

    name: ClassVar[str] = "categorical"

    def bind(self, columns: Columns) -> BoundCategorical:
        """The likelihood with its prior fitted to these columns, which it checks.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.Categorical().bind(describe(np.array([[0.0], [2.0], [1.0]]))).n_terms  # one for each category
        3
        """
        wrong = (columns.low < 0) | ~columns.whole
        if wrong.any():
            raise ValueError(
                f"Categorical: column {columns.index[wrong][0]} has values that are not codes 0, 1, 2, ..."
            )
        many = columns.high >= MOST_LEVELS
        if many.any():
            raise ValueError(
                f"Categorical: column {columns.index[many][0]} has codes beyond {MOST_LEVELS:,}; recode it."
            )
        found = np.maximum(columns.high, 0).astype(np.int64) + 1
        levels = found if self.levels is None else vector(self.levels, columns.size, "levels").astype(np.int64)
        if (levels < found).any():
            raise ValueError(f"Categorical: column {columns.index[levels < found][0]} has codes beyond its levels.")
        total = levels.astype(float)
        if self.concentration is not None:
            total = positive(self.concentration, "concentration", columns.size)
        return BoundCategorical(columns, levels, np.repeat(total / levels, levels))


@dataclass(frozen=True)
class BoundCategorical(Bound):
    columns: Columns
    levels: Array
    prior: Array

    @property
    def n_terms(self) -> int:
        return int(self.levels.sum())

    @property
    def starts(self) -> Array:
        return np.concatenate([[0], np.cumsum(self.levels)[:-1]]).astype(np.int64)

    def check(self, X: Array) -> None:
        beyond = np.nanmax(X[:, self.columns.index], axis=0, initial=-1) >= self.levels
        if beyond.any():
            raise ValueError(f"Categorical: column {self.columns.index[beyond][0]} has codes that fit never saw.")

    def terms(self, X: Array) -> Array:
        x = X[:, self.columns.index]
        out = np.zeros((len(x), self.n_terms))
        row, column = np.nonzero(~np.isnan(x))
        out[row, self.starts[column] + x[row, column].astype(np.int64)] = 1.0
        return out

    def log_base(self, X: Array) -> Array:
        return np.zeros(len(X))

    def _by_column(self, values: Array) -> Array:
        return np.add.reduceat(values, self.starts, axis=-1)

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        posterior = self.prior + statistics
        cells = (gammaln(posterior) - gammaln(self.prior)).sum(1)
        return cells + (gammaln(self._by_column(self.prior)) - gammaln(self._by_column(posterior))).sum(1)

    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        gamma = np.maximum(rng.standard_gamma(self.prior + statistics), 1e-300)
        return {"share": gamma / np.repeat(self._by_column(gamma), self.levels, axis=1)}  # mutant: categorical shares

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        posterior = self.prior + statistics
        return {"share": posterior / np.repeat(self._by_column(posterior), self.levels, axis=1)}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        return np.zeros(len(parameters["share"])), np.log(parameters["share"])

    def float32_error(self, parameters: Parameters) -> float:
        terms = np.maximum.reduceat(-np.log(parameters["share"]), self.starts, axis=1).sum(1)
        return float(np.finfo(np.float32).eps * terms.max(initial=0.0))

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        out = np.empty((len(labels), self.columns.size))
        for j, (start, levels) in enumerate(zip(self.starts, self.levels, strict=True)):
            edges = np.cumsum(parameters["share"][labels, start : start + levels], axis=1)[:, :-1]
            out[:, j] = (rng.random((len(labels), 1)) > edges).sum(1)
        return out

    def spec(self, first: int = 0) -> tuple[Any, ...]:
        return (CategoricalSpec(self.columns.index, first, self.starts, self.levels, self.prior),)

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        return (CategoricalTail(np.zeros((slots, self.n_terms)), np.zeros((slots, self.n_terms))),)

    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        (tail,) = self.tail(len(counts), lanes)
        (spec,) = self.spec()
        tail.weight[:] = self.prior + statistics
        for slot in range(len(counts)):
            for j in range(self.columns.size):
                _set_column(spec, tail, slot, j)
        return (tail,)


class CategoricalSpec(NamedTuple):
    columns: Array
    first: int
    starts: Array
    levels: Array
    prior: Array


class CategoricalTail(NamedTuple):
    weight: Array
    log_share: Array


@implements(write_terms, CategoricalSpec)
def _write_terms(spec, block):
    data, start, size, terms = block.data, block.start, block.size, block.terms
    for j in range(spec.columns.size):
        c = spec.columns[j]
        f = spec.first + spec.starts[j]
        for level in range(spec.levels[j]):
            for r in range(terms.shape[1]):
                terms[f + level, r] = 0
        for r in range(size):
            x = data[start + r, c]
            if not np.isnan(x):
                terms[f + np.int64(x), r] = 1


@implements(accumulate, CategoricalSpec)
def _accumulate(spec, data, rows, statistics):
    for i in range(rows.size):
        for j in range(spec.columns.size):
            x = data[rows[i], spec.columns[j]]
            if not np.isnan(x):
                statistics[spec.first + spec.starts[j] + np.int64(x)] += 1.0


@jit
def _set_column(spec, tail, slot, j):
    begin, end = spec.starts[j], spec.starts[j] + spec.levels[j]
    total = 0.0
    for f in range(begin, end):
        total += tail.weight[slot, f]
    for f in range(begin, end):
        tail.log_share[slot, f] = math.log(tail.weight[slot, f] / total)


@implements(clear, CategoricalSpec)
def _clear(spec, tail, slot):
    copy_row(spec.prior, tail.weight, slot)
    for j in range(spec.columns.size):
        _set_column(spec, tail, slot, j)


@implements(update, CategoricalSpec)
def _update(spec, tail, slot, block, r, sign):
    data, start = block.data, block.start
    for j in range(spec.columns.size):
        x = data[start + r, spec.columns[j]]
        if not np.isnan(x):
            tail.weight[slot, spec.starts[j] + np.int64(x)] += sign
            _set_column(spec, tail, slot, j)


@implements(evaluate, CategoricalSpec)
def _evaluate(spec, tail, slot, block, begin, end, out):
    data, start = block.data, block.start
    for j in range(spec.columns.size):
        for r in range(begin, end):
            x = data[start + r, spec.columns[j]]
            if not np.isnan(x):
                out[r] += tail.log_share[slot, spec.starts[j] + np.int64(x)]


@implements(screen, CategoricalSpec)
def _screen(spec, tail, slot, block, begin, end, out):
    return None  # a probability is at most 1
