"""Predictive densities given a draw: collapsed, so that one draw of Z already averages over its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbounded.arrays import Array, is_csr
from unbounded.compiled.jit import jit
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.likelihoods.operations import Block, evaluate, write_terms
from unbounded.rows import rows_of

_LANES = 256


def log_predictive(likelihood: Bound, counts: Array, statistics: Array, X: Any) -> Array:
    """[K, n]: log f(x_i | rows of atom k), without log_base, for rows that are not among them."""
    n = X.shape[0]
    out = np.empty((len(counts), n))
    spec = likelihood.spec()
    tail = likelihood.pack(np.asarray(counts, float), statistics, _LANES)
    terms = np.ones((1 if likelihood.columns.sparse else likelihood.n_terms + 1, _LANES))
    for start in range(0, n, _LANES):
        size = min(_LANES, n - start)
        block = np.empty((len(counts), _LANES))
        _predictive(spec, tail, len(counts), Block(rows_of(X, start, start + size), 0, size, terms), block)
        out[:, start : start + size] = block[:, :size]
    if likelihood.imputed.size and not is_csr(X):
        holes = np.isnan(X[:, likelihood.columns.index]).any(axis=1)
        if holes.any():
            out[:, holes] = likelihood.log_predictive_missing(np.asarray(counts, float), statistics, X[holes])
    return out


def log_densities(likelihood: Bound, parameters: Parameters, X: Any) -> Array:
    """[n, K + 1]: log densities of rows (of their cells that are observed) given the parameters of atoms and, last,
    under a new atom, whose parameters are integrated out."""
    new = log_predictive(likelihood, np.zeros(1), np.zeros((1, likelihood.n_terms)), X)
    return np.concatenate([likelihood.log_given(parameters, X), new.T], axis=1) + likelihood.log_base(X)[:, None]


def with_new(counts: Array, statistics: Array) -> tuple[Array, Array]:
    """The same atoms and an empty one after them: a new atom."""
    return np.append(counts, 0.0), np.concatenate([statistics, np.zeros((1, statistics.shape[1]))])


@jit
def _predictive(specs, tail, slots, block, out):
    """out[k, r]: log predictive of the block's rows under each of the packed atoms."""
    write_terms(specs, block)
    for k in range(slots):
        column = out[k]
        for r in range(block.size):
            column[r] = 0.0
        evaluate(specs, tail, k, block, 0, block.size, column)
