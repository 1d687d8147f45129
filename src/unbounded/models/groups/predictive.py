"""New groups given a draw: their proportions of the draw's atoms, by Gibbs sampling with everything else fixed.

Given a draw, an atom's predictive of a row is collapsed (its parameters are averaged over), and the top weights are
their means given the table counts. Column K is all that is not among the K atoms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unbounded.arrays import Array
from unbounded.likelihoods.base import Bound
from unbounded.models.groups.direct import sit_down
from unbounded.models.groups.measure import Hyper
from unbounded.models.groups.words.likelihood import BoundTokens
from unbounded.models.labelled.predictive import log_predictive, with_new


class Draw(NamedTuple):
    """What prediction needs of a draw: rows, tables and statistics of its atoms, and hyper-parameters."""

    counts: Array
    tables: Array
    statistics: Any
    hyper: Hyper

    @property
    def masses(self) -> Array:
        """gamma times the expected top weights, of each atom and (last) of all others."""
        alpha, gamma, _ = self.hyper
        return gamma * np.append(self.tables, alpha) / (self.tables.sum() + alpha)


def predictives(likelihood: Bound, draw: Draw, X: Any) -> tuple[Array, Array, Array]:
    """(table, index, log scale): row i has likelihoods table[index[i]] under each atom and a new one, times a scale."""
    if isinstance(likelihood, BoundTokens):
        eta, words = draw.hyper.eta, likelihood.n_features
        table = np.full((words, len(draw.counts) + 1), 1.0 / words)
        shares = (sparse.csr_matrix(draw.statistics).toarray() + eta) / (draw.counts + words * eta)[:, None]
        table[:, :-1] = shares.T
        return table, np.asarray(X), np.zeros(len(X))
    counts, statistics = with_new(draw.counts.astype(float), draw.statistics)
    if not likelihood.sparse and np.isnan(X).any():
        likelihood, statistics = likelihood.with_holes(counts, statistics)
    logs = log_predictive(likelihood, counts, statistics, X)
    top = logs.max(axis=0)
    return np.ascontiguousarray(np.exp(logs - top).T), np.arange(X.shape[0]), top + likelihood.log_base(X)


def fold_in(
    likelihood: Bound, draw: Draw, X: Any, sizes: Array, sweeps: int, key: np.uint64, keep: int = 1
) -> tuple[Array, Array]:
    """(labels [n], shares [groups, K + 1]): a Gibbs draw of new rows' atoms, and the mean of their groups' shares.

    Shares are posterior means given the labels, averaged over the last `keep` sweeps.
    """
    table, index, _ = predictives(likelihood, draw, X)
    return gibbs(table, index, draw.masses, sizes, sweeps, key, keep)


def gibbs(
    table: Array, index: Array, masses: Array, sizes: Array, sweeps: int, key: np.uint64, keep: int, first: int = 0,
    total: int | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """`fold_in` given the table of likelihoods; of `total` rows these may be some, from the first onwards."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    labels = np.zeros(len(index), np.int32)
    shares = np.zeros((len(sizes), table.shape[1]))
    total = len(index) if total is None else total
    sit_down(table, index, offsets, masses, labels, sweeps, keep, key, shares, first, total)
    return labels, shares


def completion(
    likelihood: Bound, draw: Draw, seen: tuple[Any, Array], rest: tuple[Any, Array], sweeps: int, key: np.uint64
) -> Array:
    """[n]: the log probability of each row of `rest` given the rows `seen` of its group, both (rows, group sizes).

    The shares of a group come from the rows seen, by Gibbs sampling; every row of the rest is then scored alone, with a
    distribution that sums to one over all values it might have.
    """
    _, shares = fold_in(likelihood, draw, seen[0], seen[1], sweeps, key, keep=max(1, sweeps // 2))
    table, index, scale = predictives(likelihood, draw, rest[0])
    group = np.repeat(np.arange(len(rest[1])), rest[1])
    return np.log(np.einsum("ik,ik->i", table[index], shares[group])) + scale
