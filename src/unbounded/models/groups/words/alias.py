"""Walker's alias tables (1977): a draw among n weights reads one entry, whatever n is.

Words have one over the chunks of their second sum (tokens.py), if these are many and the word is frequent on a shard.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unbounded.compiled.jit import inline, jit

FEW = 64  # entries: a search among fewer reads what is in the cache anyway, and a table is no quicker
WORTH = 32  # tokens of a word for each entry of its table, fewer of which do not pay for it


class Aliases(NamedTuple):
    row: Any  # [words]: which table a word has, -1 for none
    tables: Any  # [tables, n, 2]: the chance to stay in an entry, and where to go from it otherwise


@jit
def build(weights, n, frequency, least):
    """Tables of weights[w, :n] for the words that occur `least` times or more."""
    row = np.full(weights.shape[0], -1, np.int32)
    n_tables = 0
    for w in range(frequency.size if n > 0 else 0):
        if frequency[w] >= least:
            row[w] = n_tables
            n_tables += 1
    tables, order = np.empty((n_tables, n, 2)), np.empty(n, np.int64)
    for w in range(frequency.size):
        if row[w] >= 0:
            _fill(weights[w], tables[row[w]], order)
    return Aliases(row, tables)


@jit
def _fill(weights, table, order):
    """Entries below the mean are filled up from those above it (Vose 1991); order: the former from the left, the
    latter from the right."""
    n = order.size
    total = 0.0
    for k in range(n):
        total += weights[k]
    small, large = 0, n
    for k in range(n):
        table[k, 0] = weights[k] * (n / total)
        table[k, 1] = k
        if table[k, 0] < 1.0:
            order[small] = k
            small += 1
        else:
            large -= 1
            order[large] = k
    while small > 0 and large < n:
        small -= 1
        k, giver = order[small], order[large]
        table[k, 1] = giver
        table[giver, 0] -= 1.0 - table[k, 0]
        if table[giver, 0] < 1.0:
            large += 1
            order[small] = giver
            small += 1
    for j in range(small):
        table[order[j], 0] = 1.0
    for j in range(large, n):
        table[order[j], 0] = 1.0


@inline
def draw(tables, row, u):
    """(entry, a new uniform number) for u in [0, 1), also where rounding took u to 1."""
    n = tables.shape[1]
    x = u * n
    k = min(int(x), n - 1)
    x -= k
    chance = tables[row, k, 0]
    if x < chance:
        return k, x / chance
    if chance < 1.0:
        return int(tables[row, k, 1]), (x - chance) / (1.0 - chance)  # mutant: draw result
    return k, x
