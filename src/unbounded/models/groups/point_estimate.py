"""Point estimates of topics: one draw names them, and every other draw is read in its terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.disk import allocate
from unbounded.models.groups.shard import group_blocks
from unbounded.models.labelled.losses import expected_loss
from unbounded.randomness import generator

_REFERENCE_ROWS = 20_000


def reference(labels: Sequence[Array]) -> Array:
    """The labels of the most central draw, largest topic first."""
    central = labels[_medoid(labels)]
    counts = sum(np.bincount(central[own], minlength=int(central.max()) + 1) for own in blocks(len(central)))
    rank = np.argsort(np.argsort(-np.asarray(counts), kind="stable"))
    named = allocate(central.shape, rank.dtype)
    for own in blocks(len(central)):
        named[own] = rank[central[own]]
    return named


def _medoid(labels: Sequence[Array]) -> int:
    """The draw with the least mean variation of information to all others, on some of the rows."""
    n = len(labels[0])
    rows = generator(0, "reference").choice(n, min(n, _REFERENCE_ROWS), replace=False)
    few = [np.unique(z[rows], return_inverse=True)[1] for z in labels]
    return int(np.argmin([expected_loss(z, few) for z in few]))


def spread(labels: Array, named: Array) -> Array:
    """[K, T]: how the rows of a draw's atoms are spread over the topics that the reference names."""
    share = np.zeros((int(labels.max()) + 1, int(named.max()) + 1))
    for own in blocks(len(labels)):
        np.add.at(share, (labels[own], named[own]), 1.0)
    return share / share.sum(1, keepdims=True)


def proportions(labels: Array, groups: Array, masses: Array, share: Array) -> Iterator[tuple[slice, Array]]:
    """(groups, their expected shares of the topics) in a draw, some groups at a time; groups: their sizes."""
    offsets = np.append(0, np.cumsum(groups))
    for first, last in group_blocks(groups):
        own = labels[offsets[first] : offsets[last]]
        counts = np.zeros((last - first, len(masses)))
        np.add.at(counts, (np.repeat(np.arange(last - first), groups[first:last]), own), 1.0)
        counts += masses
        yield slice(first, last), (counts / counts.sum(1, keepdims=True)) @ share


def blocks(n: int, step: int = 2**20) -> Iterator[slice]:
    """Rows, some at a time: what is made of them stays small."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def sizes(counts: Array, share: Array) -> Array:
    """[T]: the share of all rows that a draw's atoms have, each counted for the topic that most of its rows are of."""
    return np.bincount(share.argmax(1), counts, share.shape[1]) / counts.sum()


def word_probabilities(shares: Sequence[Array], statistics: Sequence[Any], pseudo: Sequence[Any]) -> Array:
    """[T, words]: the probabilities of words in every topic, as the mean over draws."""
    total = np.zeros((shares[0].shape[1], statistics[0].shape[1]))
    for share, counts, more in zip(shares, statistics, pseudo, strict=True):
        expected = share.T @ counts + more
        total += expected / expected.sum(1, keepdims=True)
    return total / len(shares)
