"""Losses between partitions: the variation of information and Binder's, and what follows from draws under them.

Both are spreads of cluster sizes, less the spread of the contingency table of the two partitions:

    loss(c, d) = a (sum_c phi(n_c) - sum_cd phi(n_cd)) + (2 - a) (sum_d phi(n_d) - sum_cd phi(n_cd)),

phi(x) = x log x over n for the variation of information (in nats), x^2 over n^2 for Binder's loss. The first bracket is
what c has together and d apart, the second what d has together and c apart: a, the *merge cost* of the estimate c, is
1 for the plain losses; above it the estimate has more clusters, below it fewer (Dahl, Johnson and Mueller 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from unbounded.arrays import Array

KINDS = ("vi", "binder")
_DENSE = 4  # slots per row up to which pairs are numbered through a table rather than by sorting


class Loss(NamedTuple):
    kind: str = "vi"
    merge_cost: float = 1.0

    def phi(self, counts: Array) -> Array:
        value: Array = xlogy(counts, counts) if self.kind == "vi" else counts * counts
        return value

    def rise(self, counts: Array, weight: float) -> Array:
        """What phi gains where a weight is added."""
        return self.phi(counts + weight) - self.phi(counts)

    def spread(self, counts: Array) -> float:
        return float(self.phi(counts.astype(float)).sum())

    def per_row(self, n: int) -> float:
        """What to divide by, so that the loss does not grow with the number of rows."""
        return float(n if self.kind == "vi" else n * n)


DEFAULT = Loss("binder", 1.0)  # of point estimates; docs/estimates.md has the table it was chosen by


def check_loss(loss: Loss) -> None:
    if loss.kind not in KINDS:
        raise ValueError(f"loss must be one of {', '.join(map(repr, KINDS))}, got {loss.kind!r}.")
    if isinstance(loss.merge_cost, bool | str) or not 0.0 < loss.merge_cost < 2.0:
        raise ValueError(f"merge_cost must be a number between 0 and 2, got {loss.merge_cost!r}.")


def checked(draws: Sequence[Array]) -> list[Array]:
    """The draws as arrays; what the tables rely on is checked here, once."""
    draws = [np.asarray(draw) for draw in draws]
    n = draws[0].size if draws else 0
    if not n:
        raise ValueError("there are no draws to summarise, or they have no rows.")
    if any(draw.shape != (n,) or draw.dtype.kind not in "iu" for draw in draws):
        raise ValueError("every draw must be a vector of integer labels, one for each row.")
    if any(draw.min() < 0 or draw.max() >= n for draw in draws):
        raise ValueError("the labels of a draw must be 0 .. K-1, with K at most the number of rows.")
    return draws


def expected_loss(labels: Array, draws: Sequence[Array], loss: Loss = Loss()) -> float:
    """The mean loss between one partition and each of the draws, in time O(n S) whatever the numbers of clusters."""
    check_loss(loss)
    draws, own = checked(draws), np.unique(np.asarray(labels).ravel(), return_inverse=True)[1]
    if len(own) != len(draws[0]):
        raise ValueError(f"there are {len(own)} labels, but the draws have {len(draws[0])} rows.")
    apart, together, spread = 0.0, 0.0, loss.spread(np.bincount(own))
    for draw in draws:
        shared = loss.spread(np.bincount(pairs(own, draw)))
        together += spread - shared
        apart += loss.spread(np.bincount(draw)) - shared
    total = loss.merge_cost * max(together, 0.0) + (2.0 - loss.merge_cost) * max(apart, 0.0)  # mutant: merge cost
    return total / len(draws) / loss.per_row(len(own))


def distance(a: Array, b: Array, loss: Loss = Loss()) -> float:
    """The loss between two partitions, given by any labels."""
    return expected_loss(a, [np.unique(np.asarray(b).ravel(), return_inverse=True)[1]], loss)


def pairs(a: Array, b: Array) -> Array:
    """A number 0, 1, ... for each pair of labels that occurs, for every row."""
    width = int(b.max()) + 1
    size = (int(a.max()) + 1) * width
    codes = a.astype(np.int64) * width + b
    if size > _DENSE * len(codes) + 1024:
        return np.unique(codes, return_inverse=True)[1]
    seen = np.zeros(size, bool)
    seen[codes] = True
    return (np.cumsum(seen) - 1)[codes]


# ---- what draws say of pairs of rows


def similarity(draws: Sequence[Array], rows: Array) -> Array:
    """The posterior probability that two of the chosen rows share a cluster, for all pairs of them."""
    together = np.zeros((len(rows), len(rows)))
    for draw in draws:
        labels = np.asarray(draw)[rows]
        together += labels[:, None] == labels[None, :]
    return together / len(draws)


def uncertainty(labels: Array, draws: Sequence[Array]) -> Array:
    """How much the company of each row changes from draw to draw.

    Of all other rows that are with it in the estimate or in a draw, the share that is not with it in both; 0: it is
    always in the same company, 1: never.
    """
    total = np.zeros(len(labels))  # over companies without the row itself
    own = np.bincount(labels)
    for draw in draws:
        cells = pairs(labels, draw)
        both = np.bincount(cells)[cells]
        either = own[labels] + np.bincount(draw)[draw] - both
        total += (either - both) / np.maximum(either - 1, 1)  # mutant: company
    return total / len(draws)
