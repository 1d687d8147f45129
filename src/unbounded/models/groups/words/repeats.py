"""Documents that repeat themselves (docs/topics.md): which words are fresh, and which fresh word every other repeats.

Given that, the fresh words are an ordinary corpus, of which everything else of the model is told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbounded.arrays import Array


def drawn(sizes: Array, after: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """(numbers of fresh words, which of all fresh words every word is) of new documents with so many words."""
    fresh: list[int] = []
    which: list[int] = []
    for size in sizes.tolist():
        begin, known = len(which), sum(fresh)
        fresh.append(0)
        for i in range(size):
            if rng.random() * (after + i) < after:
                which.append(known + fresh[-1])
                fresh[-1] += 1
            else:
                which.append(which[begin + int(rng.integers(i))])
    return np.array(fresh, np.int64), np.array(which, np.int64)


@dataclass
class Repeats:
    """The words of whole documents, each document's sorted, and the place of the fresh word that each one repeats."""

    words: Array
    offsets: Array  # of documents
    order: Array  # where each word is among the words as they were given
    sources: Array  # a fresh word's is its own place
    longest: int  # words of the longest document, also of other shards

    @classmethod
    def of(cls, words: Array, offsets: Array, longest: int) -> Repeats:
        """All words are fresh."""
        document = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        order = np.lexsort((words, document)).astype(np.int32)
        return cls(np.asarray(words)[order], offsets, order, np.arange(len(order), dtype=np.int32), longest)

    def places(self) -> Array:
        """Of fresh words."""
        return np.flatnonzero(np.bincount(self.sources, minlength=len(self.sources)))

    def fresh(self) -> tuple[Array, Array]:
        """The fresh words, and where those of each document begin and end."""
        places = self.places()
        return self.words[places], np.searchsorted(places, self.offsets)

    def spread(self, values: Array) -> Array:
        """Values of fresh words as values of all words, in the order as given."""
        of_place = np.empty(len(self.words), values.dtype)
        of_place[self.places()] = values
        out = np.empty_like(of_place)
        out[self.order] = of_place[self.sources]
        return out
