"""Point estimates of topics: one draw names them, and every other draw is read in its terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.models.labelled.losses import expected_loss
from unbounded.randomness import generator

_REFERENCE_ROWS = 20_000


def reference(labels: Sequence[Array]) -> Array:
    """The labels of the most central draw, largest topic first."""
    central = labels[_medoid(labels)].astype(np.int64)
    rank = np.argsort(np.argsort(-np.bincount(central), kind="stable"))
    return rank[central]


def _medoid(labels: Sequence[Array]) -> int:
    """The draw with the least mean variation of information to all others, on some of the rows."""
    n = len(labels[0])
    rows = generator(0, "reference").choice(n, min(n, _REFERENCE_ROWS), replace=False)
    few = [np.unique(z[rows], return_inverse=True)[1] for z in labels]
    return int(np.argmin([expected_loss(z, few) for z in few]))


def spread(labels: Array, named: Array) -> Array:
    """[K, T]: how the rows of a draw's atoms are spread over the topics that the reference names."""
    share = np.zeros((int(labels.max()) + 1, int(named.max()) + 1))
    np.add.at(share, (labels, named), 1.0)
    return share / share.sum(1, keepdims=True)


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
