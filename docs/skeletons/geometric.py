"""A likelihood to copy: columns of counts of failures before a success, x = 0, 1, 2, ..., with beta priors.

log f(x | p) = log p + x log(1 - p): the sufficient statistic of a column is x (and, only when the data have holes, 1
where the column is observed). Holes (NaN) are skipped, exactly. In the package this would be likelihoods/geometric.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betaln

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.compiled.jit import implements
from unbounded.likelihoods.base import Bound, Parameters, positive
from unbounded.likelihoods.columnwise import add_values, rows_seen, value_terms, values_in_lanes
from unbounded.likelihoods.operations import accumulate, clear, copy_row, evaluate, screen, update, write_terms

# ---- what the user writes


@dataclass(frozen=True)
class Geometric:
    """Columns of counts: P(x) = p (1 - p)^x, p ~ Beta(hits, misses); one number for all columns, or one for each."""

    hits: Any = 1.0
    misses: Any = 1.0

    name: ClassVar[str] = "geometric"

    def bind(self, columns: Columns) -> BoundGeometric:
        wrong = (columns.low < 0) | ~columns.whole
        if wrong.any():
            raise ValueError(f"Geometric: column {columns.index[wrong][0]} has values that are not counts.")
        hits, misses = (positive(value, name, columns.size) for name, value in vars(self).items())
        return BoundGeometric(columns, hits, misses)


# ---- the bound likelihood: NumPy, all atoms at once


@dataclass(frozen=True)
class BoundGeometric(Bound):
    columns: Columns
    hits0: Array
    misses0: Array

    @property
    def n_terms(self) -> int:
        return self.columns.size * (2 if self.columns.missing else 1)

    def terms(self, X: Array) -> Array:
        return value_terms(X, self.columns)

    def log_base(self, X: Array) -> Array:
        return np.zeros(len(X))

    def _posterior(self, counts: Array, statistics: Array) -> tuple[Array, Array]:
        d = self.columns.size
        return self.hits0 + rows_seen(self.columns, counts, statistics[:, d:]), self.misses0 + statistics[:, :d]

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        return (betaln(*self._posterior(counts, statistics)) - betaln(self.hits0, self.misses0)).sum(1)

    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        hits, misses = self._posterior(counts, statistics)
        return {"share": np.clip(rng.beta(hits, misses), 1e-300, 1.0 - 1e-16)}

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        hits, misses = self._posterior(counts, statistics)
        return {"share": hits / (hits + misses)}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        log_hit, log_miss = np.log(parameters["share"]), np.log1p(-parameters["share"])
        if self.columns.missing:
            return np.zeros(len(log_hit)), np.concatenate([log_miss, log_hit], axis=1)
        return log_hit.sum(1), log_miss

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        return rng.geometric(parameters["share"][labels]) - 1.0

    def spec(self, first: int = 0) -> tuple[Any, ...]:
        return (GeometricSpec(self.columns.index, first, int(self.columns.missing), self.hits0, self.misses0),)

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        return (GeometricTail(*(np.zeros((slots, self.columns.size)) for _ in range(2))),)

    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        hits, misses = self._posterior(counts, statistics)
        return (GeometricTail(np.broadcast_to(hits, misses.shape).copy(), misses),)


# ---- compiled: what the likelihood is, the state of atoms, and six operations on them


class GeometricSpec(NamedTuple):
    columns: Array
    first: int
    missing: int
    hits0: Array
    misses0: Array


class GeometricTail(NamedTuple):
    hits: Array
    misses: Array


@implements(write_terms, GeometricSpec)
def _write_terms(spec, block):
    values_in_lanes(spec, block)


@implements(accumulate, GeometricSpec)
def _accumulate(spec, data, rows, statistics):
    add_values(spec, data, rows, statistics)


@implements(clear, GeometricSpec)
def _clear(spec, tail, slot):
    copy_row(spec.hits0, tail.hits, slot)
    copy_row(spec.misses0, tail.misses, slot)


@implements(update, GeometricSpec)
def _update(spec, tail, slot, block, r, sign):
    terms = block.terms
    d = spec.columns.size
    for j in range(d):
        tail.hits[slot, j] += sign * (np.float64(terms[spec.first + d + j, r]) if spec.missing else 1.0)
        tail.misses[slot, j] += sign * np.float64(terms[spec.first + j, r])


@implements(evaluate, GeometricSpec)
def _evaluate(spec, tail, slot, block, begin, end, out):
    """B(hits + 1, misses + x) / B(hits, misses) for every column."""
    terms = block.terms
    d = spec.columns.size
    for j in range(d):
        hits, misses = tail.hits[slot, j], tail.misses[slot, j]
        constant = math.log(hits) + math.lgamma(hits + misses) - math.lgamma(misses)
        for r in range(begin, end):
            if spec.missing and terms[spec.first + d + j, r] == 0:
                continue
            x = np.float64(terms[spec.first + j, r])
            out[r] += constant + math.lgamma(misses + x) - math.lgamma(hits + misses + x + 1.0)


@implements(screen, GeometricSpec)
def _screen(spec, tail, slot, block, begin, end, out):
    return None  # a probability is at most 1
