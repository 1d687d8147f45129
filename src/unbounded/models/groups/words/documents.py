"""Documents of a source as one vector of words, of which only the needed part is ever in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from unbounded.arrays import Array
from unbounded.sources import Source

LONGEST, MOST = 2**28, 2**40  # words of a document, and of a corpus


def lengths(documents: Source) -> Array:
    """The number of words of each document, in one pass."""
    sizes = np.concatenate([lengths_of(rows, first) for first, rows in documents.blocks()])
    check_total(sizes, MOST)
    return sizes


def lengths_of(rows: Any, first: int = 0) -> Array:
    """The number of words of each of these documents, the first of which has this number."""
    totals = np.asarray(sparse.csr_matrix(rows).astype(np.float64).sum(1)).ravel()
    if totals.max(initial=0.0) > LONGEST:
        longest = int(totals.argmax())
        raise ValueError(
            f"document {first + longest} has {totals[longest]:,.0f} words; there may be {LONGEST:,} at most."
        )
    return totals.astype(np.int64)


def check_total(sizes: Array, most: int, hint: str = "") -> None:
    if (total := int(sizes.sum())) > most:
        raise ValueError(f"the documents have {total:,} words; there may be {most:,} at most{hint}.")


@dataclass(frozen=True)
class Words:
    """A vector of words, document after document and in the order of the columns, that is cut between documents."""

    read_from: Source  # documents, a row of counts for each
    sizes: Array

    @cached_property
    def _offsets(self) -> Array:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def shape(self) -> tuple[int]:
        return (int(self._offsets[-1]),)

    def __getitem__(self, which: slice) -> Array:
        first, last = np.searchsorted(self._offsets, [which.start, which.stop]).tolist()
        parts = [_expanded(rows) for _, rows in self.read_from.blocks(first, last)]
        return np.concatenate([np.empty(0, np.int32), *parts])

    def of(self, documents: Array) -> Array:
        """The words of some documents, given in ascending order."""
        return _expanded(self.read_from[documents])

    def fingerprint(self) -> str:
        return self.read_from.fingerprint()


def _expanded(rows: Any) -> Array:
    counts = sparse.csr_matrix(rows)
    return np.repeat(counts.indices, counts.data.astype(np.int64)).astype(np.int32)  # mutant: words of documents
