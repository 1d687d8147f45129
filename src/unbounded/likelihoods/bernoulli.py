"""Independent yes/no columns with beta priors (docs/model.md, "Bernoulli"). Holes (NaN) are skipped, exactly.

Terms: x for each column and, only when the data have holes, 1 where the column is observed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.compiled.jit import implements, jit
from unbounded.likelihoods.base import Bound, Parameters, positive
from unbounded.likelihoods.columnwise import add_values, rows_seen, value_terms, values_in_lanes
from unbounded.likelihoods.operations import accumulate, clear, copy_row, evaluate, screen, update, write_terms


@dataclass(frozen=True)
class Bernoulli:
    """Columns of 0 and 1: x_d ~ Bernoulli(p), p ~ Beta(yes, no).

    Parameters
    ----------
    yes : float, array or None, default None
        Prior count of ones, of all columns or of each. None: the column's (slightly smoothed) mean times 2.
    no : float, array or None, default None
        Prior count of zeros. None: what is left of 2.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(ub.Bernoulli(yes=0.1, no=0.1))  # pure atoms
    """

    yes: ArrayLike | None = None
    no: ArrayLike | None = None

    name: ClassVar[str] = "bernoulli"

    def bind(self, columns: Columns) -> BoundBernoulli:
        """The likelihood with its prior fitted to these columns, which it checks.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.Bernoulli().bind(describe(np.eye(4))).n_terms
        4
        """
        wrong = (columns.low < 0) | (columns.high > 1) | ~columns.whole
        if wrong.any():
            raise ValueError(f"Bernoulli: column {columns.index[wrong][0]} has values other than 0, 1 and NaN.")
        seen = columns.n_rows - columns.holes
        share = (np.nan_to_num(columns.mean) * seen + 1.0) / (seen + 2.0)
        yes = 2.0 * share if self.yes is None else positive(self.yes, "yes", columns.size)
        no = 2.0 * (1.0 - share) if self.no is None else positive(self.no, "no", columns.size)
        return BoundBernoulli(columns, yes, no)


@dataclass(frozen=True)
class BoundBernoulli(Bound):
    columns: Columns
    yes0: Array
    no0: Array

    @property
    def n_terms(self) -> int:
        return self.columns.size * (2 if self.columns.missing else 1)

    def terms(self, X: Array) -> Array:
        return value_terms(X, self.columns)

    def log_base(self, X: Array) -> Array:
        return np.zeros(len(X))

    def _posterior(self, counts: Array, statistics: Array) -> tuple[Array, Array]:
        d = self.columns.size
        n = rows_seen(self.columns, counts, statistics[:, d:])
        return self.yes0 + statistics[:, :d], self.no0 + n - statistics[:, :d]  # mutant: bernoulli posterior

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        return (betaln(*self._posterior(counts, statistics)) - betaln(self.yes0, self.no0)).sum(1)

    def draw(self, counts: Array, statistics: Array, rng: np.random.Generator) -> Parameters:
        share = rng.beta(*self._posterior(counts, statistics))
        return {"share": np.clip(share, 1e-300, 1.0 - 1e-16)}

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        yes, no = self._posterior(counts, statistics)
        return {"share": yes / (yes + no)}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        share = parameters["share"]
        no = np.log1p(-share)
        if self.columns.missing:
            return np.zeros(len(share)), np.concatenate([np.log(share) - no, no], axis=1)
        return no.sum(1), np.log(share) - no

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        share = parameters["share"][labels]
        return (rng.random(share.shape) < share).astype(float)

    def spec(self, first: int = 0) -> tuple[Any, ...]:
        return (BernoulliSpec(self.columns.index, first, int(self.columns.missing), self.yes0, self.no0),)

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        cells = [np.zeros((slots, self.columns.size)) for _ in range(4)]
        return (BernoulliTail._make([*cells, np.zeros(slots)]),)

    def pack(self, counts: Array, statistics: Array, lanes: int) -> tuple[Any, ...]:
        (tail,) = self.tail(len(counts), lanes)
        (spec,) = self.spec()
        tail.yes[:], tail.no[:] = self._posterior(counts, statistics)
        for slot in range(len(counts)):
            _set_logs(spec, tail, slot)
        return (tail,)


class BernoulliSpec(NamedTuple):
    columns: Array
    first: int
    missing: int
    yes0: Array
    no0: Array


class BernoulliTail(NamedTuple):
    yes: Array
    no: Array
    log_odds: Array
    log_no: Array
    total: Array  # sum of log_no


@implements(write_terms, BernoulliSpec)
def _write_terms(spec, block):
    values_in_lanes(spec, block)


@implements(accumulate, BernoulliSpec)
def _accumulate(spec, data, rows, statistics):
    add_values(spec, data, rows, statistics)


@jit
def _set_logs(spec, tail, slot):
    total = 0.0
    for j in range(spec.columns.size):
        yes, no = tail.yes[slot, j], tail.no[slot, j]
        tail.log_no[slot, j] = math.log(no / (yes + no))
        tail.log_odds[slot, j] = math.log(yes / no)
        total += tail.log_no[slot, j]
    tail.total[slot] = total


@implements(clear, BernoulliSpec)
def _clear(spec, tail, slot):
    copy_row(spec.yes0, tail.yes, slot)
    copy_row(spec.no0, tail.no, slot)
    _set_logs(spec, tail, slot)


@implements(update, BernoulliSpec)
def _update(spec, tail, slot, block, r, sign):
    terms = block.terms
    d = spec.columns.size
    for j in range(d):
        x = np.float64(terms[spec.first + j, r])
        seen = np.float64(terms[spec.first + d + j, r]) if spec.missing else 1.0
        tail.yes[slot, j] += sign * x
        tail.no[slot, j] += sign * (seen - x)
    _set_logs(spec, tail, slot)


@implements(evaluate, BernoulliSpec)
def _evaluate(spec, tail, slot, block, begin, end, out):
    terms = block.terms
    d = spec.columns.size
    if not spec.missing:
        total = tail.total[slot]
        for r in range(begin, end):
            out[r] += total
    for j in range(d):
        odds, no = tail.log_odds[slot, j], tail.log_no[slot, j]
        if spec.missing:
            for r in range(begin, end):
                out[r] += odds * terms[spec.first + j, r] + no * terms[spec.first + d + j, r]
        else:
            for r in range(begin, end):
                out[r] += odds * terms[spec.first + j, r]


@implements(screen, BernoulliSpec)
def _screen(spec, tail, slot, block, begin, end, out):
    top = 0.0 if spec.missing else tail.total[slot]
    if not spec.missing:
        for j in range(spec.columns.size):
            top += max(0.0, tail.log_odds[slot, j])
    for r in range(begin, end):
        out[r] += top
