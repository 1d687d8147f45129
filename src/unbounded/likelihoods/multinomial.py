"""Rows of counts, such as bags of words, with a Dirichlet prior (docs/model.md, "Multinomial").

Dense rows or CSR; CSR is never made dense. The total of a row is taken as given. NaN is not allowed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from unbounded.arrays import Array, is_csr
from unbounded.columns import Columns
from unbounded.compiled.jit import implements
from unbounded.likelihoods.base import Bound, Parameters, positive
from unbounded.likelihoods.operations import accumulate, clear, copy_row, evaluate, screen, update, write_terms


@dataclass(frozen=True)
class Multinomial:
    """Rows of counts over V categories: x ~ Multinomial(total of the row, p), p ~ Dirichlet(concentration * centre).

    Parameters
    ----------
    concentration : float or None, default None
        Total prior weight; None: V / 10.
    centre : array or None, default None
        Prior mean of p; None: uniform.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(ub.Multinomial(concentration=20.0))
    """

    concentration: float | None = None
    centre: ArrayLike | None = None

    name: ClassVar[str] = "multinomial"

    def bind(self, columns: Columns) -> BoundMultinomial:
        """The likelihood with its prior fitted to these columns, which it checks.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.Multinomial().bind(describe(np.eye(4))).n_terms
        4
        """
        if columns.missing:
            raise ValueError("Multinomial: missing values (NaN) have no exact treatment here; drop or fill them.")
        wrong = (columns.low < 0) | ~columns.whole
        if wrong.any():
            raise ValueError(
                f"Multinomial: column {columns.index[wrong][0]} has values that are not counts (0, 1, 2, ...)."
            )
        size = columns.size
        total = size / 10 if self.concentration is None else positive(self.concentration, "concentration")
        weight = np.ones(size) if self.centre is None else positive(self.centre, "centre", size)
        return BoundMultinomial(columns, total * weight / weight.sum())


@dataclass(frozen=True)
class BoundMultinomial(Bound):
    columns: Columns
    prior: Array

    @property
    def n_terms(self) -> int:
        return self.columns.size

    def _dense(self, X: Any) -> Array:
        return np.asarray(X.todense() if is_csr(X) else X)[:, self.columns.index]

    def terms(self, X: Any) -> Array:
        return self._dense(X).astype(float)

    def log_base(self, X: Any) -> Array:
        if is_csr(X):
            total = np.asarray(X.sum(axis=1)).ravel()
            cells = np.add.reduceat(np.append(gammaln(X.data + 1.0), 0.0), np.minimum(X.indptr[:-1], X.nnz))
            return gammaln(total + 1.0) - np.where(np.diff(X.indptr) > 0, cells, 0.0)
        x = self._dense(X)
        return gammaln(x.sum(1) + 1.0) - gammaln(x + 1.0).sum(1)

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        posterior = self.prior + statistics
        cells = (gammaln(posterior) - gammaln(self.prior)).sum(1)
        return cells + gammaln(self.prior.sum()) - gammaln(posterior.sum(1))  # mutant: multinomial marginal

    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        gamma = np.maximum(rng.standard_gamma(self.prior + statistics), 1e-300)
        return {"share": gamma / gamma.sum(1, keepdims=True)}

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        posterior = self.prior + statistics
        return {"share": posterior / posterior.sum(1, keepdims=True)}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        return np.zeros(len(parameters["share"])), np.log(parameters["share"])

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        """Every row gets the average total of the rows the likelihood was bound to."""
        total = max(1, round(float(self.columns.mean.sum())))
        return rng.multinomial(total, parameters["share"][labels]).astype(float)

    def with_holes(self, counts: Array, statistics: Array) -> tuple[Bound, Array]:
        raise ValueError("Multinomial: missing values (NaN) have no exact treatment here; drop or fill them.")

    def spec(self, first: int = 0) -> tuple[Any, ...]:
        shape = (self.columns.index, first, self.prior, self.prior.sum())
        return ((SparseMultinomialSpec if self.columns.sparse else MultinomialSpec)(*shape),)

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        return (MultinomialTail(np.zeros((slots, self.columns.size)), np.zeros(slots)),)

    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        weight = self.prior + statistics
        return (MultinomialTail(weight, weight.sum(1)),)


class MultinomialSpec(NamedTuple):
    columns: Array
    first: int
    prior: Array
    total: float


class SparseMultinomialSpec(NamedTuple):
    columns: Array
    first: int
    prior: Array
    total: float


class MultinomialTail(NamedTuple):
    weight: Array
    total: Array


@implements(write_terms, MultinomialSpec)
def _write_terms(spec, block):
    data, start, size, terms = block.data, block.start, block.size, block.terms
    for j in range(spec.columns.size):
        c = spec.columns[j]
        for r in range(terms.shape[1]):
            terms[spec.first + j, r] = data[start + r, c] if r < size else 0.0


@implements(accumulate, MultinomialSpec)
def _accumulate(spec, data, rows, statistics):
    for i in range(rows.size):
        for j in range(spec.columns.size):
            statistics[spec.first + j] += data[rows[i], spec.columns[j]]


@implements(clear, MultinomialSpec)
def _clear(spec, tail, slot):
    copy_row(spec.prior, tail.weight, slot)
    tail.total[slot] = spec.total


@implements(update, MultinomialSpec)
def _update(spec, tail, slot, block, r, sign):
    terms = block.terms
    for j in range(spec.columns.size):
        x = np.float64(terms[spec.first + j, r])
        tail.weight[slot, j] += sign * x
        tail.total[slot] += sign * x


@implements(evaluate, MultinomialSpec)
def _evaluate(spec, tail, slot, block, begin, end, out):
    terms = block.terms
    for r in range(begin, end):
        total, value = 0.0, 0.0
        for j in range(spec.columns.size):
            x = np.float64(terms[spec.first + j, r])
            if x > 0:
                total += x
                weight = tail.weight[slot, j]
                value += math.log(weight) if x == 1.0 else math.lgamma(weight + x) - math.lgamma(weight)
        out[r] += value + math.lgamma(tail.total[slot]) - math.lgamma(tail.total[slot] + total)


@implements(screen, MultinomialSpec)
def _screen(spec, tail, slot, block, begin, end, out):
    return None  # a probability is at most 1


@implements(write_terms, SparseMultinomialSpec)
def _write_terms_sparse(spec, block):
    return None


@implements(accumulate, SparseMultinomialSpec)
def _accumulate_sparse(spec, data, rows, statistics):
    for i in range(rows.size):
        for q in range(data.indptr[rows[i]], data.indptr[rows[i] + 1]):
            statistics[data.indices[q]] += data.values[q]


@implements(clear, SparseMultinomialSpec)
def _clear_sparse(spec, tail, slot):
    copy_row(spec.prior, tail.weight, slot)
    tail.total[slot] = spec.total


@implements(update, SparseMultinomialSpec)
def _update_sparse(spec, tail, slot, block, r, sign):
    data, start = block.data, block.start
    for q in range(data.indptr[start + r], data.indptr[start + r + 1]):
        tail.weight[slot, data.indices[q]] += sign * data.values[q]
        tail.total[slot] += sign * data.values[q]


@implements(evaluate, SparseMultinomialSpec)
def _evaluate_sparse(spec, tail, slot, block, begin, end, out):
    data, start = block.data, block.start
    for r in range(begin, end):
        total, value = 0.0, 0.0
        for q in range(data.indptr[start + r], data.indptr[start + r + 1]):
            x = np.float64(data.values[q])
            if x > 0:
                total += x
                weight = tail.weight[slot, data.indices[q]]
                value += math.log(weight) if x == 1.0 else math.lgamma(weight + x) - math.lgamma(weight)
        out[r] += value + math.lgamma(tail.total[slot]) - math.lgamma(tail.total[slot] + total)


@implements(screen, SparseMultinomialSpec)
def _screen_sparse(spec, tail, slot, block, begin, end, out):
    return None  # a probability is at most 1
