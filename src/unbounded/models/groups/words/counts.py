"""How often each atom has each word: sparse tables that add up (docs/topics.md, "Words")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from unbounded.arrays import Array
from unbounded.compiled.jit import jit


@dataclass(frozen=True)
class WordTable:
    """Atoms as rows, their words in order: what shards report, since adding and cutting CSR matrices takes longer."""

    ends: Array
    words: Array
    times: Array

    def __add__(self, other: WordTable) -> WordTable:
        return WordTable(*_merge(self.ends, self.words, self.times, other.ends, other.words, other.times))

    def cut(self, atoms: int) -> tuple[WordTable, WordTable]:
        """The first so many atoms, and the others."""
        end = self.ends[atoms]
        first = WordTable(self.ends[: atoms + 1], self.words[:end], self.times[:end])
        return first, WordTable(self.ends[atoms:] - end, self.words[end:], self.times[end:])


def matrix(tables: Sequence[WordTable], n_words: int) -> Any:
    """The atoms of all tables, as CSR."""
    sizes = np.concatenate([np.diff(table.ends) for table in tables])
    words, times = (np.concatenate([getattr(table, name) for table in tables]) for name in ("words", "times"))
    return sparse.csr_matrix((times, words, np.append(0, np.cumsum(sizes))), (len(sizes), n_words))


def table(statistics: Any) -> WordTable:
    """The other way round."""
    return WordTable(statistics.indptr, statistics.indices, statistics.data)


def count(words: Array, labels: Array, by_word: Array, n_words: int, atoms: int) -> tuple[Array, WordTable]:
    """(tokens of each atom, its words); by_word sorts the rows."""
    counts, *table = _count(words, labels, by_word, n_words, atoms)
    return counts, WordTable(*table)


@jit
def _merge(ends, words, times, more_ends, more_words, more_times):
    size = words.size + more_words.size
    new_ends = np.zeros(ends.size, ends.dtype)
    new_words, new_times = np.empty(size, words.dtype), np.empty(size, times.dtype)
    n = 0
    for k in range(ends.size - 1):
        i, j = np.uint64(ends[k]), np.uint64(more_ends[k])
        last_i, last_j = np.uint64(ends[k + 1]), np.uint64(more_ends[k + 1])
        while i < last_i and j < last_j:
            a, b = words[i], more_words[j]
            new_words[n] = min(a, b)
            new_times[n] = (times[i] if a <= b else 0) + (more_times[j] if b <= a else 0)  # mutant: merge new times
            i += np.uint64(a <= b)
            j += np.uint64(b <= a)
            n += 1
        while i < last_i:
            new_words[n], new_times[n] = words[i], times[i]
            i += np.uint64(1)
            n += 1
        while j < last_j:
            new_words[n], new_times[n] = more_words[j], more_times[j]
            j += np.uint64(1)
            n += 1
        new_ends[k + 1] = n
    return new_ends, new_words[:n], new_times[:n]


@jit
def _count(words, labels, by_word, n_words, atoms):
    """Where a table of all cells is smaller than the list of the rows, it is filled instead."""
    if atoms * n_words <= labels.size:
        return _count_cells(words, labels, n_words, atoms)
    ends = np.zeros(atoms + 1, np.int32)
    for i in range(labels.size):
        ends[labels[i] + 1] += 1
    for k in range(atoms):
        ends[k + 1] += ends[k]
    place = ends[:-1].copy()
    found = np.empty(labels.size, np.int32)
    times = np.empty(labels.size, np.int32)
    begin = ends.copy()
    for j in range(labels.size):
        i = by_word[j]
        k = labels[i]
        w = words[i]
        if place[k] > begin[k] and found[place[k] - 1] == w:
            times[place[k] - 1] += 1
        else:
            found[place[k]] = w
            times[place[k]] = 1
            place[k] += 1
    total = 0
    for k in range(atoms):
        for j in range(begin[k], place[k]):
            found[total] = found[j]
            times[total] = times[j]
            total += 1
        ends[k + 1] = total
    return (begin[1:] - begin[:-1]).astype(np.int64), ends, found[:total].copy(), times[:total].copy()


@jit
def _count_cells(words, labels, n_words, atoms):
    cells = np.zeros((atoms, n_words), np.int32)
    for i in range(labels.size):
        cells[np.uint64(labels[i]), np.uint64(words[i])] += 1
    totals, ends = np.zeros(atoms, np.int64), np.zeros(atoms + 1, np.int32)
    found, times = np.empty(labels.size, np.int32), np.empty(labels.size, np.int32)
    n = 0
    for k in range(atoms):
        for w in range(n_words):
            if cells[k, w] > 0:
                found[n] = w
                times[n] = cells[k, w]
                totals[k] += cells[k, w]
                n += 1
        ends[k + 1] = n
    return totals, ends, found[:n].copy(), times[:n].copy()
